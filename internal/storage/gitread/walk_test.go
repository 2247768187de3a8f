package gitread_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/gitread"
)

// counted are the files of a repository. It counts how often each is opened.
type counted struct {
	dir    string
	opened map[string]int
	each   func()
}

func (c *counted) Open(name string) (*os.File, error) {
	c.opened[name]++
	if c.each != nil {
		c.each()
	}
	return os.Open(filepath.Join(c.dir, name))
}

func (c *counted) Names(name string) ([]string, error) {
	list, err := os.ReadDir(filepath.Join(c.dir, name))
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names, err
}

// store writes a loose object and returns its id.
func (c *counted) store(t *testing.T, kind, data string) string {
	t.Helper()
	full := fmt.Sprintf("%s %d\x00%s", kind, len(data), data)
	sum := sha1.Sum([]byte(full))
	id := hex.EncodeToString(sum[:])
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, err := z.Write([]byte(full))
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(c.dir, ".git/objects", id[:2], id[2:])
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, at, b.String())
	return id
}

// entry is one name in a directory.
func entry(t *testing.T, mode, name, id string) string {
	t.Helper()
	raw, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	return mode + " " + name + "\x00" + string(raw)
}

// deep makes a directory with width names for one and the same directory, which is made
// in the same way, and returns the id of its commit.
func (c *counted) deep(t *testing.T, width, depth int) string {
	t.Helper()
	id, mode := strings.Repeat("1", 40), "100644"
	for range depth {
		var all strings.Builder
		for n := range width {
			all.WriteString(entry(t, mode, fmt.Sprint("n", n), id))
		}
		id, mode = c.store(t, "tree", all.String()), "40000"
	}
	return c.store(t, "commit", "tree "+id+"\n\n")
}

func newCounted(t *testing.T) (*counted, *gitread.Repo) {
	t.Helper()
	c := &counted{dir: t.TempDir(), opened: map[string]int{}}
	repo, err := gitread.Open(c, ".git")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(repo.Close)
	return c, repo
}

// TestBomb: thirteen objects that stand for a trillion files are refused, and each is
// read once.
func TestBomb(t *testing.T) {
	t.Parallel()
	c, repo := newCounted(t)
	commit := c.deep(t, 10, 12)
	paths, err := repo.Paths(t.Context(), commit)
	if err == nil {
		t.Errorf("%d paths", len(paths))
	}
	for name, n := range c.opened {
		if strings.Contains(name, "objects/") && n > 1 {
			t.Errorf("%s was opened %d times", name, n)
		}
	}
	if _, err := repo.Paths(t.Context(), c.deep(t, 10, 11)); err == nil {
		t.Error("a second one was read: the bound is not of the repository")
	}
}

// TestSharedDirectory: one directory at many places is no bomb, and a second commit is
// read only where it differs.
func TestSharedDirectory(t *testing.T) {
	t.Parallel()
	c, repo := newCounted(t)
	paths, err := repo.Paths(t.Context(), c.deep(t, 10, 4))
	if err != nil || len(paths) != 10_000 || !slices.Contains(paths, "n9/n9/n9/n9") {
		t.Errorf("%d paths, %v", len(paths), err)
	}
	file := entry(t, "100644", "f", strings.Repeat("1", 40))
	shared := c.store(t, "tree", file)
	for i, want := range []string{"a/f", "b/f b/g"} {
		top := entry(t, "40000", "a", shared)
		if i > 0 {
			top += entry(t, "40000", "b", c.store(t, "tree", file+entry(t, "100644", "g", strings.Repeat("2", 40))))
		}
		paths, err := repo.Paths(t.Context(), c.store(t, "commit", "tree "+c.store(t, "tree", top)+"\n\n"))
		if got := strings.Join(paths, " "); got != want || err != nil {
			t.Errorf("commit %d: %s, %v, want %s", i, got, err, want)
		}
	}
}

// TestPathsEnd: the walk ends when its context does.
func TestPathsEnd(t *testing.T) {
	t.Parallel()
	c, repo := newCounted(t)
	commit := c.deep(t, 3, 5)
	ctx, cancel := context.WithCancel(t.Context())
	c.each = func() {
		if len(c.opened) > 3 {
			cancel()
		}
	}
	if _, err := repo.Paths(ctx, commit); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(c.opened) > 5 {
		t.Errorf("%d files were opened, also after the end", len(c.opened))
	}
}
