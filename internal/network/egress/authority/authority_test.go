package authority_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/network/egress/authority"
)

func newAuthority(tb testing.TB) *authority.Authority {
	tb.Helper()
	a, err := authority.New("a cell")
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func pool(t *testing.T, pem []byte) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate in the PEM text")
	}
	return p
}

func TestLeaf(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	roots := pool(t, a.PEM())
	for _, c := range []struct {
		name, verify string
		dns          []string
		ip           string
	}{
		{"api.example.com", "api.example.com", []string{"api.example.com"}, ""},
		{"API.Example.COM.", "api.example.com", []string{"api.example.com"}, ""},
		{"localhost", "localhost", []string{"localhost"}, ""},
		{"a_b.example.com", "a_b.example.com", []string{"a_b.example.com"}, ""},
		{"192.0.2.7", "192.0.2.7", nil, "192.0.2.7"},
		{"2001:DB8::7", "2001:db8::7", nil, "2001:db8::7"},
		{"[2001:db8::7]", "2001:db8::7", nil, "2001:db8::7"},
		{"::ffff:192.0.2.7", "192.0.2.7", nil, "192.0.2.7"},
		{strings.Repeat("a23456789.", 20) + "example.com", strings.Repeat("a23456789.", 20) + "example.com", []string{strings.Repeat("a23456789.", 20) + "example.com"}, ""},
	} {
		cert, err := a.Leaf(c.name)
		if err != nil {
			t.Errorf("Leaf(%q): %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.dns, cert.Leaf.DNSNames); diff != "" {
			t.Errorf("Leaf(%q): names (-want +got)\n%s", c.name, diff)
		}
		if got := fmt.Sprint(cert.Leaf.IPAddresses); c.ip != "" && got != "["+c.ip+"]" || c.ip == "" && got != "[]" {
			t.Errorf("Leaf(%q): addresses %s", c.name, got)
		}
		chains, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: c.verify, Roots: roots})
		if err != nil {
			t.Errorf("Leaf(%q) does not verify: %v", c.name, err)
		} else if len(chains[0]) != 2 {
			t.Errorf("Leaf(%q): a chain of %d", c.name, len(chains[0]))
		}
		if cert.Leaf.IsCA || cert.Leaf.KeyUsage&x509.KeyUsageCertSign != 0 {
			t.Errorf("Leaf(%q) could sign", c.name)
		}
		if len(cert.Leaf.AuthorityKeyId) == 0 {
			t.Errorf("Leaf(%q) does not name its issuer's key, which strict verifiers want", c.name)
		}
	}
}

func TestLeafRefuses(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for _, name := range []string{
		"", ".", "*", "*.example.com", "a.*.com", "a..b", ".a", "a b", "a/b", "a:443", "-a.com", "a-.com", "ä.de", "a\x00b",
		"fe80::1%eth0", "[192.0.2.1]", "[a.b]", strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "aa",
	} {
		if _, err := a.Leaf(name); !errors.Is(err, authority.ErrName) {
			t.Errorf("Leaf(%q): %v, want ErrName", name, err)
		}
		if _, err := a.Config(name); !errors.Is(err, authority.ErrName) {
			t.Errorf("Config(%q): %v, want ErrName", name, err)
		}
	}
}

