package gitread_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/gitread"
)

// TestPackOfOtherObjects: an index that gives two objects each other's places is found,
// although all checksums are right.
func TestPackOfOtherObjects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	for i := range 4 {
		write(t, dir+"/a", strings.Repeat("text\n", 300+i))
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-qm", "one")
	}
	git(t, dir, "gc", "-q")
	found, err := filepath.Glob(dir + "/.git/objects/pack/*.idx")
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	check := func() error {
		index, err := os.Open(found[0])
		if err != nil {
			t.Fatal(err)
		}
		defer index.Close()
		data, err := os.Open(strings.TrimSuffix(found[0], "idx") + "pack")
		if err != nil {
			t.Fatal(err)
		}
		defer data.Close()
		return gitread.CheckPack(context.Background(), index, data)
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	count := (len(b) - 8 - 1024 - 40) / 28
	offsets := b[8+1024+24*count:]
	first := bytes.Clone(offsets[:4])
	copy(offsets, offsets[4:8])
	copy(offsets[4:], first)
	sum := sha1.Sum(b[:len(b)-20])
	copy(b[len(b)-20:], sum[:])
	if err := os.Chmod(found[0], 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, found[0], string(b))
	if err := check(); err == nil || !strings.Contains(err.Error(), "another object") {
		t.Error(err)
	}
}

func TestIsRef(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		strings.Repeat("a", 40): true, strings.Repeat("0", 64) + "\n": true, "ref: refs/heads/main\n": true,
		"": false, "x": false, "ref: ../x": false, "ref: refs/../x": false, "ref: refs/heads/a\n[core]": false, strings.Repeat("a", 40) + "\n[core]\n": false,
	} {
		if gitread.IsRef([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
