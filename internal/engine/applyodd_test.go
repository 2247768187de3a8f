package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"
)

// TestApplyMeetsOddThings: an apply neither opens nor loses FIFOs and sockets
// on either side. A source that was moved is named.
func TestApplyMeetsOddThings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := func(name string) string { return filepath.Join(w.source, name) }
	kind := func(name string) uint32 {
		var st unix.Stat_t
		w.ok(unix.Lstat(at(name), &st))
		return st.Mode & unix.S_IFMT
	}
	w.init("demo", "overlay")
	w.sh("demo", "echo changed > docs/a.md; rm hello.txt; mkfifo hello.txt; mkfifo new", acceptOnSuccess)
	w.ok(os.Remove(at("docs/a.md")))
	w.ok(unix.Mkfifo(at("docs/a.md"), 0o600))
	_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "1 conflict")
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", OnConflict: "theirs"})
	w.ok(err)
	if kind("docs/a.md") != unix.S_IFREG || kind("hello.txt") != unix.S_IFIFO || kind("new") != unix.S_IFIFO {
		t.Error("it was not applied")
	}
	_, err = w.e.Undo(w.ctx, api.UndoRequest{Cell: "demo"})
	w.ok(err)
	if kind("docs/a.md") != unix.S_IFIFO || w.read("hello.txt") != "hello\n" {
		t.Error("it was not taken back")
	}

	w.ok(unix.Mknod(at("docs/socket"), unix.S_IFSOCK|0o600, 0))
	w.sh("demo", "rm -r docs", acceptOnSuccess)
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", OnConflict: "ours"})
	w.ok(err)
	if kind("docs/socket") != unix.S_IFSOCK {
		t.Error("the socket is gone")
	}

	w.sh("demo", "echo more > more", acceptOnSuccess)
	moved := w.source + "-moved"
	w.ok(os.Rename(w.source, moved))
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "no such file or directory")
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", To: moved, Only: []string{"more"}})
	w.ok(err)
	w.ok(os.Rename(moved, w.source))
	if w.read("more") != "more\n" {
		t.Error("it was not applied to the new place")
	}
}
