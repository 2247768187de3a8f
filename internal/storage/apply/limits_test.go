package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

func TestFullDisk(t *testing.T) {
	t.Parallel()
	needRoot(t)
	p := newPlace(t, model{})
	if err := unix.Mount("tmpfs", p.target, "tmpfs", 0, "size=256k,mode=755"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	defer func() { _ = unix.Unmount(p.target, unix.MNT_DETACH) }()
	from := model{"a": file("a"), "d": dir(), "d/b": file("b")}
	from.write(t, p.target)
	to := model{"a": file("A"), "big": file(strings.Repeat("x", 1<<20))}
	_, err := execute(t, p, from, to, Options{})
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v", err)
	}
	noStaging(t, p.target)
	same(t, "after the failure", p.target, from)
}

func TestForeignDirectory(t *testing.T) {
	t.Parallel()
	needUser(t)
	p := newPlace(t, model{})
	j, id := p.next(t)
	defer func() { _ = j.Close() }()
	f := file("x").entry("x")
	_, err := Execute(context.Background(), Plan{ID: id, Target: "/usr", Ops: []Op{{Path: "x", New: &f}}}, model{"x": file("x")}, j, Options{})
	if !errors.Is(err, unix.EACCES) {
		t.Errorf("got %v", err)
	}
}

// Without recorded owners a replacement has the owner of the old file, and a
// new file in a setgid directory has its group.
func TestOwnersAreInherited(t *testing.T) {
	t.Parallel()
	needRoot(t)
	from := model{"f": file("1"), "d": dir().mode(0o2755)}
	to := from.with(model{"f": file("2"), "d/new": file("3")})
	p := newPlace(t, from)
	check(t, os.Chown(filepath.Join(p.target, "f"), 1234, 2345))
	check(t, os.Chown(filepath.Join(p.target, "d"), 0, 3456))
	check(t, os.Chmod(filepath.Join(p.target, "d"), 0o755|os.ModeSetgid))
	j, id := p.next(t)
	defer func() { _ = j.Close() }()
	_, err := Execute(context.Background(), Plan{ID: id, Target: p.target, Ops: ops(from, to)}, to, j, Options{})
	check(t, err)
	d, err := fsx.OpenRoot(p.target)
	check(t, err)
	defer func() { _ = d.Close() }()
	for path, want := range map[string][2]uint32{"f": {1234, 2345}, "d/new": {0, 3456}} {
		info, err := d.Lstat(path)
		check(t, err)
		if info.UID != want[0] || info.GID != want[1] {
			t.Errorf("%s belongs to %d:%d", path, info.UID, info.GID)
		}
	}
}

// New names of a file that is in the target already become the same file.
func TestLinkToAnUnchangedFile(t *testing.T) {
	t.Parallel()
	from := model{"a": file("a")}
	to := model{"a": file("a").group("g"), "n": dir(), "n/b": file("a").group("g")}
	p := newPlace(t, from)
	j, id := p.next(t)
	defer func() { _ = j.Close() }()
	n, b := to.entry("n"), to.entry("n/b")
	plan := Plan{ID: id, Target: p.target, Ops: []Op{{Path: "n", New: n}, {Path: "n/b", New: b}}, Links: to.links(), Owners: os.Geteuid() == 0}
	_, err := Execute(context.Background(), plan, to, j, Options{})
	check(t, err)
	same(t, "after the apply", p.target, to)
	_, err = undo(t, p, id, Options{})
	check(t, err)
	same(t, "after the undo", p.target, from)
}

// An undo is refused if something newer would be lost.
func TestUndoKeepsNewerWork(t *testing.T) {
	t.Parallel()
	for name, newer := range map[string]func(root string) error{
		"edited":      func(r string) error { return os.WriteFile(r+"/edit", []byte("TWO"), 0o644) },
		"in a new":    func(r string) error { return os.WriteFile(r+"/new/mine", nil, 0o644) },
		"in place of": func(r string) error { return os.WriteFile(r+"/gone", nil, 0o644) },
	} {
		p := newPlace(t, start())
		_, err := execute(t, p, start(), finished(), Options{})
		check(t, err)
		check(t, newer(p.target))
		before := read(t, p.target)
		_, err = undo(t, p, "a1", Options{})
		var conflicts *ConflictError
		if !errors.As(err, &conflicts) {
			t.Errorf("%s: %v", name, err)
		}
		same(t, name, p.target, before)
	}
	p := newPlace(t, start())
	hook, _ := crashing(20)
	catch(func() { _, _ = execute(t, p, start(), finished(), Options{Hook: hook}) })
	j := p.open(t, "a1")
	defer func() { _ = j.Close() }()
	if _, _, err := Inverse(j); !errors.Is(err, errJournal) {
		t.Errorf("inverse of an unfinished apply: %v", err)
	}
}
