package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/tree"
)

// rereads is how often something that changes while it is read is read in all.
const rereads = 3

// racy is how old a change must be for its stamp to be trusted: a younger file
// may change again without its times showing it.
const racy = 2 * time.Second

// errMoved means that a name or directory changed under the reader, who should
// start again one level above.
var errMoved = errors.New("moved under the reader")

// scan reads a whole directory tree: it makes the manifest's nodes, bottom up,
// and on the way copies the files or keeps their contents by digest. Nothing of
// the tree stays in memory but the directories that are being read.
type scan struct {
	s    *Store
	ctx  context.Context
	what string // for progress
	w    *tree.Writer

	src     *fsx.Dir
	dst     *fsx.Dir // gets a copy; nil: files are only read
	objects *objects // gets the contents by digest; nil: not wanted
	layer   string   // the layer that will hold the files' bytes

	// old is the state before, for owners and stamps.
	old *tree.Tree
	// share says that old's nodes are edited rather than made anew. exact says
	// that a new layer or stamp alone is worth an edit.
	share, exact bool
	// stamps says that the files' stamps are worth keeping: they will be read
	// again from where they are now.
	stamps bool
	// settle says that others may change the files meanwhile.
	settle bool

	filter *leftout.Filter
	// public says that what the host keeps from others is left out.
	public bool
	// hidden are files that are left out under whatever name.
	hidden map[face]struct{}
	attrs  attrRules
	// owner says who is recorded as the owner of what is on disk.
	owner func(path string, e *tree.Entry, old *tree.Entry)

	links *linkSet
	found *findings
	pool  *pool
	count *counter
	start time.Time
}

// frame is one directory that is being read.
type frame struct {
	path     string
	src, dst *fsx.Dir
	mu       sync.Mutex
	edit     *tree.DirEdit
	known    map[string]tree.Entry // the old directory
	open     bool                  // the host's directory shows in it (upper)
}

func (s *Store) newScan(ctx context.Context, what string, w *tree.Writer, src *fsx.Dir) *scan {
	return &scan{
		s: s, ctx: ctx, what: what, w: w, src: src, attrs: s.plainAttrs(), links: newLinkSet(),
		found: newFindings(), pool: newPool(), count: &counter{s: s, what: what}, start: time.Now(),
	}
}

// run reads the tree and returns its root and its hard links. What cannot be
// kept is refused at the end, all of it at once; with an *UnsealableError the
// rest of the tree is returned all the same.
func (sc *scan) run() (tree.Entry, tree.Links, error) {
	var old *tree.Entry
	if sc.old != nil {
		root := sc.old.Root()
		old = &root
	}
	e, err := sc.settled(".", func() (tree.Entry, error) {
		return sc.readDir(&frame{path: ".", src: sc.src, dst: sc.dst}, ".", old)
	}, func() error {
		sc.links.drop(".")
		return sc.clear()
	})
	if err != nil {
		return tree.Entry{}, tree.Links{}, err
	}
	e.Name = ""
	return e, sc.links.links(), sc.found.err()
}

// settled repeats a read until nothing moved under it. undo takes back what a
// read has left; that of a directory also drops its links. That of a file must
// not: who reads a file with several names holds their group.
func (sc *scan) settled(path string, read func() (tree.Entry, error), undo func() error) (tree.Entry, error) {
	for n := 1; ; n++ {
		e, err := read()
		if !errors.Is(err, errMoved) {
			return e, err
		}
		if n == rereads {
			return tree.Entry{}, fmt.Errorf("%s: %w", join(sc.src.Path(), path), ErrSourceChanged)
		}
		if err := undo(); err != nil {
			return tree.Entry{}, fmt.Errorf("read %s again: %w", path, err)
		}
	}
}

// clear empties the copy.
func (sc *scan) clear() error {
	if sc.dst == nil {
		return nil
	}
	names, err := sc.dst.Names()
	for _, name := range names {
		err = errors.Join(err, sc.dst.RemoveAll(name))
	}
	return err
}

// readDir reads the directory that f has open. name is what its entry is
// called.
func (sc *scan) readDir(f *frame, name string, old *tree.Entry) (tree.Entry, error) {
	info, err := f.src.Lstat(".")
	if err != nil {
		return tree.Entry{}, sc.lost(err)
	}
	if f.path != "." && sc.keepsFromOthers(info) {
		return tree.Entry{}, errMoved
	}
	e := sc.entry(name, f.path, info, tree.KindDir, old)
	all, err := f.src.Xattrs(".")
	if err != nil {
		return tree.Entry{}, fmt.Errorf("read attributes: %w", err)
	}
	e.Xattrs = sc.sift(f.path, all)
	if e.Sub, err = sc.children(f, old); err != nil {
		return tree.Entry{}, err
	}
	if sc.settle {
		after, err := f.src.Lstat(".")
		if err != nil {
			return tree.Entry{}, sc.lost(err)
		}
		if moved(info, after) {
			return tree.Entry{}, errMoved
		}
	}
	if f.dst != nil {
		if err := setMeta(f.dst, ".", e, sc.s.opt.Root); err != nil {
			return tree.Entry{}, fmt.Errorf("copy: %w", err)
		}
	}
	return e, nil
}

func (sc *scan) children(f *frame, old *tree.Entry) (tree.Node, error) {
	names, err := f.src.Names()
	if err != nil {
		return tree.Node{}, sc.lost(err)
	}
	if err := sc.beginDir(f, old); err != nil {
		return tree.Node{}, err
	}
	g := sc.pool.group(sc.ctx)
	for _, name := range names {
		g.do(func() error {
			err := sc.child(f, name)
			if sc.public && errors.Is(err, unix.EACCES) {
				return nil
			}
			return err
		})
	}
	if err := g.wait(); err != nil {
		return tree.Node{}, err
	}
	if sc.share {
		for name := range f.known { // what was put has been taken out
			f.edit.Delete(name)
		}
	}
	return f.edit.Node()
}

