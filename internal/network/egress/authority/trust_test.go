package authority_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	keystore "github.com/pavlo-v-chernykh/keystore-go/v4"

	"github.com/forkcell/forkcell/internal/network/egress/authority"
)

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestBundle(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	roots := read(t, "roots.pem")
	for _, c := range []struct {
		name string
		host []byte
		want int
	}{
		{"none", nil, 1},
		{"garbage", []byte("no PEM here\x00\xff"), 1},
		{"two", roots, 3},
		{"remarks", slices.Concat([]byte("# first\n"), roots, []byte("\n# last\n")), 3},
		{"no line end", bytes.TrimRight(roots, "\n"), 3},
		{"remarks between", slices.Concat(roots, []byte("# last\n"), roots), 5},
		{"no line end between", slices.Concat(bytes.TrimRight(roots, "\n"), roots), 5},
		{"CRLF", bytes.ReplaceAll(roots, []byte("\n"), []byte("\r\n")), 3},
		{"cut off", slices.Concat(roots, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n")), 3},
		{"cut off before one", slices.Concat([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n"), roots), 3},
		{"other blocks", slices.Concat(roots, []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n-----BEGIN TRUSTED CERTIFICATE-----\nAAAA\n-----END TRUSTED CERTIFICATE-----\n")), 3},
	} {
		got := a.Bundle(slices.Clip(c.host))
		if roomy := a.Bundle(withRoom(c.host)); !bytes.Equal(got, roomy) {
			t.Errorf("%s: another bundle in memory with room\n%s", c.name, roomy)
		}
		if n := strings.Count(string(got), "-----BEGIN CERTIFICATE-----"); n != c.want {
			t.Errorf("%s: %d certificates, want %d", c.name, n, c.want)
		}
		if !bytes.HasSuffix(got, a.PEM()) {
			t.Errorf("%s: the authority is not the last", c.name)
		}
		if strings.Contains(string(got), "KEY") || strings.Contains(string(got), "TRUSTED") {
			t.Errorf("%s: other blocks came along", c.name)
		}
		if parsed := pool(t, got); !parsed.Equal(wholePool(t, c.want, roots, a.PEM())) {
			t.Errorf("%s: other certificates", c.name)
		}
	}
}

// withRoom returns a copy with room for an authority, filled with other bytes.
func withRoom(b []byte) []byte {
	return slices.Concat(b, bytes.Repeat([]byte{0xee}, authority.Room))[:len(b)]
}

// The host's roots are large, and the memory of a copy is the larger part of its
// cost.
func TestStoresAreNotCopied(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	roots := withRoom(read(t, "roots.pem"))
	if got := a.Bundle(roots); &got[0] != &roots[0] {
		t.Error("the bundle is a copy")
	}
	jks := withRoom(read(t, "roots.jks"))
	got, err := a.JavaStore(jks, authority.JavaPassword)
	if err != nil {
		t.Fatal(err)
	}
	if &got[0] != &jks[0] {
		t.Error("Java's store is a copy")
	}
}

func wholePool(t *testing.T, n int, roots, ca []byte) *x509.CertPool {
	t.Helper()
	p := pool(t, ca)
	if n > 1 {
		p.AppendCertsFromPEM(roots)
	}
	return p
}

// The name of the hashed file is OpenSSL's, and OpenSSL verifies by it.
func TestHashedFile(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed: its hash cannot be compared")
	}
	for _, name := range []string{"web", "UPPER.case", "ümläut and space", strings.Repeat("long", 30), ""} {
		a, err := authority.New(name)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(openssl, "x509", "-noout", "-subject_hash")
		cmd.Stdin = bytes.NewReader(a.PEM())
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimSpace(string(out)) + ".0"; a.HashedFile() != want {
			t.Errorf("%q: hashed file %s, want %s", name, a.HashedFile(), want)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, a.HashedFile()), a.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		leaf, err := a.Leaf("a.example")
		if err != nil {
			t.Fatal(err)
		}
		cmd = exec.Command(openssl, "verify", "-x509_strict", "-no-CAfile", "-no-CAstore", "-CApath", dir, "-verify_hostname", "a.example")
		cmd.Stdin = bytes.NewReader(pemOf(leaf.Certificate[0]))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: openssl verify: %v\n%s", name, err, out)
		}
	}
}

func aliases(t *testing.T, jks []byte, password string) []string {
	t.Helper()
	store := keystore.New()
	if err := store.Load(bytes.NewReader(jks), []byte(password)); err != nil {
		t.Fatal(err)
	}
	return store.Aliases()
}

func TestJavaStore(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	for _, c := range []struct {
		name, password string
		host           []byte
		want           int
	}{
		{"nothing", authority.JavaPassword, nil, 1},
		{"JKS", authority.JavaPassword, read(t, "roots.jks"), 3},
		{"JKS, any password", "other", read(t, "roots.jks"), 3},
		{"PKCS#12", authority.JavaPassword, read(t, "plain.p12"), 3},
		{"PKCS#12, any password", "other", read(t, "plain.p12"), 3},
		{"PEM", authority.JavaPassword, read(t, "roots.pem"), 3},
	} {
		roomy, failed := a.JavaStore(withRoom(c.host), c.password)
		out, err := a.JavaStore(slices.Clip(c.host), c.password)
		if err = errors.Join(err, failed); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !bytes.Equal(out, roomy) {
			t.Errorf("%s: another store in memory with room", c.name)
		}
		if got := aliases(t, out, c.password); len(got) != c.want || !slices.Contains(got, "forkcell-cell") {
			t.Errorf("%s: entries %q", c.name, got)
		}
	}
	for _, c := range []struct {
		name, password string
		host           []byte
	}{
		{"encrypted", authority.JavaPassword, read(t, "encrypted.p12")},
		{"JKS that asks for gigabytes", authority.JavaPassword, []byte("\xfe\xed\xfe\xed\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")},
		{"JKS and more", authority.JavaPassword, append(read(t, "roots.jks"), 0)},
		{"JKS of another version", authority.JavaPassword, []byte("\xfe\xed\xfe\xed\x00\x00\x00\x03\x00\x00\x00\x00")},
		{"cut JKS", authority.JavaPassword, read(t, "roots.jks")[:300]},
		{"cut PKCS#12", authority.JavaPassword, read(t, "plain.p12")[:300]},
		{"text", authority.JavaPassword, []byte("cacerts")},
		{"too large", authority.JavaPassword, make([]byte, 17<<20)},
	} {
		if _, err := a.JavaStore(c.host, c.password); !errors.Is(err, authority.ErrJavaStore) {
			t.Errorf("%s: %v, want ErrJavaStore", c.name, err)
		}
	}
}

// Java itself reads what was made.
func TestJavaStoreWithKeytool(t *testing.T) {
	t.Parallel()
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("Java is not installed: its reading cannot be checked")
	}
	a := newAuthority(t)
	for _, host := range []string{"plain.p12", "roots.jks"} {
		out, err := a.JavaStore(read(t, host), authority.JavaPassword)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "cacerts")
		if err := os.WriteFile(file, out, 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := exec.Command(keytool, "-J-Xshare:auto", "-J-XX:TieredStopAtLevel=1", "-list", "-keystore", file, "-storepass", authority.JavaPassword).CombinedOutput()
		if err != nil {
			t.Fatalf("keytool: %v\n%s", err, list)
		}
		if n := strings.Count(string(list), "trustedCertEntry"); n != 3 {
			t.Errorf("%s: keytool sees %d certificates, want 3\n%s", host, n, list)
		}
	}
}

// A private key in a trust store is not copied.
func TestJavaStoreWithAKey(t *testing.T) {
	t.Parallel()
	store := keystore.New()
	if err := store.SetPrivateKeyEntry("key", keystore.PrivateKeyEntry{PrivateKey: []byte("a secret")}, []byte(authority.JavaPassword)); err != nil {
		t.Fatal(err)
	}
	var host bytes.Buffer
	if err := store.Store(&host, []byte(authority.JavaPassword)); err != nil {
		t.Fatal(err)
	}
	out, err := newAuthority(t).JavaStore(host.Bytes(), authority.JavaPassword)
	if err != nil {
		t.Fatal(err)
	}
	if got := aliases(t, out, authority.JavaPassword); !slices.Equal(got, []string{"forkcell-cell"}) {
		t.Errorf("%q", got)
	}
}

func TestVariablesAndPaths(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, v := range authority.Variables("/b.pem") {
		if v.Value != "/b.pem" || seen[v.Name] {
			t.Errorf("%s=%s is wrong or there twice", v.Name, v.Value)
		}
		seen[v.Name] = true
	}
	for _, name := range []string{
		"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE",
		"GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT",
	} {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
	for _, p := range slices.Concat(authority.BundlePaths(), authority.HashDirs(), authority.JavaStorePaths()) {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p {
			t.Errorf("%s is not a clean absolute path", p)
		}
		if _, err := filepath.Match(p, "/"); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func FuzzJavaStore(f *testing.F) {
	for _, name := range []string{"roots.jks", "plain.p12", "encrypted.p12", "roots.pem"} {
		f.Add(read(f, name))
	}
	a := newAuthority(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := a.JavaStore(withRoom(b), authority.JavaPassword)
		if err != nil {
			if !errors.Is(err, authority.ErrJavaStore) {
				t.Fatal(err)
			}
			return
		}
		if !slices.Contains(aliases(t, out, authority.JavaPassword), "forkcell-cell") {
			t.Fatal("the authority is not in the store")
		}
	})
}

func BenchmarkBundle(b *testing.B) {
	host, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		host = bytes.Repeat(read(b, "roots.pem"), 70)
	}
	a := newAuthority(b)
	for b.Loop() {
		a.Bundle(host)
	}
}
