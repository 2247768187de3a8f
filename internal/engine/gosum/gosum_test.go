package gosum_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/engine/gosum"
)

// pack makes an archive of files whose contents name them.
func pack(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		f, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(f, "contents of "+name+"\n")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func hash(b []byte) (string, error) {
	return gosum.Archive(context.Background(), bytes.NewReader(b), int64(len(b)))
}

// TestHashes: they are those of golang.org/x/mod/sumdb/dirhash, which the go command uses.
func TestHashes(t *testing.T) {
	t.Parallel()
	const lib, mod = "example.com/lib@v1.0.0/lib.go", "example.com/lib@v1.0.0/go.mod"
	for _, names := range [][]string{{lib, mod}, {mod, lib}} {
		if got, err := hash(pack(t, names...)); got != "h1:U0hyg5PwAD9GmOdUbtvlItGMWzElc3LA6mBDzaztEl8=" || err != nil {
			t.Errorf("%q: %s, %v", names, got, err)
		}
	}
	if got := gosum.Mod([]byte("module example.com/lib\n")); got != "h1:4OAnUP7RpKJ0hg7ydNi+A/luktLxx7xSrw0c+FeAtlc=" {
		t.Errorf("the go.mod: %s", got)
	}
}

// TestNoArchive: what the go command would not unpack has no hash, and costs little.
func TestNoArchive(t *testing.T) {
	t.Parallel()
	good := pack(t, "a@v1/a")
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("%s%05d", strings.Repeat("x", 60_000), i))
	}
	for name, b := range map[string][]byte{
		"empty": nil, "cut": good[:len(good)-1], "text": []byte("POISON"), "the same name twice": pack(t, "a@v1/a", "a@v1/a"),
		"a line in a name": pack(t, "a@v1/a\nb"), "a list that is too long": pack(t, many...),
	} {
		if got, err := hash(b); !errors.Is(err, gosum.ErrArchive) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	// The second file has more than is left.
	two, first := pack(t, "a", strings.Repeat("b", 600)), int64(len("contents of a\n"))
	for limit, ok := range map[int64]bool{2000: true, first + 600: false, 100: false} {
		if got, err := gosum.ArchiveWithin(context.Background(), bytes.NewReader(two), int64(len(two)), limit); (err == nil) != ok || !ok && !errors.Is(err, gosum.ErrArchive) {
			t.Errorf("within %d: %s, %v", limit, got, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := gosum.Archive(ctx, bytes.NewReader(good), int64(len(good))); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestSums: a hash counts for the module and the version that stand before it.
func TestSums(t *testing.T) {
	t.Parallel()
	sums := gosum.Sums{}
	if err := sums.Add(strings.NewReader("a v1 h1:x\na v1/go.mod h1:y\n\n" + strings.Repeat("l", 1<<16) + " b v1 h1:x\nb v1\nb v1 h1:x more\na v1 h1:z")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		module, version, hash string
		has                   bool
	}{
		{"a", "v1", "h1:x", true},
		{"a", "v1", "h1:z", true},
		{"a", "v1/go.mod", "h1:y", true},
		{"a", "v1", "h1:y", false},
		{"b", "v1", "h1:x", false},
	} {
		if got := sums.Has(c.module, c.version, c.hash); got != c.has {
			t.Errorf("%v: %v", c, got)
		}
	}
	if sums.Lists("b", "v1") || !sums.Lists("a", "v1") {
		t.Errorf("%v", sums)
	}
}

func TestUnescape(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"github.com/!burnt!sushi/toml": "github.com/BurntSushi/toml", "a": "a", "A": "", "!": "", "!A": "", "a!": "", "!!a": ""} {
		if got, ok := gosum.Unescape(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
}

// FuzzArchive: no bytes make it fail in another way than by an error.
func FuzzArchive(f *testing.F) {
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := hash(b); err == nil && !strings.HasPrefix(got, "h1:") {
			t.Errorf("%q", got)
		}
	})
}
