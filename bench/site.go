package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const (
	upstream = "bench.example.com"
	small    = "1024"
	markPath = "mark"
)

// site is the upstream of every client: this process. It answers with as many
// bytes as the path says.
type site struct {
	server *http.Server
	addr   string
	ca     string // the file that verifies it
	block  []byte // what answers are made of

	mu      sync.Mutex
	watched int // the process whose clock is read at a mark
	marks   []mark
}

// mark is how much processor time had been used, user and system, when a client
// said that it begins or ends.
type mark struct {
	watched time.Duration // by the watched process, its children excluded
	site    time.Duration // by this process
}

// upstream starts the site once, and with it the cell that asks it.
func (b *bench) upstream(ctx context.Context) (*site, error) {
	if b.site != nil {
		return b.site, nil
	}
	s, err := serveHTTPS(b.work)
	if err != nil {
		return nil, err
	}
	b.site = s
	return s, b.clientCell(ctx)
}

func serveHTTPS(dir string) (*site, error) {
	cert, ca, err := selfSigned(upstream)
	if err != nil {
		return nil, err
	}
	s := &site{ca: filepath.Join(dir, "ca.pem"), block: make([]byte, 1<<20)}
	if err := os.WriteFile(s.ca, ca, 0o644); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.addr = l.Addr().String()
	s.server = &http.Server{
		ReadHeaderTimeout: time.Minute, Handler: s,
		// Clients that say nothing are a measurement.
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = s.server.ServeTLS(l, "", "") }()
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path[1:]
	if path == markPath {
		if err := s.mark(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
		return
	}
	n, err := strconv.ParseInt(path, 10, 64)
	if err != nil {
		http.Error(w, "a number of bytes", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	for n > 0 {
		k, err := w.Write(s.block[:min(n, int64(len(s.block)))])
		if err != nil {
			return
		}
		n -= int64(k)
	}
}

// mark reads the clocks.
func (s *site) mark() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	watched, err := processorTime(s.watched)
	if err != nil {
		return fmt.Errorf("processor time of process %d: %w", s.watched, err)
	}
	own, err := processorTime(os.Getpid())
	s.marks = append(s.marks, mark{watched, own})
	return err
}

// watch begins with the process that start returns; no mark is made before it is
// known.
func (s *site) watch(start func() (int, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = nil
	pid, err := start()
	s.watched = pid
	return err
}

// between is what was used from the first mark to the last.
func (s *site) between() mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.marks) < 2 {
		return mark{}
	}
	first, last := s.marks[0], s.marks[len(s.marks)-1]
	return mark{last.watched - first.watched, last.site - first.site}
}

// selfSigned makes a certificate that vouches for itself, by name and, for
// proxies that have no way to be told where a name is, by address.
func selfSigned(name string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
