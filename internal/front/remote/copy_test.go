package remote

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// TestCopyHasTheTypedName: what a daemon says about a cell does not name the file that a
// copy writes. The daemon says that the workspace is at a path of its choice, and sends a
// directory or a file.
func TestCopyHasTheTypedName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, mountAt string
		file          bool
		want          string // "" if it is refused
	}{
		{".", "/w/.git", false, "demo"},
		{".", "/w/notes", false, "demo"},
		{".", "/w/notes", true, ""},
		{".", "/w/.bashrc", true, ""},
		{"..", "/w/notes/x", false, "demo"},
		{"..", "/w/notes/x", true, ""},
		{"/", "/w/notes", false, "demo"},
		{"/", "/", true, ""},
		{"sub/..", "/w/notes", true, ""},
		{"sub/", "/w/notes", true, ""},
		{"sub/.", "/w/notes", true, ""},
		{"sub/.", "/w/notes", false, "sub"},
		{"sub", "/w/notes", true, "sub"},
		{"a/sub", "/w/notes", false, "sub"},
		{".vscode", "/w/notes", false, ""},
		{".envrc", "/w/notes", true, ""},
	} {
		e := hostileCopies(t, c.mountAt, c.file)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "notes"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		res, err := e.CopyOut(t.Context(), api.CopyRequest{Cell: "demo", Path: c.path, Host: dir})
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if got := namesIn(t, dir, "notes"); !slices.Equal(got, want) || (err == nil) != (c.want != "") {
			t.Errorf("%+v: it wrote %q, and returned %+v, %v", c, got, res, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "notes")); string(text) != "mine" {
			t.Errorf("%+v: notes has %q (%v)", c, text, err)
		}
	}
}

// hostileCopies returns an engine on a daemon that sends every copy as a file or as an
// empty directory.
func hostileCopies(t *testing.T, mountAt string, file bool) *Engine {
	t.Helper()
	dir := t.TempDir()
	from, err := fsx.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "dir"), 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte("evil"), 0o600)); err != nil {
		t.Fatal(err)
	}
	name := "dir"
	if file {
		name = "file"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/cells/demo", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"name":"notes","cell":"notes","mount_at":"`+mountAt+`"}`)
	})
	mux.HandleFunc("GET /v1/cells/demo/files", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeCopy)
		if _, err := carry.Send(r.Context(), w, from, name, nil); err != nil {
			t.Error(err)
		}
	})
	daemon := httptest.NewServer(mux)
	t.Cleanup(daemon.Close)
	e, closed, err := Open(api.DaemonOptions{URL: daemon.URL}, caller.Caller{Dir: "/"}, Homes{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closed() })
	return e
}

// namesIn returns the names in a directory, without one.
func namesIn(t *testing.T, dir, without string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != without {
			names = append(names, e.Name())
		}
	}
	return names
}
