// Package authority is a cell's own certificate authority. It signs the leaf
// certificates with which the egress proxy answers in a host's name, and makes
// the bundles that let the cell's programs trust them. It also holds the TLS
// settings of both sides, and reads a ClientHello without answering it.
//
// The key is made with the authority and ends with the process: no file, pipe or
// message holds it, except where the memory of the cell is kept on disk (Save). The
// package does not lock
// memory, because Go copies a key while it computes with it. To keep the key
// off the disk, the process that holds an authority must not make core dumps
// (PR_SET_DUMPABLE 0, which also stops other processes of the user from reading
// its memory). The caller sets this before the cell can use the authority. The
// package does not protect against swap; a key found there is useless once the
// cell has ended.
//
// The certificate has no name constraints. Only programs of this one cell trust
// it, and everything they send passes the proxy, so a constraint would protect
// nothing. It would do harm: a policy may gain hosts after programs have read
// the certificate, and libraries disagree about constraints on addresses.
//
// The package must not know cells, policies, or what is done with a connection.
package authority

import (
	"container/list"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// How long certificates are valid. The caller renews the authority's
// certificate when a cell exists for longer. A leaf is replaced when half of
// its time has passed.
const (
	caLife   = 30 * 24 * time.Hour
	leafLife = 7 * 24 * time.Hour
	// before is for clocks that are a little behind.
	before = time.Hour
)

// maxLeaves bounds the leaves that are kept: a policy with wildcards lets the
// cell choose names.
const maxLeaves = 512

// ErrName is returned for a name that is neither one host's name nor an
// address.
var ErrName = errors.New("not the name or the address of one host")

// ErrExpired is returned when the authority's certificate is too old to sign
// with.
var ErrExpired = errors.New("the cell's certificate authority has expired")

// Authority signs for one cell. It is safe for concurrent use.
type Authority struct {
	key     *ecdsa.PrivateKey
	subject pkix.Name
	now     func() time.Time

	mu   sync.Mutex
	cert *x509.Certificate
	// leafKey is made with the first leaf and shared by all. One process holds
	// them all, so separate keys would protect nothing.
	leafKey *ecdsa.PrivateKey
	leaves  map[string]*list.Element
	used    *list.List // of *leaf, most recently used first
}

type leaf struct {
	name   string
	cert   *tls.Certificate
	config *tls.Config // of the last call of Config
}

// New makes a key and a certificate for it. The certificate contains the cell's
// name, for people who look at it.
func New(cellName string) (*Authority, error) { return newAt(cellName, time.Now) }

func newAt(cellName string, now func() time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of a certificate authority: %w", err)
	}
	// Subjects must differ even between two cells of one name: programs that
	// have seen both look issuers up by subject.
	var tag [4]byte
	_, _ = rand.Read(tag[:]) // never fails
	a := &Authority{
		key:     key,
		subject: pkix.Name{CommonName: "forkcell-" + plain(cellName) + " " + hex.EncodeToString(tag[:])},
		now:     now,
		leaves:  map[string]*list.Element{},
		used:    list.New(),
	}
	return a, a.Renew()
}

// plain keeps a common name short and free of characters that have more than
// one encoding.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, name)
	return name[:min(len(name), 40)]
}

// Renew replaces the authority's certificate by one that starts now. Key and
// subject stay, so new leaves also verify with the old certificate until it
// expires. Bundles made before should be made again.
func (a *Authority) Renew() error {
	now := a.now()
	template := &x509.Certificate{
		Subject:               a.subject,
		NotBefore:             now.Add(-before),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("make a certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("make a certificate authority: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cert = cert
	a.used.Init()
	clear(a.leaves)
	return nil
}

// Expires returns the end of the authority's certificate.
func (a *Authority) Expires() time.Time { return a.certificate().NotAfter }

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: a.certificate().Raw})
}

func (a *Authority) certificate() *x509.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cert
}

// Leaf returns a certificate for one host: a name without wildcards, or an
// address. Case, and a dot at the end of a name, make no difference.
func (a *Authority) Leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, err := a.leaf(name)
	if err != nil {
		return nil, err
	}
	return l.cert, nil
}

// Config returns the settings for answering in a host's name, with the protocols
// to offer in order of preference, as in "h2", "http/1.1". It is shared: the
// caller clones it before changing anything.
func (a *Authority) Config(name string, nextProtos ...string) (*tls.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, err := a.leaf(name)
	if err != nil {
		return nil, err
	}
	// One Config for one name, rather than one for all with a GetCertificate:
	// it holds the key of session tickets, and a session of one host must not
	// be resumed with another.
	if l.config == nil || !slices.Equal(l.config.NextProtos, nextProtos) {
		l.config = &tls.Config{
			Certificates: []tls.Certificate{*l.cert},
			NextProtos:   slices.Clone(nextProtos),
			MinVersion:   tls.VersionTLS12,
			// Short records spare a slow network from waiting; a cell is on
			// this host.
			DynamicRecordSizingDisabled: true,
		}
	}
	return l.config, nil
}

// leaf looks a leaf up, or makes it. The lock is held meanwhile: making one
// takes less time than starting a connection.
func (a *Authority) leaf(name string) (*leaf, error) {
	name, addr, err := hostName(name)
	if err != nil {
		return nil, err
	}
	now := a.now()
	if e, ok := a.leaves[name]; ok {
		l, _ := e.Value.(*leaf)
		if now.Before(l.cert.Leaf.NotBefore.Add(before + leafLife/2)) {
			a.used.MoveToFront(e)
			return l, nil
		}
		a.used.Remove(e)
		delete(a.leaves, name)
	}
	if !now.Before(a.cert.NotAfter) {
		return nil, ErrExpired
	}
	cert, err := a.issue(name, addr, now)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", name, err)
	}
	for a.used.Len() >= maxLeaves {
		oldest, _ := a.used.Remove(a.used.Back()).(*leaf)
		delete(a.leaves, oldest.name)
	}
	l := &leaf{name: name, cert: cert}
	a.leaves[name] = a.used.PushFront(l)
	return l, nil
}

func (a *Authority) issue(name string, addr netip.Addr, now time.Time) (_ *tls.Certificate, err error) {
	if a.leafKey == nil {
		if a.leafKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
	}
	template := &x509.Certificate{
		NotBefore:             now.Add(-before),
		NotAfter:              now.Add(leafLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	if addr.IsValid() {
		template.IPAddresses = []net.IP{addr.AsSlice()}
	} else {
		template.DNSNames = []string{name}
	}
	// Only old tools read the common name, and it is limited to 64 characters;
	// clients verify the alternative name.
	if len(name) <= 64 {
		template.Subject.CommonName = name
	} else {
		template.Subject.CommonName = "forkcell"
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leafKey.Public(), a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leafKey, Leaf: parsed}, nil
}

// hostName returns the canonical spelling of a name or an address.
func hostName(s string) (string, netip.Addr, error) {
	text := s
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		text = s[1 : len(s)-1]
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		if addr.Zone() != "" || text != s && addr.Is4() {
			return "", netip.Addr{}, ErrName
		}
		addr = addr.Unmap()
		return addr.String(), addr, nil
	}
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return "", netip.Addr{}, ErrName
	}
	b := []byte(s)
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", netip.Addr{}, ErrName
		}
	}
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return "", netip.Addr{}, ErrName
		}
	}
	return string(b), netip.Addr{}, nil
}
