package receipt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	// The standard library's signatures are the same bytes, but it computes its
	// tables at their first use, which takes longer than all else that a run signs
	// and hashes. It checks signatures.
	signing "github.com/cloudflare/circl/sign/ed25519"
)

const (
	pemPrivate = "PRIVATE KEY"
	pemPublic  = "PUBLIC KEY"
	// maxPEM is far above any Ed25519 key, and bounds the work on wrong files.
	maxPEM = 16 << 10
)

// Signer is a private signing key.
type Signer struct {
	private signing.PrivateKey
	id      string
}

// GenerateKey makes a new signing key.
func GenerateKey() (*Signer, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return newSigner(seed), nil
}

func newSigner(seed []byte) *Signer {
	s := &Signer{private: signing.NewKeyFromSeed(seed)}
	s.id = KeyID(s.Public())
	return s
}

// Public is the public half.
func (s *Signer) Public() ed25519.PublicKey {
	return bytes.Clone(s.private[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}

// KeyID is the id of the public half.
func (s *Signer) KeyID() string { return s.id }

// MarshalPrivate encodes the private key as PEM (PKCS#8).
func (s *Signer) MarshalPrivate() []byte {
	der := append([]byte(pkcs8Prefix), s.private.Seed()...)
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivate, Bytes: der})
}

// pkcs8Prefix is the encoding of RFC 8410 before the 32 bytes of a seed.
const pkcs8Prefix = "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"

// ParsePrivate reads what [Signer.MarshalPrivate] wrote.
func ParsePrivate(text []byte) (*Signer, error) {
	der, err := onePEM(text, pemPrivate)
	if err != nil {
		return nil, malformed("private key: %w", err)
	}
	seed, ok := bytes.CutPrefix(der, []byte(pkcs8Prefix))
	if !ok || len(seed) != ed25519.SeedSize {
		return nil, malformed("private key: not Ed25519 in PKCS#8")
	}
	return newSigner(seed), nil
}

// MarshalPublic encodes a public key as PEM (SPKI).
func MarshalPublic(pub ed25519.PublicKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: spki(pub)})
}

// ParsePublic reads a PEM (SPKI) Ed25519 public key.
func ParsePublic(text []byte) (ed25519.PublicKey, error) {
	der, err := onePEM(text, pemPublic)
	if err != nil {
		return nil, malformed("public key: %w", err)
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, malformed("public key: %w", err)
	}
	pub, ok := key.(ed25519.PublicKey)
	if !ok {
		return nil, malformed("public key: not Ed25519")
	}
	if !bytes.Equal(spki(pub), der) {
		return nil, malformed("public key: not in DER")
	}
	return pub, nil
}

// KeyID is the SHA-256 of the SPKI DER encoding, in lower hex.
func KeyID(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(spki(pub))
	return hex.EncodeToString(sum[:])
}

// spki is the fixed DER of RFC 8410: a prefix and the 32 bytes of the key.
func spki(pub ed25519.PublicKey) []byte {
	const prefix = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"
	return append([]byte(prefix), pub...)
}

func onePEM(text []byte, kind string) ([]byte, error) {
	if len(text) > maxPEM {
		return nil, fmt.Errorf("larger than %d bytes", maxPEM)
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("not PEM")
	case block.Type != kind:
		return nil, fmt.Errorf("PEM of type %q, not %q", block.Type, kind)
	case len(block.Headers) > 0:
		return nil, errors.New("PEM with headers")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("data after the PEM block")
	case !bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN ")):
		return nil, errors.New("data before the PEM block")
	}
	return block.Bytes, nil
}