func TestLeafCache(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, err := authority.NewAt("c", func() time.Time { return clock })
	if err != nil {
		t.Fatal(err)
	}
	leaf := func(name string) *tls.Certificate {
		t.Helper()
		c, err := a.Leaf(name)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := leaf("a.example")
	if leaf("A.EXAMPLE.") != first {
		t.Error("one name in two spellings has two leaves")
	}
	clock = clock.Add(4 * 24 * time.Hour)
	second := leaf("a.example")
	if second == first {
		t.Error("a leaf was kept past half of its life")
	}
	for i := range authority.MaxLeaves - 1 {
		leaf(fmt.Sprintf("h%d.example", i))
	}
	if leaf("a.example") != second || a.Kept() != authority.MaxLeaves {
		t.Errorf("%d leaves kept, want %d with the first among them", a.Kept(), authority.MaxLeaves)
	}
	leaf("one-more.example")
	if leaf("a.example") != second || a.Kept() != authority.MaxLeaves {
		t.Error("the leaf used last was dropped")
	}

	clock = a.Expires().Add(-time.Hour)
	if last := leaf("b.example").Leaf.NotAfter; last.After(a.Expires()) {
		t.Errorf("a leaf lasts until %s, its issuer until %s", last, a.Expires())
	}
	clock = a.Expires()
	if _, err := a.Leaf("c.example"); !errors.Is(err, authority.ErrExpired) {
		t.Errorf("signed after the end: %v", err)
	}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a, err := authority.NewAt("c", func() time.Time { return clock })
	if err != nil {
		t.Fatal(err)
	}
	old, hashed := a.PEM(), a.HashedFile()
	clock = clock.Add(20 * 24 * time.Hour)
	if err := a.Renew(); err != nil {
		t.Fatal(err)
	}
	if a.HashedFile() != hashed {
		t.Error("the subject changed")
	}
	cert, err := a.Leaf("a.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, pem := range [][]byte{old, a.PEM()} {
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: "a.example", Roots: pool(t, pem), CurrentTime: clock}); err != nil {
			t.Errorf("a new leaf does not verify: %v", err)
		}
	}
}

// Two authorities, also of one name, do not vouch for each other.
func TestAuthoritiesDiffer(t *testing.T) {
	t.Parallel()
	a, b := newAuthority(t), newAuthority(t)
	cert, err := a.Leaf("a.example")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: "a.example", Roots: pool(t, b.PEM())}); err == nil {
		t.Error("a leaf verifies with another cell's authority")
	}
	if a.HashedFile() == b.HashedFile() {
		t.Error("two authorities have one subject")
	}
}

func TestConfigHandshake(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	roots := pool(t, a.PEM())
	for _, c := range []struct {
		name          string
		client, proto string
		versions      uint16
		refused       bool
	}{
		{name: "a.example", client: "h2", proto: "h2"},
		{name: "a.example", client: "http/1.1", proto: "http/1.1"},
		{name: "192.0.2.9", client: "h2", proto: "h2"},
		{name: "b.example", client: "h2", proto: "h2", versions: tls.VersionTLS12},
		{name: "c.example", client: "h2", versions: tls.VersionTLS11, refused: true},
	} {
		config, err := a.Config(c.name, "h2", "http/1.1")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := a.Config(c.name, "h2", "http/1.1"); err != nil || again != config {
			t.Errorf("%s: a second Config, which cannot resume sessions of the first (%v)", c.name, err)
		}
		client, server := net.Pipe()
		go func() {
			s := tls.Server(server, config)
			_ = s.Handshake()
			_ = server.Close()
		}()
		conn := tls.Client(client, &tls.Config{
			ServerName: c.name, RootCAs: roots, NextProtos: []string{c.client},
			MinVersion: tls.VersionTLS10, MaxVersion: c.versions,
		})
		err = conn.Handshake()
		if (err != nil) != c.refused {
			t.Errorf("%s: handshake: %v", c.name, err)
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != c.proto {
			t.Errorf("%s: protocol %q, want %q", c.name, got, c.proto)
		}
		_ = client.Close()
	}
}

func TestLeafConcurrently(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				if _, err := a.Config(fmt.Sprintf("h%d.example", (i+j)%10), "h2"); err != nil {
					t.Error(err)
				}
				_, _ = io.Discard.Write(a.PEM())
			}
		})
	}
	wg.Wait()
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		newAuthority(b)
	}
}

func BenchmarkLeaf(b *testing.B) {
	a := newAuthority(b)
	i := 0
	for b.Loop() {
		i++
		if _, err := a.Leaf(fmt.Sprintf("h%d.example", i)); err != nil {
			b.Fatal(err)
		}
	}
}
