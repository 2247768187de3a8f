package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"
)

// giveAway adds entries to access control lists. An ordinary caller's cell has
// no other user than the caller, so the entries then name the caller.
func giveAway() error {
	m := &maker{root: "."}
	m.xattr("hello.txt", accessed, acl(os.Getuid()))
	m.xattr("docs", byRule, acl(os.Getuid()))
	m.write("docs/a.md", "changed\n")
	m.write("new", "new\n")
	m.xattr("new", accessed, acl(os.Getuid()))
	return m.err
}

// rightsOf lists owner and attributes of everything in a directory.
func rightsOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, e := range walk(t, dir) {
		fmt.Fprintf(&b, "%s %d:%d %s\n", e.Path, e.UID, e.GID, e.Xattrs)
	}
	return b.String()
}

// TestListsAndOwnersStayInTheCell: rights that a command gives to others are
// not given on the host, by any verb.
func TestListsAndOwnersStayInTheCell(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"overlay", "clone"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := &maker{root: w.source}
			m.write("docs/own", "the host's list\n")
			m.xattr("docs/own", accessed, acl(os.Getuid()))
			w.ok(m.err)
			w.init("demo", backend)
			w.inside("demo", "give")
			w.sh("demo", "echo more >> docs/own; cp docs/own swap; mv swap docs/b.md")
			before := rightsOf(t, w.source)
			res, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Apply: true})
			w.ok(err)
			dropped := map[string]string{}
			for _, d := range res.Applied.Dropped {
				dropped[d.Path] = d.Note
			}
			id := os.Getuid()
			user := fmt.Sprintf("ACL user:%d:r--", id)
			for path, want := range map[string]string{"hello.txt": user, "new": user, "docs": "ACL default:"} {
				if !strings.HasPrefix(dropped[path], want) {
					t.Errorf("%s: dropped is %q, want %q", path, dropped[path], want)
				}
			}
			if len(dropped) != 3 {
				t.Errorf("dropped: %v", dropped)
			}
			after := rightsOf(t, w.source)
			after = strings.Replace(after, fmt.Sprintf("new %d:%d \n", id, os.Getgid()), "", 1)
			if before != after {
				t.Errorf("the source had\n%s\nand has\n%s", before, after)
			}
			if w.read("docs/own") != "the host's list\nmore\n" || w.read("docs/a.md") != "changed\n" {
				t.Error("the contents were not written")
			}
			// The next apply does not treat dropped attributes as changes of
			// the host.
			w.sh("demo", "echo again > hello.txt; echo again > new; echo again > docs/own", acceptOnSuccess)
			_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
			w.ok(err)
			_, err = w.e.Undo(w.ctx, api.UndoRequest{Cell: "demo"})
			w.ok(err)
			w.handedOut()
			w.sound("demo")
		})
	}
}

// handedOut exports and copies the state.
func (w *world) handedOut() {
	w.Helper()
	dir := w.TempDir()
	res, err := w.e.Export(w.ctx, api.ExportRequest{Cell: "demo", Output: filepath.Join(dir, "out")})
	w.ok(err)
	if notes := strings.Join(res.Notes, "\n"); !strings.Contains(notes, "dropped: ACL user:") {
		w.Errorf("notes of the export: %q", notes)
	}
	copied, err := w.e.CopyOut(w.ctx, api.CopyRequest{Cell: "demo", Path: ".", Host: filepath.Join(dir, "copy")})
	w.ok(err)
	if notes := strings.Join(copied.Notes, "\n"); !strings.Contains(notes, "dropped: ACL user:") {
		w.Errorf("notes of the copy: %q", notes)
	}
	for _, name := range []string{"out", "copy"} {
		if all := rightsOf(w.T, filepath.Join(dir, name)); strings.Contains(all, "acl") {
			w.Errorf("%s has lists:\n%s", name, all)
		}
	}
}

// TestOwnersStayInTheCell: files that root of a cell gives to others belong to
// the operator on the host.
func TestOwnersStayInTheCell(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can have a cell with other owners")
	}
	w := newWorld(t)
	w.ok(os.Lchown(filepath.Join(w.source, "docs/b.md"), 7, 8))
	w.init("demo", "overlay")
	w.sh("demo", "chown 65534:65534 hello.txt; echo new > new; mkdir d; chown 12:13 d docs/b.md; echo b >> docs/b.md; chmod 2755 d", asRoot, acceptOnSuccess)
	res, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.ok(err)
	got := map[string]string{}
	for _, d := range res.Dropped {
		got[d.Path] += d.Note + ";"
	}
	for path, want := range map[string]string{"hello.txt": "owner ", "new": "owner ", "docs/b.md": "owner ", "d": "owner "} {
		if !strings.HasPrefix(got[path], want) {
			t.Errorf("%s: dropped is %q", path, got[path])
		}
	}
	for _, e := range walk(t, w.source) {
		want := [2]uint32{0, 0}
		if e.Path == "docs/b.md" {
			want = [2]uint32{7, 8}
		}
		if [2]uint32{e.UID, e.GID} != want || e.Mode&0o6000 != 0 {
			t.Errorf("%s is %d:%d, mode %o", e.Path, e.UID, e.GID, e.Mode)
		}
	}
	_, err = w.e.Undo(w.ctx, api.UndoRequest{Cell: "demo"})
	w.ok(err)
	w.sound("demo")
}