func (sc *scan) beginDir(f *frame, old *tree.Entry) error {
	known := sc.old != nil && old != nil && old.Kind == tree.KindDir
	if !known || !sc.share {
		f.edit = sc.w.NewDir()
	} else {
		f.edit = sc.w.Edit(sc.old, old.Sub)
		if sc.exact {
			f.edit.Exact()
		}
	}
	if !known {
		return nil
	}
	children, err := sc.old.Children(old.Sub)
	if err != nil {
		return err
	}
	f.known = make(map[string]tree.Entry, len(children))
	for _, c := range children {
		f.known[c.Name] = c
	}
	return nil
}

func (sc *scan) child(f *frame, name string) error {
	path := join(f.path, name)
	info, err := f.src.Lstat(name)
	if err != nil {
		return sc.lost(err)
	}
	if !admit(sc.filter, path, info.IsDir(), sc.found) || sc.keepsFromOthers(info) {
		return nil
	}
	if _, yes := sc.hidden[faceOf(info)]; yes {
		sc.found.leave(path, hiddenRule)
		return nil
	}
	f.mu.Lock()
	was, ok := f.known[name]
	f.mu.Unlock()
	var old *tree.Entry
	if ok {
		old = &was
	}
	var e tree.Entry
	switch kind := kindOf(info); kind {
	case 0:
		sc.found.refuse(Refused{Path: path}, deviceName(info))
		return nil
	case tree.KindDir:
		e, err = sc.subdir(f, name, path, old)
	default:
		e, err = sc.leaf(f, name, path, info, kind, old)
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, name)
	f.edit.Put(e)
	return nil
}

func (sc *scan) subdir(f *frame, name, path string, old *tree.Entry) (tree.Entry, error) {
	undo := func() error {
		sc.links.drop(path)
		if f.dst == nil {
			return nil
		}
		return f.dst.RemoveAll(name)
	}
	return sc.settled(path, func() (tree.Entry, error) {
		sub := &frame{path: path}
		var err error
		if sub.src, err = f.src.OpenDir(name); err != nil {
			return tree.Entry{}, sc.lost(err)
		}
		defer sub.src.Close()
		if f.dst != nil {
			if err := f.dst.Mkdir(name, 0o700); err != nil {
				return tree.Entry{}, fmt.Errorf("copy: %w", err)
			}
			if sub.dst, err = f.dst.OpenDir(name); err != nil {
				return tree.Entry{}, fmt.Errorf("copy: %w", err)
			}
			defer sub.dst.Close()
		}
		return sc.readDir(sub, name, old)
	}, undo)
}

// keepsFromOthers reports whether a file or directory is to be left out because
// its owner keeps it from others. An ordinary caller may read what the kernel
// lets it read; root is bound by nothing, so the mode must say it.
func (sc *scan) keepsFromOthers(info fsx.Info) bool {
	if !sc.public || !sc.s.opt.Root {
		return false
	}
	switch info.Type {
	case unix.S_IFREG:
		return info.Mode&0o004 == 0
	case unix.S_IFDIR:
		return info.Mode&0o005 != 0o005
	}
	return false
}

// entry is what the kernel said, as a manifest says it.
func (sc *scan) entry(name, path string, info fsx.Info, kind tree.Kind, old *tree.Entry) tree.Entry {
	e := tree.Entry{Name: name, Kind: kind, Mode: info.Mode, MTime: info.MTime}
	if kind == tree.KindFile {
		e.Size, e.Layer = info.Size, sc.layer
	}
	if kind == tree.KindSymlink {
		e.Mode = 0o777 // the kernel's value; it cannot be set
	}
	sc.own(path, &e, info, old)
	return e
}

func (sc *scan) own(path string, e *tree.Entry, info fsx.Info, old *tree.Entry) {
	e.UID, e.GID = info.UID, info.GID
	if sc.owner != nil {
		sc.owner(path, e, old)
	}
}

func (sc *scan) sift(path string, all []fsx.Xattr) []fsx.Xattr {
	kept, _, refused, lost := sc.attrs.sift(all)
	sc.found.attrs(path, refused, lost)
	return kept
}

// lost turns the errors of a name that is gone, or is something else by now,
// into a reason to read again.
func (sc *scan) lost(err error) error {
	if sc.settle && (errors.Is(err, os.ErrNotExist) || errors.Is(err, fsx.ErrNotRegular) ||
		errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ELOOP)) {
		return errMoved
	}
	return fmt.Errorf("read: %w", err)
}

// moved tells whether two looks at one file show that it changed.
func moved(a, b fsx.Info) bool {
	return a.Ino != b.Ino || a.Dev != b.Dev || a.Type != b.Type || a.Size != b.Size || a.MTime != b.MTime || a.CTime != b.CTime
}

// kindOf is 0 for what no tree can hold.
func kindOf(info fsx.Info) tree.Kind {
	switch info.Type {
	case unix.S_IFREG:
		return tree.KindFile
	case unix.S_IFDIR:
		return tree.KindDir
	case unix.S_IFLNK:
		return tree.KindSymlink
	case unix.S_IFIFO:
		return tree.KindFifo
	case unix.S_IFSOCK:
		return tree.KindSocket
	}
	return 0
}

func deviceName(info fsx.Info) string {
	kind := "block"
	if info.Type == unix.S_IFCHR {
		kind = "character"
	}
	return fmt.Sprintf("%s device %d:%d", kind, unix.Major(info.Rdev), unix.Minor(info.Rdev))
}
