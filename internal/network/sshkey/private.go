package sshkey

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
)

// ErrPassphrase is returned for a private key that is protected by a passphrase.
var ErrPassphrase = errors.New("the key is protected by a passphrase")

// PrivateKey is a private key that can sign.
type PrivateKey struct {
	public *PublicKey
	signer crypto.Signer
}

// Public returns the public half.
func (k *PrivateKey) Public() *PublicKey { return k.public }

// ParsePrivate reads the file of a private key: the format of OpenSSH, or PEM of
// PKCS #1, PKCS #8 or SEC 1. A key with a passphrase is ErrPassphrase.
func ParsePrivate(text []byte) (*PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the file holds no private key in PEM")
	}
	defer clear(block.Bytes)
	if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
		return nil, ErrPassphrase
	}
	var key any
	var err error
	switch block.Type {
	case "OPENSSH PRIVATE KEY":
		key, err = parseOpenSSH(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("the file holds %q, not a private key", block.Type)
	}
	if err != nil {
		return nil, err
	}
	return newPrivate(key)
}

func newPrivate(key any) (*PrivateKey, error) {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("a key that cannot sign")
	}
	var blob []byte
	switch public := signer.Public().(type) {
	case ed25519.PublicKey:
		blob = AppendString(AppendString(nil, Ed25519), public)
	case *rsa.PublicKey:
		blob = appendNumber(appendNumber(AppendString(nil, RSA), big.NewInt(int64(public.E))), public.N)
	case *ecdsa.PublicKey:
		name := fmt.Sprintf("nistp%d", public.Curve.Params().BitSize)
		point, err := public.Bytes()
		if err != nil {
			return nil, err
		}
		blob = AppendString(AppendString(AppendString(nil, ecdsaPrefix+name), name), point)
	}
	public, err := ParsePublic(blob)
	if err != nil {
		return nil, err
	}
	return &PrivateKey{public: public, signer: signer}, nil
}

func appendNumber(b []byte, n *big.Int) []byte {
	value := n.Bytes()
	if len(value) == 0 || value[0]&0x80 != 0 {
		value = append([]byte{0}, value...)
	}
	return AppendString(b, value)
}

// openSSHMagic begins a private key of OpenSSH.
const openSSHMagic = "openssh-key-v1\x00"

func parseOpenSSH(b []byte) (any, error) {
	rest, ok := bytes.CutPrefix(b, []byte(openSSHMagic))
	if !ok {
		return nil, errMalformed
	}
	r := NewReader(rest)
	cipher, kdf, _ := r.String(), r.String(), r.Bytes()
	if r.Ok() && (cipher != "none" || kdf != "none") {
		return nil, ErrPassphrase
	}
	count, public, private := r.Uint32(), r.Bytes(), r.Bytes()
	if !r.Done() || count != 1 {
		return nil, errMalformed
	}
	in := NewReader(private)
	if one, two := in.Uint32(), in.Uint32(); !in.Ok() || one != two {
		return nil, errMalformed
	}
	kind := in.String()
	key, err := parseFields(in, kind)
	if err != nil {
		return nil, err
	}
	_ = in.Bytes() // the comment
	for i := byte(1); in.Ok() && len(in.rest) > 0; i++ {
		if in.Byte() != i {
			return nil, errMalformed
		}
	}
	if !in.Ok() || TypeOf(public) != kind {
		return nil, errMalformed
	}
	return key, nil
}

// parseFields reads the fields of a private key of a type.
func parseFields(in *Reader, kind string) (any, error) {
	curve := curveOf(kind)
	switch {
	case kind == Ed25519:
		public, private := in.Bytes(), in.Bytes()
		if len(private) != ed25519.PrivateKeySize || len(public) != ed25519.PublicKeySize {
			return nil, errMalformed
		}
		key := ed25519.NewKeyFromSeed(private[:ed25519.SeedSize])
		if !bytes.Equal(key[ed25519.SeedSize:], public) {
			return nil, errMalformed
		}
		return key, nil
	case kind == RSA:
		n, e, d := in.number(), in.number(), in.number()
		_, p, q := in.number(), in.number(), in.number()
		if !in.Ok() || !e.IsInt64() || e.Int64() > 1<<31-1 {
			return nil, errMalformed
		}
		key := &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: n, E: int(e.Int64())}, D: d, Primes: []*big.Int{p, q}}
		key.Precompute()
		return key, key.Validate()
	case curve != nil:
		_, _ = in.Bytes(), in.Bytes() // the curve and the public key
		d := in.number()
		size := (curve.Params().BitSize + 7) / 8
		if !in.Ok() || d.BitLen() > size*8 {
			return nil, errMalformed
		}
		return ecdsa.ParseRawPrivateKey(curve, d.FillBytes(make([]byte, size)))
	}
	return nil, fmt.Errorf("keys of the type %q are not supported", kind)
}

// Sign returns a signature in the wire format. The algorithm is the type of the key,
// or one of the two of RSA.
func (k *PrivateKey) Sign(data []byte, algorithm string) ([]byte, error) {
	if k.public.kind != RSA && algorithm != k.public.kind {
		return nil, fmt.Errorf("a key of the type %s does not sign with %q", k.public.kind, algorithm)
	}
	var value []byte
	var err error
	switch public := k.signer.Public().(type) {
	case ed25519.PublicKey:
		value, err = k.signer.Sign(rand.Reader, data, crypto.Hash(0))
	case *rsa.PublicKey:
		bits := rsaBits(algorithm)
		if bits == 0 {
			return nil, fmt.Errorf("an RSA key does not sign with %q", algorithm)
		}
		hash, sum := digest(bits, data)
		value, err = k.signer.Sign(rand.Reader, sum, hash)
	case *ecdsa.PublicKey:
		value, err = signECDSA(k.signer, public, data)
	}
	if err != nil {
		return nil, err
	}
	return AppendString(AppendString(nil, algorithm), value), nil
}

func signECDSA(signer crypto.Signer, public *ecdsa.PublicKey, data []byte) ([]byte, error) {
	hash, sum := digest(public.Curve.Params().BitSize, data)
	der, err := signer.Sign(rand.Reader, sum, hash)
	if err != nil {
		return nil, err
	}
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &pair); err != nil {
		return nil, err
	}
	return appendNumber(appendNumber(nil, pair.R), pair.S), nil
}
