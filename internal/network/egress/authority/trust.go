package authority

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // OpenSSL names files by it; nothing is protected by it
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Room is the capacity beyond its length with which a trust store of the host
// gets the authority's certificate added without being copied.
const Room = 4096

const pemType = "CERTIFICATE"

const pemBegin, pemEnd = "-----BEGIN " + pemType + "-----", "-----END " + pemType + "-----"

// Bundle returns the host's roots and the authority's certificate in PEM form,
// without the other content of the host's file.
//
// The certificates are not decoded: that takes milliseconds for a few hundred
// of them at the start of every run, and programs outside a cell read the
// host's file as it is. What needs no change is not copied either: the bundle
// may use the memory of hostPEM, which should have [Room] at its end.
func (a *Authority) Bundle(hostPEM []byte) []byte {
	out := onlyPEM(hostPEM)
	rest := hostPEM[len(out):]
	if len(rest) > 0 {
		out = slices.Clip(out) // the rest is still to be read
	}
	for len(rest) > 0 {
		var block []byte
		if block, rest = nextPEM(rest); block != nil {
			out = append(append(out, block...), '\n')
		}
	}
	// The authority comes last: people look at the end of a file to see what was
	// added.
	return append(out, a.PEM()...)
}

// onlyPEM returns the first part of a text, as far as it is certificates, each
// with its line end and nothing between them.
func onlyPEM(b []byte) []byte {
	for rest := b; ; {
		block, after := nextPEM(rest)
		if block == nil || len(block)+len(after) < len(rest) || !bytes.HasPrefix(after, []byte("\n")) {
			return b[:len(b)-len(rest)]
		}
		rest = after[1:]
	}
}

// nextPEM returns the next certificate with its marks, and the bytes after it.
// It skips a certificate that is cut off, and other blocks: OpenSSL's "TRUSTED
// CERTIFICATE" carries rules that other readers of the bundle would ignore.
func nextPEM(b []byte) (block, rest []byte) {
	for {
		i := bytes.Index(b, []byte(pemBegin))
		if i < 0 {
			return nil, nil
		}
		block, b = b[i:], b[i+len(pemBegin):]
		i = bytes.Index(b, []byte("-----"))
		if i >= 0 && bytes.HasPrefix(b[i:], []byte(pemEnd)) {
			end := i + len(pemEnd)
			return block[:len(pemBegin)+end], b[end:]
		}
	}
}

// BundlePaths lists the files in which systems keep their roots. A cell gets
// its own bundle in place of those that the host has. Many are links: replace
// their targets.
func BundlePaths() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Alpine, Arch, Gentoo, NixOS
		"/etc/ssl/certs/ca-bundle.crt",                      // NixOS
		"/etc/ssl/cert.pem",                                 // Alpine, Arch
		"/etc/ssl/ca-bundle.pem",                            // openSUSE
		"/var/lib/ca-certificates/ca-bundle.pem",            // openSUSE, what the former leads to
		"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL
		"/etc/pki/tls/cert.pem",                             // Fedora, RHEL
		"/etc/pki/tls/cacert.pem",                           // OpenELEC
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL, what the former lead to
		"/etc/ca-certificates/extracted/tls-ca-bundle.pem",  // Arch
		"/etc/ca-certificates/extracted/cadir.pem",          // Arch
		"/usr/share/ssl/cert.pem",                           // OpenSSL built with its own prefix
		"/usr/lib/ssl/cert.pem",                             // Debian's OPENSSLDIR
		"/usr/local/ssl/cert.pem",                           // OpenSSL's default prefix
	}
}

// HashDirs lists the directories in which OpenSSL looks a root up by the hash
// of its subject, one file each. Some programs look only there: they have no
// bundle file configured, or their OpenSSL was built to use the directory. The
// cell needs HashedFile in each of these directories that the host has. They
// belong to the host and are read-only, so a read-only overlay adds the file.
func HashDirs() []string {
	return []string{"/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/ca-certificates/extracted/cadir", "/var/lib/ca-certificates/openssl"}
}

// HashedFile returns the name under which OpenSSL looks for the authority in
// such a directory; its content is PEM. The subject has a random part, so a
// collision among some hundred roots is practically impossible, and the name's
// number is always 0.
func (a *Authority) HashedFile() string {
	return fmt.Sprintf("%08x.0", a.subjectHash())
}

// subjectHash computes OpenSSL's X509_NAME_hash: over the subject's parts,
// without the sequence around them, each text in lower case and as UTF-8. The
// subject is one common name in ASCII without repeated spaces, so the rest of
// OpenSSL's canonical form is not needed.
func (a *Authority) subjectHash() uint32 {
	type attribute struct {
		Type  asn1.ObjectIdentifier
		Value string `asn1:"utf8"`
	}
	type part struct {
		Attributes []attribute `asn1:"set"`
	}
	commonName := asn1.ObjectIdentifier{2, 5, 4, 3}
	der, err := asn1.Marshal(part{[]attribute{{commonName, strings.ToLower(a.subject.CommonName)}}})
	if err != nil {
		panic(err) // unreachable: fixed types and a valid text
	}
	// Remove the outermost sequence.
	var inner asn1.RawValue
	if _, err := asn1.Unmarshal(der, &inner); err != nil {
		panic(err)
	}
	sum := sha1.Sum(inner.Bytes) //nolint:gosec // see the import
	return binary.LittleEndian.Uint32(sum[:4])
}

// Variable is an environment variable for the cell.
type Variable struct{ Name, Value string }

// Variables returns the environment variables that show programs the path of
// the bundle in the cell, for programs that have their own roots or do not read
// the system's files. Variables that only add roots also get the whole bundle,
// because the host may trust more than the program does. SSL_CERT_DIR stays
// unset: it would replace the directory that other programs read.
func Variables(bundle string) []Variable {
	names := []string{
		"SSL_CERT_FILE",       // OpenSSL, Go, Ruby, rustls-native-certs, uv, httpx
		"NODE_EXTRA_CA_CERTS", // Node.js, npm, Bun
		"REQUESTS_CA_BUNDLE",  // Python requests
		"PIP_CERT",
		"CURL_CA_BUNDLE",
		"GIT_SSL_CAINFO",
		"CARGO_HTTP_CAINFO",
		"AWS_CA_BUNDLE",
		"DENO_CERT",
		"NIX_SSL_CERT_FILE",
		"HTTPLIB2_CA_CERTS",
		"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", // gcloud
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",   // gRPC's C core: Python, Ruby, PHP
		"BUNDLE_SSL_CA_CERT",                 // Ruby's bundler
		"YARN_HTTPS_CA_FILE_PATH",
		"COMPOSER_CAFILE",
		"HEX_CACERTS_PATH", // Elixir
		"JULIA_SSL_CA_ROOTS_PATH",
		"PERL_LWP_SSL_CA_FILE",
	}
	out := make([]Variable, len(names))
	for i, n := range names {
		out[i] = Variable{n, bundle}
	}
	return out
}
