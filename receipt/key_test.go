package receipt

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
)

func TestKeysRoundTrip(t *testing.T) {
	t.Parallel()
	s, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParsePrivate(s.MarshalPrivate())
	if err != nil {
		t.Fatal(err)
	}
	pub, err := ParsePublic(MarshalPublic(s.Public()))
	if err != nil {
		t.Fatal(err)
	}
	if !again.Public().Equal(s.Public()) || !pub.Equal(s.Public()) || again.KeyID() != s.KeyID() {
		t.Error("the key changed")
	}
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(der)
	if KeyID(pub) != hex.EncodeToString(want[:]) {
		t.Error("the key id is not the SHA-256 of the SPKI")
	}
}

// TestSignerIsStandard compares with the standard library: its encoding of the
// key, and its signatures, byte for byte.
func TestSignerIsStandard(t *testing.T) {
	t.Parallel()
	for range 20 {
		s, err := GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(s.MarshalPrivate())
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		theirs, ok := parsed.(ed25519.PrivateKey)
		if !ok {
			t.Fatalf("%T", parsed)
		}
		der, err := x509.MarshalPKCS8PrivateKey(theirs)
		if err != nil || !bytes.Equal(der, block.Bytes) {
			t.Fatalf("encoding differs: %v", err)
		}
		message := make([]byte, 1+len(der)*3)
		if _, err := rand.Read(message); err != nil {
			t.Fatal(err)
		}
		ours, err := dsseSigner{s}.Sign(t.Context(), message)
		if err != nil || !bytes.Equal(ours, ed25519.Sign(theirs, message)) {
			t.Fatalf("signature differs: %v", err)
		}
		if !ed25519.Verify(s.Public(), message, ours) {
			t.Fatal("the signature does not verify")
		}
	}
}

func TestParsePublicRefuses(t *testing.T) {
	t.Parallel()
	good := string(MarshalPublic(testSigner(1).Public()))
	private := testSigner(1).MarshalPrivate()
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(other.Public())
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"empty":           "",
		"not PEM":         "hello",
		"a private key":   string(private),
		"two keys":        good + good,
		"text before":     "key:\n" + good,
		"text after":      good + "x",
		"headers":         strings.Replace(good, "KEY-----\n", "KEY-----\nA: b\n\n", 1),
		"not Ed25519":     string(pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: der})),
		"not DER":         string(pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: []byte("x")})),
		"far too large":   good + strings.Repeat("\n", maxPEM),
		"DER with a tail": string(pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: append(spki(testSigner(1).Public()), 0)})),
	}
	for name, text := range cases {
		if _, err := ParsePublic([]byte(text)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	if _, err := ParsePublic([]byte("\n" + good + "\n")); err != nil {
		t.Errorf("blank lines around: %v", err)
	}
	if _, err := ParsePrivate([]byte(good)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a public key as a private one: %v", err)
	}
}

func TestVerifyTellsWhy(t *testing.T) {
	t.Parallel()
	l := newTestLog(t)
	raw := l.add(testRun(1))
	if _, err := Verify(raw, NewKeySet()); !errors.Is(err, ErrUntrusted) {
		t.Errorf("no key: %v", err)
	}
	if _, err := Verify(raw, trusted(2)); !errors.Is(err, ErrUntrusted) {
		t.Errorf("another key: %v", err)
	}
	// The signature of another statement by the same key.
	other := l.add(testRun(2))
	cut := func(e []byte) (int, []byte) {
		i := bytes.Index(e, []byte(`"signatures"`))
		return i, e[i:]
	}
	i, _ := cut(raw)
	_, sig := cut(other)
	if _, err := Verify(append(bytes.Clone(raw[:i]), sig...), trusted(1)); !errors.Is(err, ErrBadSignature) {
		t.Errorf("another's signature: %v", err)
	}
	// The keyid names a key that did not sign.
	swapped := bytes.ReplaceAll(raw, []byte(`"keyid":"`+testSigner(1).KeyID()), []byte(`"keyid":"`+testSigner(2).KeyID()))
	if _, err := Verify(swapped, trusted(1, 2)); !errors.Is(err, ErrBadSignature) {
		t.Errorf("another keyid: %v", err)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	l := newTestLog(t)
	first := l.rotate(testSigner(2))
	between := l.add(testRun(1))
	second := l.rotate(testSigner(3))
	after := l.add(testRun(2))

	keys := trusted(1)
	if _, err := Verify(after, keys); !errors.Is(err, ErrUntrusted) {
		t.Errorf("before following: %v", err)
	}
	if err := keys.Follow(second); !errors.Is(err, ErrUntrusted) {
		t.Errorf("the second rotation before the first: %v", err)
	}
	for _, raw := range [][]byte{first, second} {
		if err := keys.Follow(raw); err != nil {
			t.Fatal(err)
		}
	}
	for _, raw := range [][]byte{between, after} {
		if _, err := Verify(raw, keys); err != nil {
			t.Error(err)
		}
	}
	if got := keys.Origin(testSigner(3).KeyID()); got != testSigner(1).KeyID() {
		t.Errorf("origin = %s", got)
	}
	// Trust does not go backwards.
	if err := trusted(3).Follow(second); !errors.Is(err, ErrUntrusted) {
		t.Errorf("backwards: %v", err)
	}
	// What is no rotation cannot be followed.
	if err := keys.Follow(after); !errors.Is(err, ErrMalformed) {
		t.Errorf("following a run: %v", err)
	}
}

// A rotation to a key that the rotator does not hold must not verify: it would let
// one claim another's key.
func TestRotationNeedsBothKeys(t *testing.T) {
	t.Parallel()
	old, next := testSigner(1), testSigner(2)
	liar := &Signer{private: testSigner(3).private, id: next.id}
	r := &Rotation{
		OldKeyID: old.KeyID(), NewKeyID: next.KeyID(),
		OldPublicKey: string(MarshalPublic(old.Public())), NewPublicKey: string(MarshalPublic(next.Public())),
	}
	newTestLog(t).place(r, "", "")
	raw, err := sign(r, old, liar)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(raw, trusted(1, 2)); !errors.Is(err, ErrBadSignature) {
		t.Errorf("err = %v", err)
	}
	for name, spoil := range map[string]func(*Rotation){
		"to itself":    func(r *Rotation) { r.NewKeyID, r.NewPublicKey = r.OldKeyID, r.OldPublicKey },
		"wrong id":     func(r *Rotation) { r.NewKeyID = sum(1) },
		"odd PEM":      func(r *Rotation) { r.NewPublicKey += "\n" },
		"about a cell": func(r *Rotation) { r.CellID, r.Cell = "cell_1", "demo" },
		"not the signer": func(r *Rotation) {
			r.OldKeyID, r.OldPublicKey = testSigner(3).KeyID(), string(MarshalPublic(testSigner(3).Public()))
		},
	} {
		bad := *r
		spoil(&bad)
		if _, err := sign(&bad, old, next); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
}
