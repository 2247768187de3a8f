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
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// The network is measured with this program as client: once on the host, once in
// a cell whose policy lets it make the same requests, inspected.

const (
	upstream   = "bench.example.com"
	smallBody  = 1 << 10
	largeBody  = 1 << 30
	quickLarge = 128 << 20
)

// network compares requests through an inspecting rule with direct ones.
func (b *bench) network(ctx context.Context) ([]row, error) {
	server, ca, err := serveHTTPS()
	if err != nil {
		return nil, err
	}
	defer server.Close()
	dir := filepath.Join(b.work, "client")
	if err := b.clientCell(ctx, dir, ca); err != nil {
		return nil, err
	}
	var own, direct clientReport
	for range b.times(3, 1) {
		d, err := b.client(ctx, server.Addr, filepath.Join(dir, "client"), nil)
		if err != nil {
			return nil, err
		}
		direct.add(d)
		o, err := b.client(ctx, server.Addr, "./client", []string{
			b.program, "--quiet", "run", "--resolve", upstream + ":443=" + server.Addr, "--ca", filepath.Join(b.work, "ca.pem"), "client", "--",
		})
		if err != nil {
			return nil, err
		}
		own.add(o)
	}
	return []row{
		rateRow("keep-alive requests of 1 KiB over HTTPS through an inspecting rule", own.perSecond(), direct.perSecond(), 0.35, "requests/s"),
		ratioRow("the same, a new connection each, p50", "direct", median(own.fresh), median(direct.fresh), 3),
		rateRow("a large download through an inspecting rule", own.bytesPerSecond()/1e6, direct.bytesPerSecond()/1e6, 0.3, "MB/s"),
	}, nil
}

// rateRow is met when own reaches at least limit times of peer.
func rateRow(what string, own, peer, limit float64, unit string) row {
	ratio := own / peer
	return row{
		what, fmt.Sprintf("%.0f %s", own, unit), fmt.Sprintf("%.0f direct", peer), fmt.Sprintf("%.2fx", ratio),
		fmt.Sprintf("at least %gx", limit), verdict(ratio >= limit),
	}
}

// clientCell makes a cell with this program in it and the policy for it.
func (b *bench) clientCell(ctx context.Context, dir string, ca []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	policy := fmt.Sprintf(`version: 1
network_policies:
  bench:
    name: bench
    endpoints: [{ host: %s, port: 443, protocol: rest, access: read-only }]
    binaries: [{ path: "/**" }]
`, upstream)
	for name, data := range map[string][]byte{
		filepath.Join(dir, "client"): self, filepath.Join(b.work, "ca.pem"): ca, filepath.Join(b.work, "network.yaml"): []byte(policy),
	} {
		if err := os.WriteFile(name, data, 0o755); err != nil {
			return err
		}
	}
	_, err = b.forkcell(ctx, 0, nil, "--json", "init", "client", "--from", dir, "--policy", filepath.Join(b.work, "network.yaml"))
	return err
}

// clientReport is what a client measured.
type clientReport struct {
	Requests   int           `json:"requests"`
	Kept       time.Duration `json:"kept"`
	Fresh      time.Duration `json:"fresh"` // the middle of single ones
	Bytes      int64         `json:"bytes"`
	Downloaded time.Duration `json:"downloaded"`

	fresh           []time.Duration
	rates, loadings []float64
}

func (r *clientReport) add(o clientReport) {
	r.fresh = append(r.fresh, o.Fresh)
	r.rates = append(r.rates, float64(o.Requests)/o.Kept.Seconds())
	r.loadings = append(r.loadings, float64(o.Bytes)/o.Downloaded.Seconds())
}

func (r *clientReport) perSecond() float64      { return middle(r.rates) }
func (r *clientReport) bytesPerSecond() float64 { return middle(r.loadings) }

// serveHTTPS answers with as many bytes as the path says.
func serveHTTPS() (*http.Server, []byte, error) {
	cert, ca, err := selfSigned(upstream)
	if err != nil {
		return nil, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	block := make([]byte, 1<<20)
	s := &http.Server{
		Addr: l.Addr().String(), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := strconv.ParseInt(r.URL.Path[1:], 10, 64)
			if err != nil {
				http.Error(w, "a number of bytes", http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
			for n > 0 {
				k, err := w.Write(block[:min(n, int64(len(block)))])
				if err != nil {
					return
				}
				n -= int64(k)
			}
		}),
	}
	go func() { _ = s.ServeTLS(l, "", "") }()
	return s, ca, nil
}

func selfSigned(name string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
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

// drain reads an answer to its end.
func drain(r *http.Response) (int64, error) {
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %s", r.Status)
	}
	return io.Copy(io.Discard, r.Body)
}
