package authority_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/forkcell/forkcell/internal/network/egress/authority"
)

// serve answers on loopback with a certificate for name; each connection gets
// one line if its handshake succeeds.
func serve(t *testing.T, a *authority.Authority, name string, change func(*tls.Config)) string {
	t.Helper()
	config, err := a.Config(name, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	config = config.Clone()
	if change != nil {
		change(config)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				s := tls.Server(c, config)
				if s.Handshake() == nil {
					_, _ = fmt.Fprintln(s, "served")
				}
				_ = s.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func TestUpstream(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	mutual := func(auth tls.ClientAuthType, version uint16) func(*tls.Config) {
		return func(c *tls.Config) { c.ClientAuth, c.MaxVersion = auth, version }
	}
	for _, c := range []struct {
		name, host   string
		roots        *x509.CertPool
		extra        []byte
		of           string
		change       func(*tls.Config)
		verify, mtls bool
		alert        bool // the error is known by itself
	}{
		{name: "good", host: "a.example", of: "a.example", roots: pool(t, a.PEM())},
		{name: "an address", host: "127.0.0.1", of: "127.0.0.1", roots: pool(t, a.PEM())},
		{name: "extra root", host: "a.example", of: "a.example", roots: pool(t, stranger.PEM()), extra: a.PEM()},
		{name: "extra to the host's", host: "a.example", of: "a.example", extra: a.PEM()},
		{name: "unknown root", host: "a.example", of: "a.example", roots: pool(t, stranger.PEM()), verify: true},
		{name: "the host's roots only", host: "a.example", of: "a.example", verify: true},
		{name: "another name", host: "b.example", of: "a.example", roots: pool(t, a.PEM()), verify: true},
		{name: "client certificate, optional", host: "a.example", of: "a.example", roots: pool(t, a.PEM()), change: mutual(tls.RequestClientCert, 0)},
		{name: "client certificate, 1.3", host: "a.example", of: "a.example", roots: pool(t, a.PEM()), change: mutual(tls.RequireAnyClientCert, 0), mtls: true, alert: true},
		{name: "client certificate, 1.2", host: "a.example", of: "a.example", roots: pool(t, a.PEM()), change: mutual(tls.RequireAnyClientCert, tls.VersionTLS12), mtls: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config, err := authority.UpstreamConfig(c.host, c.roots, c.extra)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := net.Dial("tcp", serve(t, a, c.of, c.change))
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			var requested atomic.Bool
			conn, err := authority.Handshake(t.Context(), raw, config, func() { requested.Store(true) })
			if err == nil {
				_, err = bufio.NewReader(conn).ReadString('\n')
			}
			var verify *authority.VerifyError
			if errors.As(err, &verify) != c.verify || authority.WantsClientCertificate(err) != c.alert || (err != nil) != (c.verify || c.mtls) {
				t.Errorf("%v", err)
			}
			if requested.Load() != (c.change != nil) {
				t.Errorf("a client certificate was requested: %v", requested.Load())
			}
			if c.verify && verify != nil && verify.Host != c.host {
				t.Errorf("the error is about %s", verify.Host)
			}
		})
	}
}

func TestUpstreamOther(t *testing.T) {
	t.Parallel()
	if _, err := authority.UpstreamConfig("*.example", nil, nil); !errors.Is(err, authority.ErrName) {
		t.Errorf("a wildcard: %v", err)
	}
	if _, err := authority.UpstreamConfig("a.example", nil, []byte("x")); !errors.Is(err, authority.ErrRoots) {
		t.Errorf("no roots: %v", err)
	}
	given := pool(t, newAuthority(t).PEM())
	before := given.Clone()
	if _, err := authority.UpstreamConfig("a.example", given, newAuthority(t).PEM()); err != nil || !given.Equal(before) {
		t.Errorf("the caller's pool was changed (%v)", err)
	}
	config, err := authority.UpstreamConfig("a.example", given, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	go func() {
		// The pipe holds nothing: the hello must be read while the answer is written.
		go func() { _, _ = io.Copy(io.Discard, server) }()
		_, _ = server.Write([]byte("HTTP/1.1 400 Bad Request\r\n"))
		_ = server.Close()
	}()
	_, err = authority.Handshake(t.Context(), client, config, func() {})
	var verify *authority.VerifyError
	if err == nil || errors.As(err, &verify) || authority.WantsClientCertificate(err) {
		t.Errorf("not TLS: %v", err)
	}
	_ = client.Close()
}
