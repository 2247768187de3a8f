package authority_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	keystore "github.com/pavlo-v-chernykh/keystore-go/v4"

	"github.com/forkcell/forkcell/internal/network/egress/authority"
)

// TestKeyStaysInside: whatever an authority gives out, and whatever it is
// printed or encoded as, does not hold its key in any form that keys have.
func TestKeyStaysInside(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	roots := read(t, "roots.pem")
	given := map[string][]byte{"PEM": a.PEM(), "Bundle": a.Bundle(roots), "HashedFile": []byte(a.HashedFile())}
	store, err := a.JavaStore(roots, authority.JavaPassword)
	if err != nil {
		t.Fatal(err)
	}
	given["JavaStore"] = store
	onlyTrusts(t, store)
	leaf, err := a.Leaf("api.example.com")
	if err != nil {
		t.Fatal(err)
	}
	config, err := a.Config("192.0.2.7", "h2")
	if err != nil {
		t.Fatal(err)
	}
	for name, cert := range map[string]*tls.Certificate{"Leaf": leaf, "Config": &config.Certificates[0]} {
		given[name] = slices.Concat(cert.Certificate...)
		// The leaves' key is held by the server that uses it, and must not be
		// one with which more of them can be signed.
		key, ok := cert.PrivateKey.(*ecdsa.PrivateKey)
		if !ok || key.Equal(a.Key()) || a.Key().PublicKey.Equal(key.Public()) {
			t.Errorf("%s holds the authority's key", name)
			continue
		}
		given[name+"'s key"] = encoded(t, key)
	}
	for _, v := range authority.Variables("/bundle") {
		given["variable "+v.Name] = []byte(v.Value)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		given["printed with "+verb] = fmt.Appendf(nil, verb, a)
	}
	if given["JSON"], err = json.Marshal(map[string]any{"authority": a}); err != nil {
		t.Error(err)
	}
	for name, b := range given {
		for form, key := range keyForms(t, a.Key()) {
			if len(b) == 0 || bytes.Contains(b, key) {
				t.Errorf("%s is empty or holds the key as %s", name, form)
			}
		}
		if strings.Contains(string(b), "PRIVATE KEY") {
			t.Errorf("%s holds a private key", name)
		}
	}
}

// onlyTrusts checks that a Java trust store holds certificates alone: a key in
// it would be encrypted, and no search would find it.
func onlyTrusts(t *testing.T, data []byte) {
	t.Helper()
	store := keystore.New()
	if err := store.Load(bytes.NewReader(data), []byte(authority.JavaPassword)); err != nil {
		t.Fatal(err)
	}
	for _, alias := range store.Aliases() {
		if !store.IsTrustedCertificateEntry(alias) {
			t.Errorf("%s is more than a certificate", alias)
		}
	}
}

func encoded(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// keyForms are the bytes that any encoding of a key has somewhere. PKCS#8 and
// SEC 1 hold the scalar as it is; their base64 depends on where it starts.
func keyForms(t *testing.T, key *ecdsa.PrivateKey) map[string][]byte {
	t.Helper()
	scalar, err := key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(encoded(t, key), scalar) {
		t.Fatal("PKCS#8 does not hold the scalar")
	}
	turned := slices.Clone(scalar)
	slices.Reverse(turned)
	forms := map[string][]byte{
		"its scalar": scalar, "its scalar, turned round": turned,
		"hex": []byte(hex.EncodeToString(scalar)), "HEX": []byte(strings.ToUpper(hex.EncodeToString(scalar))),
		"decimal": []byte(new(big.Int).SetBytes(scalar).String()),
		"a list":  []byte(strings.Trim(fmt.Sprint(scalar), "[]")),
	}
	for shift := range 3 {
		text := base64.RawStdEncoding.EncodeToString(slices.Concat(make([]byte, shift), scalar))
		// What neighbours may change is left out.
		forms[fmt.Sprintf("base64, shifted by %d", shift)] = []byte(text[4 : len(text)-4])
	}
	return forms
}
