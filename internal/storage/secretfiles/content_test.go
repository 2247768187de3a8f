package secretfiles_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

func block(kind string) string {
	return "-----BEGIN " + kind + "-----\nMIIB\n-----END " + kind + "-----\n"
}

// Only what is seen to be public is kept under a name that private keys have.
func TestKeysByContent(t *testing.T) {
	t.Parallel()
	f := rules(t, secretfiles.Options{}).With(nil)
	for name, c := range map[string]struct {
		path, text string
		kept       bool
	}{
		"bundle":               {"certifi/cacert.pem", "# Issuer: CN=x\n" + strings.Repeat(block("CERTIFICATE"), 1000), true},
		"public key":           {"a.key", block("PUBLIC KEY"), true},
		"upper case name":      {"CA.PEM", block("CERTIFICATE"), true},
		"comment about a key":  {"a.pem", "# the private key is elsewhere\n" + block("CERTIFICATE") + "Private Key: none\n", true},
		"end of a key":         {"a.pem", block("CERTIFICATE") + "MIIE\n-----END RSA PRIVATE KEY-----\n", false},
		"few dashes":           {"a.pem", block("CERTIFICATE") + "--BEGIN RSA PRIVATE KEY--\nMIIE", false},
		"no blanks":            {"a.pem", block("CERTIFICATE") + "-----BEGINPRIVATE KEY-----", false},
		"key over two lines":   {"a.pem", block("CERTIFICATE") + "-----\nBEGIN RSA PRIVATE\nKEY-----", false},
		"private key":          {"a.pem", block("PRIVATE KEY"), false},
		"old private key":      {"a.key", block("RSA PRIVATE KEY"), false},
		"encrypted":            {"a.pem", block("ENCRYPTED PRIVATE KEY"), false},
		"of ssh":               {"a.pem", block("OPENSSH PRIVATE KEY"), false},
		"key after a bundle":   {"a.pem", strings.Repeat(block("CERTIFICATE"), 1000) + block("EC PRIVATE KEY"), false},
		"odd letters":          {"a.pem", block("CERTIFICATE") + "-----begin private key-----", false},
		"unknown block":        {"a.pem", block("CERTIFICATE") + block("SECRET"), false},
		"no end":               {"a.pem", "-----BEGIN CERTIFICATE", false},
		"key far behind":       {"a.pem", block("CERTIFICATE") + strings.Repeat("x", 2<<20) + block("PRIVATE KEY"), false},
		"no block":             {"a.key", "c2VjcmV0", false},
		"empty":                {"a.pem", "", false},
		"binary":               {"a.pem", block("CERTIFICATE") + "\x00", false},
		"rule that is certain": {"id_rsa", block("PUBLIC KEY"), false},
		"another certain rule": {"a.p12", block("CERTIFICATE"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "file")
			write(t, file, c.text)
			f := f.Reading(func(string) (*os.File, error) { return os.Open(file) })
			rule, v := f.Decide(c.path, false)
			if kept := v == secretfiles.KeepPublic; kept != c.kept || rule == "" {
				t.Errorf("verdict %d by %q", v, rule)
			}
			if _, v := f.Decide(c.path, true); v != secretfiles.Leave {
				t.Errorf("of a directory: %d", v)
			}
		})
	}
	if _, v := f.Decide("a.pem", false); v != secretfiles.Leave {
		t.Errorf("without contents: %d", v)
	}
}
