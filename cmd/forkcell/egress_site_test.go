package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// testCA signs the certificates of a lab's servers.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newTestCA(t *testing.T) *testCA {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lab"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	ca := &testCA{}
	var err error
	if ca.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ca.key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return ca
}

func (ca *testCA) leaf(t *testing.T, host string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// site is a server that counts what reaches it.
type site struct {
	host string
	port int // that the cell asks for
	addr string

	mu    sync.Mutex
	conns int
	from  []net.Addr // who connected, the test itself included
	own   int        // connections of the test itself
	seen  []string
}

// site starts an HTTPS server, with HTTP/1.1 and HTTP/2, under its own name.
func (l *lab) site(host string, h http.Handler) *site {
	l.Helper()
	s := &site{host: host, port: 443}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.URL.EscapedPath())
		s.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	server.Listener = counted{server.Listener, s}
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{l.ca.leaf(l.T, host)}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the test's own connections end early
	server.StartTLS()
	l.Cleanup(server.Close)
	s.addr = server.Listener.Addr().String()
	l.sites = append(l.sites, s)
	return s
}

// raw starts a TCP server. Without a host it is not pinned, and nil where it
// cannot listen.
func (l *lab) raw(host string, port int, network, listen string, serve func(net.Conn)) *site {
	l.Helper()
	listener, err := net.Listen(network, listen)
	if err != nil && host == "" {
		return nil // a host without IPv6
	}
	l.ok(err)
	s := &site{host: host, port: port, addr: listener.Addr().String()}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			c, err := counted{listener, s}.Accept()
			if err != nil {
				return
			}
			wait.Go(func() {
				defer func() { _ = c.Close() }()
				serve(c)
			})
		}
	})
	l.Cleanup(func() {
		_ = listener.Close()
		wait.Wait()
	})
	if host != "" {
		l.sites = append(l.sites, s)
	}
	return s
}

func (s *site) pin() string { return fmt.Sprintf("%s:%d=%s", s.host, s.port, s.addr) }

// counted counts connections.
type counted struct {
	net.Listener
	s *site
}

func (l counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.s.mu.Lock()
		l.s.conns++
		l.s.from = append(l.s.from, c.RemoteAddr())
		l.s.mu.Unlock()
	}
	return c, err
}

// untouched checks that nobody but the test has connected. Connections are
// accepted in their order, so once the test's own is served all earlier ones
// have been counted.
func (s *site) untouched(t *testing.T) {
	t.Helper()
	if conns, seen := s.traffic(t); conns != 0 || len(seen) != 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.Errorf("%s at %s saw %d connections and %q; in all from %v", s.host, s.addr, conns, seen, s.from)
	}
}

// saw checks which requests have arrived.
func (s *site) saw(t *testing.T, want ...string) {
	t.Helper()
	if _, seen := s.traffic(t); !slices.Equal(seen, want) {
		t.Errorf("%s saw %q, want %q", s.host, seen, want)
	}
}

func (s *site) traffic(t *testing.T) (conns int, seen []string) {
	t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	// With any protocol the server closes the connection after this; a server
	// that says nothing is read to its end as well.
	_, _ = c.Write([]byte("\n\n\n\n\n\n"))
	if half, ok := c.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own++
	return s.conns - s.own, slices.Clone(s.seen)
}

// payload is the answer of the test servers.
const payload = "the-payload"

// says is a server with one answer.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, text+"\n")
	})
}

// greetAndEcho sends first, as mail servers do, and then repeats what it receives.
func greetAndEcho(c net.Conn) {
	_, _ = io.WriteString(c, "220 "+payload+"\n")
	_, _ = io.Copy(c, c)
}

// files serves fixed contents by path, and nothing else.
func files(list map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := list[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, r.URL.Path, time.Time{}, bytes.NewReader(data))
	})
}
