// Package sshkey reads the formats of SSH keys: public keys, signatures, files of
// private keys, and lists of known hosts.
//
// It has the small part of the format that an agent needs, on the cryptography of the
// standard library. It must not know agents, cells or policies.
package sshkey

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
)

// Types of keys, and algorithms of signatures where they differ.
const (
	Ed25519   = "ssh-ed25519"
	RSA       = "ssh-rsa"
	RSASHA256 = "rsa-sha2-256"
	RSASHA512 = "rsa-sha2-512"

	ecdsaPrefix = "ecdsa-sha2-"
)

// minRSA is the smallest RSA key in bits that is accepted.
const minRSA = 2048

// ErrSignature is returned for a signature that does not verify.
var ErrSignature = errors.New("the signature does not verify")

// PublicKey is a public key that can verify signatures.
type PublicKey struct {
	blob []byte
	kind string
	key  crypto.PublicKey
}

// Blob returns the key in the wire format.
func (k *PublicKey) Blob() []byte { return k.blob }

// Type returns the type of the key.
func (k *PublicKey) Type() string { return k.kind }

// Fingerprint returns the fingerprint of the key.
func (k *PublicKey) Fingerprint() string { return Fingerprint(k.blob) }

// Text returns the key as files of public keys have it: type and base64.
func (k *PublicKey) Text() string { return k.kind + " " + base64.StdEncoding.EncodeToString(k.blob) }

// Fingerprint returns the SHA-256 fingerprint of a key in the wire format, as
// ssh-keygen prints it.
func Fingerprint(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// TypeOf returns the type of a key in the wire format; "" if it has none.
func TypeOf(blob []byte) string {
	r := NewReader(blob)
	kind := r.String()
	if !r.Ok() {
		return ""
	}
	return kind
}

// ParsePublic reads a public key in the wire format.
func ParsePublic(blob []byte) (*PublicKey, error) {
	k := &PublicKey{blob: bytes.Clone(blob), kind: TypeOf(blob)}
	r := NewReader(k.blob)
	_ = r.Bytes() // the type
	var err error
	switch curve := curveOf(k.kind); {
	case k.kind == Ed25519:
		k.key, err = parseEd25519(r)
	case k.kind == RSA:
		k.key, err = parseRSA(r)
	case curve != nil:
		k.key, err = parseECDSA(r, curve, k.kind)
	default:
		return nil, fmt.Errorf("keys of the type %q are not supported", k.kind)
	}
	if err != nil {
		return nil, err
	}
	if !r.Done() {
		return nil, errMalformed
	}
	return k, nil
}

var errMalformed = errors.New("malformed key")

func parseEd25519(r *Reader) (crypto.PublicKey, error) {
	b := r.Bytes()
	if len(b) != ed25519.PublicKeySize {
		return nil, errMalformed
	}
	return ed25519.PublicKey(b), nil
}

func parseRSA(r *Reader) (crypto.PublicKey, error) {
	e, n := r.number(), r.number()
	if !r.Ok() || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 || n.BitLen() > 16384 {
		return nil, errMalformed
	}
	if n.BitLen() < minRSA {
		return nil, fmt.Errorf("an RSA key of %d bits is too short; at least %d are needed", n.BitLen(), minRSA)
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
}

// number returns the next number, which is positive and has no leading zeros.
func (r *Reader) number() *big.Int {
	b := r.Bytes()
	if len(b) == 0 || b[0]&0x80 != 0 || len(b) > 1 && b[0] == 0 && b[1]&0x80 == 0 {
		r.bad = true
		return new(big.Int)
	}
	return new(big.Int).SetBytes(b)
}

func parseECDSA(r *Reader, curve elliptic.Curve, kind string) (crypto.PublicKey, error) {
	name, point := r.String(), r.Bytes()
	if ecdsaPrefix+name != kind {
		return nil, errMalformed
	}
	key, err := ecdsa.ParseUncompressedPublicKey(curve, point)
	if err != nil {
		return nil, errMalformed
	}
	return key, nil
}

// curveOf returns the curve of a type of key; nil for others.
func curveOf(kind string) elliptic.Curve {
	switch kind {
	case ecdsaPrefix + "nistp256":
		return elliptic.P256()
	case ecdsaPrefix + "nistp384":
		return elliptic.P384()
	case ecdsaPrefix + "nistp521":
		return elliptic.P521()
	}
	return nil
}

// digest returns the hash that a curve or an algorithm of RSA signs.
func digest(bits int, data []byte) (crypto.Hash, []byte) {
	switch {
	case bits <= 256:
		sum := sha256.Sum256(data)
		return crypto.SHA256, sum[:]
	case bits <= 384:
		sum := sha512.Sum384(data)
		return crypto.SHA384, sum[:]
	}
	sum := sha512.Sum512(data)
	return crypto.SHA512, sum[:]
}

// rsaBits returns the size of the hash of an algorithm of RSA; 0 for an unknown one,
// and for the one with SHA-1.
func rsaBits(algorithm string) int {
	switch algorithm {
	case RSASHA256:
		return 256
	case RSASHA512:
		return 512
	}
	return 0
}

// Verify checks a signature in the wire format. Signatures with SHA-1 do not verify.
func (k *PublicKey) Verify(data, signature []byte) error {
	r := NewReader(signature)
	algorithm, value := r.String(), r.Bytes()
	if !r.Done() {
		return ErrSignature
	}
	valid := false
	switch key := k.key.(type) {
	case ed25519.PublicKey:
		valid = algorithm == k.kind && ed25519.Verify(key, data, value)
	case *ecdsa.PublicKey:
		valid = algorithm == k.kind && verifyECDSA(key, data, value)
	case *rsa.PublicKey:
		if bits := rsaBits(algorithm); bits > 0 {
			hash, sum := digest(bits, data)
			valid = rsa.VerifyPKCS1v15(key, hash, sum, value) == nil
		}
	}
	if !valid {
		return ErrSignature
	}
	return nil
}

func verifyECDSA(key *ecdsa.PublicKey, data, value []byte) bool {
	in := NewReader(value)
	x, y := in.number(), in.number()
	if !in.Done() {
		return false
	}
	_, sum := digest(key.Curve.Params().BitSize, data)
	return ecdsa.Verify(key, sum, x, y)
}
