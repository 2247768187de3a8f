package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
)

// pair writes a certificate for localhost and its key, and returns the names of the
// files.
func (r *reloaded) pair(ca *testCA) (cert, key string) {
	r.Helper()
	leaf := ca.leaf(r.T, "localhost")
	private, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	if err != nil {
		r.Fatal(err)
	}
	return r.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]}))),
		r.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// trusting returns a client of the daemon, without connections, that trusts one authority.
func (r *reloaded) trusting(ca *testCA) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, r.address)
		},
	}
	r.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get asks the daemon for a page that needs no token, and reports whether it came over
// a connection that was there before.
func (r *reloaded) get(c *http.Client) (reused bool, err error) {
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
	_, port, err := net.SplitHostPort(r.address)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(r.Context(), trace), http.MethodGet, "https://localhost:"+port+"/healthz", http.NoBody)
	if err != nil {
		return false, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return reused, err
}

// wantCertificate connects anew, trusting each of two authorities.
func (r *reloaded) wantCertificate(of, not *testCA) {
	r.Helper()
	if _, err := r.get(r.trusting(of)); err != nil {
		r.Error(err)
	}
	if _, err := r.get(r.trusting(not)); err == nil {
		r.Error("the daemon has the other certificate")
	}
}

// TestReloadCertificate: SIGHUP makes a daemon use a new certificate for new connections;
// those that exist go on. A broken file changes nothing, and the daemon says so.
func TestReloadCertificate(t *testing.T) {
	t.Parallel()
	r := &reloaded{stdio: &stdio{T: t, dir: t.TempDir()}}
	old, next := newTestCA(t), newTestCA(t)
	cert, key := r.pair(old)
	r.serve("--tls-cert", cert, "--tls-key", key)
	r.wantCertificate(old, next)
	kept := r.trusting(old)
	if _, err := r.get(kept); err != nil {
		t.Fatal(err)
	}
	r.pair(next)
	r.wantCertificate(old, next) // until it is told
	r.reload("reloaded")
	r.wantCertificate(next, old)
	if reused, err := r.get(kept); err != nil || !reused {
		t.Errorf("the old connection: used again: %v, %v", reused, err)
	}
	r.write("key.pem", "broken")
	r.reload("the certificate: ")
	r.wantCertificate(next, old)
	if _, err := r.get(kept); err != nil {
		t.Error("the old connection, after a broken file:", err)
	}
	r.pair(old)
	r.reload("reloaded")
	r.wantCertificate(old, next)
}
