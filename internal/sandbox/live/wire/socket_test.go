package wire_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 12 {
		dir = filepath.Join(dir, strings.Repeat("d", 200))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "live", strings.Repeat("n", 80))
	l, err := wire.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{path: os.ModeSocket | 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if st, err := os.Lstat(name); err != nil || st.Mode() != want {
			t.Errorf("%v, %v; want %v", st.Mode(), err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- wire.Serve(ctx, l, &realHost{}, wire.Options{UID: os.Geteuid(), Version: "9"}) }()
	exit, err := wire.NewClient(path, "").Exec(t.Context(), sh("exit 3"), wire.Streams{}, wire.Control{})
	want(t, 3, exit, err)
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestListenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o750); err != nil {
		t.Fatal(err)
	}
	_, err := wire.Listen(filepath.Join(open, "s"))
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeNotPrivate {
		t.Errorf("an open directory: %v", err)
	}
	if _, err = wire.Listen(filepath.Join(dir, "own", strings.Repeat("n", 81))); err == nil {
		t.Error("a long name was taken")
	}
	if _, err = wire.Listen(filepath.Join(dir, "no", "such", "s")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no parent: %v", err)
	}
	for _, path := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "no", "dir")} {
		if _, err := wire.NewClient(path, "").Sessions(t.Context()); !errors.Is(err, wire.ErrNoServer) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A listener that closes does not take away the name of its successor.
func TestCloseKeepsSuccessor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "live", "s")
	first, err := wire.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := wire.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the successor: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after both: %v", err)
	}
}