// TestSetIDFilesAreNotExported: a directory of the host gets no set-id files,
// unless that was asked for.
func TestSetIDFilesAreNotExported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.sh("demo", "cp /bin/sh sh; chmod 6755 sh; mkdir .git; echo x > .git/config; echo y > .envrc", acceptOnSuccess)
	dir := w.TempDir()
	for name, req := range map[string]api.ExportRequest{
		"stripped": {}, "changes": {Changes: true},
		"kept": {AllowSetuid: true, AllowControl: []string{".envrc"}}, "changes kept": {Changes: true, AllowSetuid: true, AllowControl: []string{".envrc"}},
	} {
		req.Cell, req.Output = "demo", filepath.Join(dir, name)
		w.ok(os.Mkdir(req.Output, 0o755)) // an empty directory is replaced
		res, err := w.e.Export(w.ctx, req)
		w.ok(err)
		var st unix.Stat_t
		w.ok(unix.Stat(filepath.Join(req.Output, "sh"), &st))
		notes := strings.Join(res.Notes, "\n")
		if kept := st.Mode&0o6000 == 0o6000; kept != req.AllowSetuid || kept == strings.Contains(notes, "dropped: mode 6755 (setuid or setgid): sh") {
			t.Errorf("%s: mode %o, notes %q", name, st.Mode, notes)
		}
		_, err = os.Lstat(filepath.Join(req.Output, ".envrc"))
		if (err == nil) != req.AllowSetuid || !strings.Contains(notes, "left out: .git/config") {
			t.Errorf("%s: .envrc: %v, notes %q", name, err, notes)
		}
	}
}

// TestLiveOwnersAreTakenBack: a command cannot give a file of a live directory
// away. But a command that replaces a file makes a new one, which belongs to
// the operator. It gets the owner of the old file.
func TestLiveOwnersAreTakenBack(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can have files of other owners, and give them back")
	}
	w := newWorld(t)
	for path, owner := range map[string]int{"docs/a.md": 7, "docs/b.md": 9} {
		w.ok(os.Lchown(filepath.Join(w.source, path), owner, owner+1))
	}
	w.init("demo", "delta")
	_, out := w.sh("demo", `cp docs/b.md swap && echo more >> swap && mv -f swap docs/b.md
echo new > docs/new; chown 7 hello.txt 2>/dev/null || chgrp 8 hello.txt 2>/dev/null || echo denied`)
	if out != "denied\n" {
		t.Errorf("the command said %q", out)
	}
	if !strings.HasSuffix(w.read("docs/b.md"), "more\n") {
		t.Error("the file was not replaced")
	}
	for path, want := range map[string]string{"docs/a.md": "7:8", "docs/b.md": "9:10", "docs/new": "0:0", "hello.txt": "0:0"} {
		var st unix.Stat_t
		w.ok(unix.Lstat(filepath.Join(w.source, path), &st))
		if got := fmt.Sprintf("%d:%d", st.Uid, st.Gid); got != want {
			t.Errorf("%s belongs to %s, not %s", path, got, want)
		}
	}
	w.sound("demo")
}

// TestLiveDirectoryIsTakenBack: in a live directory, files that a command gave
// to others belong to the operator again when the run has ended. What an apply
// would refuse is named.
func TestLiveDirectoryIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := &maker{root: w.source}
	m.write("docs/own", "the host's list\n")
	m.xattr("docs/own", accessed, acl(os.Getuid()))
	w.ok(m.err)
	w.init("demo", "delta")
	before := rightsOf(t, w.source)
	res, _ := w.inside("demo", "give")
	after := strings.Replace(rightsOf(t, w.source), fmt.Sprintf("new %d:%d \n", os.Getuid(), os.Getgid()), "", 1)
	if before != after {
		t.Errorf("the directory had\n%s\nand has\n%s", before, after)
	}
	notes := strings.Join(res.Degraded, "\n")
	if !strings.Contains(notes, "taken back in the live directory: ") || !strings.Contains(notes, "hello.txt (ACL user:") {
		t.Errorf("degraded: %q", notes)
	}
	res, _ = w.sh("demo", "echo x > .envrc; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit")
	notes = strings.Join(res.Degraded, "\n")
	if !strings.Contains(notes, "control files of the live directory changed: .envrc, .git/hooks, .git/hooks/pre-commit") {
		t.Errorf("degraded: %q", notes)
	}
	for _, e := range walk(t, w.source) {
		if int(e.UID) != os.Getuid() || int(e.GID) != os.Getgid() {
			t.Errorf("%s is %d:%d", e.Path, e.UID, e.GID)
		}
	}
	w.sound("demo")
}
