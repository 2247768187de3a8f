package engine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// thing is one entry of a directory tree as the kernel shows it. The walker
// below shares no code with what it checks.
type thing struct {
	Path   string
	Type   uint32
	Mode   uint32
	UID    uint32
	GID    uint32
	Size   int64
	MTime  string
	Target string
	Sum    string
	Xattrs string
	Linked string // every name of the same file
	sparse bool
}

// walk lists a tree, sorted by path, "." first.
func walk(t *testing.T, root string) []thing {
	t.Helper()
	w := &walker{t: t, groups: map[[2]uint64][]int{}}
	w.add(root, ".")
	for _, members := range w.groups {
		if len(members) < 2 {
			continue
		}
		var names []string
		for _, i := range members {
			names = append(names, fmt.Sprintf("%q", w.list[i].Path))
		}
		sort.Strings(names)
		for _, i := range members {
			w.list[i].Linked = strings.Join(names, " ")
		}
	}
	sort.Slice(w.list, func(a, b int) bool { return w.list[a].Path < w.list[b].Path })
	return w.list
}

type walker struct {
	t      *testing.T
	list   []thing
	groups map[[2]uint64][]int
}

func (w *walker) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// add looks at root/rel. Paths are never cleaned: names may be of any bytes.
func (w *walker) add(root, rel string) {
	w.t.Helper()
	path := root
	if rel != "." {
		path = root + "/" + rel
	}
	var st unix.Stat_t
	w.ok(unix.Lstat(path, &st))
	e := thing{
		Path: rel, Type: st.Mode & unix.S_IFMT, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid,
		MTime: fmt.Sprintf("%d.%09d", st.Mtim.Sec, st.Mtim.Nsec), sparse: st.Blocks*512 < st.Size/2,
	}
	open := func() {}
	if os.Geteuid() != 0 && (e.Type == unix.S_IFREG && e.Mode&0o400 == 0 || e.Type == unix.S_IFDIR && e.Mode&0o500 != 0o500) {
		w.ok(unix.Chmod(path, e.Mode|0o500))
		open = func() { w.ok(unix.Chmod(path, e.Mode)) }
	}
	var names []string
	switch e.Type {
	case unix.S_IFREG:
		e.Size, e.Sum = st.Size, w.sum(path)
	case unix.S_IFLNK:
		var err error
		e.Target, err = os.Readlink(path)
		w.ok(err)
		e.Mode = 0o777
	case unix.S_IFDIR:
		d, err := os.Open(path)
		w.ok(err)
		names, err = d.Readdirnames(-1)
		w.ok(err)
		w.ok(d.Close())
	}
	e.Xattrs = w.xattrs(path)
	if e.Type != unix.S_IFDIR {
		key := [2]uint64{st.Dev, st.Ino}
		w.groups[key] = append(w.groups[key], len(w.list))
	}
	w.list = append(w.list, e)
	for _, name := range names {
		if rel == "." {
			w.add(root, name)
		} else {
			w.add(root, rel+"/"+name)
		}
	}
	open()
}

func (w *walker) sum(path string) string {
	w.t.Helper()
	f, err := os.Open(path)
	w.ok(err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	w.ok(err)
	return hex.EncodeToString(h.Sum(nil))
}

// xattrs lists the attributes that a person can set. Attributes of security
// modules are left out.
func (w *walker) xattrs(path string) string {
	w.t.Helper()
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err == unix.ENOTSUP {
		return ""
	}
	w.ok(err)
	var out []string
	for _, name := range strings.Split(string(buf[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "system.posix_acl") {
			continue
		}
		value := make([]byte, 64<<10)
		m, err := unix.Lgetxattr(path, name, value)
		w.ok(err)
		out = append(out, fmt.Sprintf("%s=%q", name, value[:m]))
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

// sameTree compares two walks, entry by entry. Holes are compared in one
// direction: a file that had holes must not take its whole size.
func sameTree(t *testing.T, what string, want, got []thing) {
	t.Helper()
	byPath := map[string]thing{}
	for _, e := range got {
		byPath[e.Path] = e
	}
	for _, a := range want {
		b, there := byPath[a.Path]
		delete(byPath, a.Path)
		if !there {
			t.Errorf("%s: %q is missing", what, a.Path)
			continue
		}
		if a.sparse && !b.sparse {
			t.Errorf("%s: %q has lost its holes", what, a.Path)
		}
		a.sparse = b.sparse
		if a != b {
			t.Errorf("%s: %q\n want %+v\n got  %+v", what, a.Path, a, b)
		}
	}
	for path := range byPath {
		t.Errorf("%s: %q should not be there", what, path)
	}
	if t.Failed() {
		t.FailNow()
	}
}
