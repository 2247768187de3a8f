package authority

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	keystore "github.com/pavlo-v-chernykh/keystore-go/v4"
)

// JavaPassword is the default password of Java's trust store. It protects
// against damage, not against people.
const JavaPassword = "changeit"

// javaAlias names the authority in a trust store.
const javaAlias = "forkcell-cell"

// maxStore bounds a trust store, which may come from an untrusted root file
// system.
const maxStore = 16 << 20

// ErrJavaStore is returned for a trust store that cannot be read: it is
// damaged, has keys under another password, or is PKCS#12 with encrypted
// certificates (Java's own are not encrypted). The caller can pass the host's
// PEM bundle instead.
var ErrJavaStore = errors.New("not a Java trust store that can be read")

// JavaStorePaths are patterns, for filepath.Glob, of the trust stores that Java
// installations read. Most are links to one file of the system.
func JavaStorePaths() []string {
	return []string{
		"/etc/ssl/certs/java/cacerts",
		"/etc/pki/java/cacerts",
		"/etc/pki/ca-trust/extracted/java/cacerts",
		"/etc/ca-certificates/extracted/java-cacerts.jks",
		"/var/lib/ca-certificates/java-cacerts",
		"/usr/lib/jvm/*/lib/security/cacerts",
		"/usr/lib/jvm/*/jre/lib/security/cacerts",
		"/usr/lib64/jvm/*/lib/security/cacerts",
		"/usr/java/*/lib/security/cacerts",
		"/opt/java/*/lib/security/cacerts",
		"/opt/*jdk*/lib/security/cacerts",
	}
}

// JavaStore returns a trust store with the certificates of the host's store and
// the authority's. The host's store is JKS, PKCS#12 without encryption (Java's
// own since version 18), PEM, or empty. The result is JKS with the same
// password; every Java detects the format. The host's store must not be used
// afterwards: the result may be in its memory.
func (a *Authority) JavaStore(hostCacerts []byte, password string) ([]byte, error) {
	if out, ok := withEntry(hostCacerts, password, javaAlias, a.certificate()); ok {
		return out, nil
	}
	store, err := readStore(hostCacerts, password)
	if err != nil {
		return nil, err
	}
	if err := addTrusted(store, javaAlias, a.certificate()); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := store.Store(&out, []byte(password)); err != nil {
		return nil, fmt.Errorf("write a Java trust store: %w", err)
	}
	return out.Bytes(), nil
}

func readStore(b []byte, password string) (keystore.KeyStore, error) {
	store := keystore.New(keystore.WithOrderedAliases())
	switch {
	case len(b) == 0:
		return store, nil
	case len(b) > maxStore:
		return store, fmt.Errorf("%w: larger than %d bytes", ErrJavaStore, maxStore)
	case len(b) >= 4 && binary.BigEndian.Uint32(b) == jksMagic:
		if _, err := checkLengths(b); err != nil {
			return store, fmt.Errorf("%w: %w", ErrJavaStore, err)
		}
		if err := store.Load(bytes.NewReader(b), []byte(password)); err != nil {
			return store, fmt.Errorf("%w: %w", ErrJavaStore, err)
		}
		// A trust store needs no private keys, and writing them again would
		// need the password of each.
		for _, alias := range store.Aliases() {
			if !store.IsTrustedCertificateEntry(alias) {
				store.DeleteEntry(alias)
			}
		}
		return store, nil
	}
	var ders [][]byte
	if b[0] == 0x30 {
		var err error
		if ders, err = certificatesOfPKCS12(b); err != nil {
			return store, fmt.Errorf("%w: %w", ErrJavaStore, err)
		}
	} else {
		for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == pemType {
				ders = append(ders, block.Bytes)
			}
		}
	}
	if len(ders) == 0 {
		return store, fmt.Errorf("%w: no certificate in it", ErrJavaStore)
	}
	for _, der := range ders {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			// Some bundles hold roots that today's rules reject (negative
			// serial numbers). Leave them out rather than fail.
			continue
		}
		sum := sha256.Sum256(der)
		if err := addTrusted(store, hex.EncodeToString(sum[:]), cert); err != nil {
			return store, err
		}
	}
	return store, nil
}

func addTrusted(store keystore.KeyStore, alias string, cert *x509.Certificate) error {
	err := store.SetTrustedCertificateEntry(alias, keystore.TrustedCertificateEntry{
		CreationTime: cert.NotBefore,
		Certificate:  keystore.Certificate{Type: "X509", Content: cert.Raw},
	})
	if err != nil {
		return fmt.Errorf("write a Java trust store: %w", err)
	}
	return nil
}

// The types of RFC 7292 that a store without encryption is made of.
type (
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"tag:0,explicit,optional"`
	}
	pfx struct {
		Version  int
		AuthSafe contentInfo
		MAC      asn1.RawValue `asn1:"optional"`
	}
	safeBag struct {
		ID         asn1.ObjectIdentifier
		Value      asn1.RawValue `asn1:"tag:0,explicit"`
		Attributes asn1.RawValue `asn1:"set,optional"`
	}
	certBag struct {
		ID   asn1.ObjectIdentifier
		Data []byte `asn1:"tag:0,explicit"`
	}
)

var errEncrypted = errors.New("its certificates are encrypted")

// certificatesOfPKCS12 returns the certificates of a store whose certificates
// are not encrypted. Such a store needs no password. Its checksum is made with
// one and is not verified.
func certificatesOfPKCS12(b []byte) ([][]byte, error) {
	var file pfx
	if err := unmarshal(b, &file); err != nil {
		return nil, err
	}
	inner, err := file.AuthSafe.data()
	if err != nil {
		return nil, err
	}
	var safes []contentInfo
	if err := unmarshal(inner, &safes); err != nil {
		return nil, err
	}
	var out [][]byte
	for _, safe := range safes {
		content, err := safe.data()
		if err != nil {
			return nil, err
		}
		var bags []safeBag
		if err := unmarshal(content, &bags); err != nil {
			return nil, err
		}
		for _, bag := range bags {
			if !bag.ID.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3}) { // certificate
				continue
			}
			var cert certBag
			if err := unmarshal(bag.Value.Bytes, &cert); err != nil {
				return nil, err
			}
			if cert.ID.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 22, 1}) { // X.509
				out = append(out, cert.Data)
			}
		}
	}
	return out, nil
}

func (c contentInfo) data() ([]byte, error) {
	switch {
	case c.Type.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 6}):
		return nil, errEncrypted
	case !c.Type.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}):
		return nil, errors.New("an unknown kind of content")
	}
	var out []byte
	err := unmarshal(c.Content.Bytes, &out) // explicit: the bytes are the value within
	return out, err
}

func unmarshal(b []byte, into any) error {
	rest, err := asn1.Unmarshal(b, into)
	if err == nil && len(rest) > 0 {
		err = errors.New("data after the end")
	}
	return err
}
