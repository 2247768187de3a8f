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
	owner func(at site, e *tree.Entry, old *tree.Entry)

	links *linkSet
	found *findings
	crew  *crew
	count *counter
	start time.Time
}

// frame is one directory that is being read.
type frame struct {
	up       *frame // nil: the root
	name     string // what its entry is called
	src, dst *fsx.Ref
	old      *tree.Entry // what the state before has there
	entry    tree.Entry
	info     fsx.Info

	mu    sync.Mutex
	edit  *tree.DirEdit
	known map[string]tree.Entry // the old directory
	open  bool                  // the host's directory shows in it (upper)
	moved bool                  // something changed in it while it was read
	gone  bool                  // it went away before it was read
	reads int
}

// put adds a finished entry to the directory.
func (f *frame) put(e tree.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, e.Name)
	f.edit.Put(e)
}

func (f *frame) wasMoved() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved = true
}

// site is a name in a directory, "." for the directory itself. A path is long in
// a deep tree, so it is made only for those who ask.
type site struct {
	f    *frame
	name string
}

func (s site) path() string {
	dir := s.f.src.Path()
	if s.name == "." {
		return dir
	}
	return join(dir, s.name)
}

func (s *Store) newScan(ctx context.Context, what string, w *tree.Writer, src *fsx.Dir) *scan {
	return &scan{
		s: s, ctx: ctx, what: what, w: w, src: src, attrs: s.plainAttrs(), links: newLinkSet(),
		found: newFindings(), crew: newCrew(ctx), count: &counter{s: s, what: what}, start: time.Now(),
	}
}

// run reads the tree and returns its root and its hard links. What cannot be
// kept is refused at the end, all of it at once; with an *UnsealableError the
// rest of the tree is returned all the same.
func (sc *scan) run() (tree.Entry, tree.Links, error) {
	root := &frame{src: sc.crew.keeper.Root(sc.src)}
	if sc.old != nil {
		e := sc.old.Root()
		root.old = &e
	}
	if sc.dst != nil {
		root.dst = sc.crew.keeper.Root(sc.dst)
	}
	if err := sc.readDir(nil, root); err != nil {
		return tree.Entry{}, tree.Links{}, err
	}
	root.entry.Name = ""
	return root.entry, sc.links.links(), sc.found.err()
}

// readDir adds the reading of a directory. One in which something moved is read
// again, when all that was begun below it has ended.
func (sc *scan) readDir(up *task, f *frame) error {
	enter := func(t *task) error {
		f.reads++
		err := sc.enterDir(t, f)
		switch {
		case errors.Is(err, errMoved):
			f.wasMoved()
			return nil
		case f.up != nil && sc.forbidden(err):
			f.gone = true
			return nil
		}
		return err
	}
	leave := func() (bool, error) {
		err := sc.leaveDir(f)
		switch {
		case err == nil:
			return false, nil
		case !errors.Is(err, errMoved):
			return false, err
		case f.reads == rereads:
			return false, fmt.Errorf("%s: %w", join(sc.src.Path(), site{f, "."}.path()), ErrSourceChanged)
		}
		return true, sc.undo(f)
	}
	if up == nil {
		return sc.crew.run(enter, leave)
	}
	sc.crew.add(up, enter, leave)
	return nil
}

// enterDir reads a directory's own metadata and names.
func (sc *scan) enterDir(t *task, f *frame) error {
	src, err := f.src.Open()
	if err = sc.lost(err); errors.Is(err, errMoved) && f.up != nil {
		f.gone = true
		f.up.wasMoved()
		return nil
	}
	if err != nil {
		return err
	}
	defer f.src.Release()
	if f.info, err = src.Lstat("."); err != nil {
		return sc.lost(err)
	}
	if f.up != nil && sc.keepsFromOthers(f.info) {
		f.gone = true
		f.up.wasMoved()
		return nil
	}
	f.entry = sc.entry(site{f, "."}, f.info, tree.KindDir, f.old)
	f.entry.Name = f.name
	all, err := src.Xattrs(".")
	if err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	f.entry.Xattrs = sc.sift(site{f, "."}, all)
	if err := sc.beginDir(f); err != nil {
		return err
	}
	return sc.names(t, f, src)
}

// names adds what is in a directory: the directories first, so that they are read
// last.
func (sc *scan) names(t *task, f *frame, src *fsx.Dir) error {
	dirs, files, err := src.Split()
	if err != nil {
		return sc.lost(err)
	}
	if f.dst != nil && f.up != nil {
		if err := sc.makeCopy(f); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
	}
	for _, name := range dirs {
		admitted, err := sc.admitsDir(f, src, name)
		if err != nil {
			return err
		}
		if !admitted {
			continue
		}
		sub := &frame{up: f, name: name, src: f.src.Child(name), old: f.was(name)}
		if f.dst != nil {
			sub.dst = f.dst.Child(name)
		}
		if err := sc.readDir(t, sub); err != nil {
			return err
		}
	}
	batches(sc.crew, t, files, func(name string) error {
		err := sc.child(f, name)
		switch {
		case errors.Is(err, errMoved):
			f.wasMoved()
			return nil
		case sc.forbidden(err):
			return nil
		}
		return err
	})
	return nil
}

// forbidden reports whether an error only means that something is kept from the
// caller, and so is left out.
func (sc *scan) forbidden(err error) bool { return sc.public && errors.Is(err, unix.EACCES) }

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

// admitsDir is admits for a directory, which is looked at only if it matters.
func (sc *scan) admitsDir(f *frame, src *fsx.Dir, name string) (bool, error) {
	var info fsx.Info
	info.Type = unix.S_IFDIR
	if len(sc.hidden) > 0 || sc.public {
		var err error
		if info, err = src.Lstat(name); err != nil {
			return false, sc.lost(err)
		}
	}
	return sc.admits(f, name, info), nil
}

// was is what the state before had at a name.
func (f *frame) was(name string) *tree.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.known[name]
	if !ok {
		return nil
	}
	return &e
}

// admits reports whether a name belongs to the state.
func (sc *scan) admits(f *frame, name string, info fsx.Info) bool {
	if sc.filter != nil && !admit(sc.filter, site{f, name}.path(), info.IsDir(), sc.found) || sc.keepsFromOthers(info) {
		return false
	}
	if _, yes := sc.hidden[faceOf(info)]; yes {
		sc.found.leave(site{f, name}.path(), hiddenRule)
		return false
	}
	return true
}

func (sc *scan) makeCopy(f *frame) error {
	dst, err := f.up.dst.Open()
	if err != nil {
		return err
	}
	defer f.up.dst.Release()
	return dst.Mkdir(f.name, 0o700)
}

// leaveDir finishes a directory all of whose names were read.
func (sc *scan) leaveDir(f *frame) error {
	defer f.src.Close()
	if f.dst != nil {
		defer f.dst.Close()
	}
	if f.gone {
		return nil
	}
	if f.moved {
		return errMoved
	}
	if sc.share {
		for name := range f.known { // what was put has been taken out
			f.edit.Delete(name)
		}
	}
	var err error
	if f.entry.Sub, err = f.edit.Node(); err != nil {
		return err
	}
	if sc.settle {
		if err := sc.settledDir(f); err != nil {
			return err
		}
	}
	if f.dst != nil {
		if err := sc.finishCopy(f); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
	}
	if f.up != nil {
		f.up.put(f.entry)
	}
	return nil
}

// settledDir looks whether a directory is still as it was when it was read.
func (sc *scan) settledDir(f *frame) error {
	src, err := f.src.Open()
	if err != nil {
		return sc.lost(err)
	}
	defer f.src.Release()
	after, err := src.Lstat(".")
	if err != nil {
		return sc.lost(err)
	}
	if moved(f.info, after) {
		return errMoved
	}
	return nil
}

func (sc *scan) finishCopy(f *frame) error {
	dst, err := f.dst.Open()
	if err != nil {
		return err
	}
	defer f.dst.Release()
	return setMeta(dst, ".", f.entry, sc.s.opt.Root)
}

// undo takes back what the reading of a directory has left.
func (sc *scan) undo(f *frame) error {
	f.moved = false
	sc.links.drop(site{f, "."}.path())
	if f.up == nil {
		return sc.clear()
	}
	f.src = f.up.src.Child(f.name)
	if f.dst == nil {
		return nil
	}
	f.dst = f.up.dst.Child(f.name)
	dst, err := f.up.dst.Open()
	if err != nil {
		return err
	}
	defer f.up.dst.Release()
	if err := dst.RemoveAll(f.name); err != nil {
		return fmt.Errorf("read %s again: %w", f.name, err)
	}
	return nil
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

// settled repeats the read of a file until nothing moved under it. undo takes
// back what a read has left, but no links: who reads a file with several names
// holds their group.
func (sc *scan) settled(at site, read func() error, undo func() error) error {
	for n := 1; ; n++ {
		err := read()
		if !errors.Is(err, errMoved) {
			return err
		}
		if n == rereads {
			return fmt.Errorf("%s: %w", join(sc.src.Path(), at.path()), ErrSourceChanged)
		}
		if err := undo(); err != nil {
			return fmt.Errorf("read %s again: %w", at.name, err)
		}
	}
}

func (sc *scan) beginDir(f *frame) error {
	known := sc.old != nil && f.old != nil && f.old.Kind == tree.KindDir
	f.known = nil
	if !known || !sc.share {
		f.edit = sc.w.NewDir()
	} else {
		f.edit = sc.w.Edit(sc.old, f.old.Sub)
		if sc.exact {
			f.edit.Exact()
		}
	}
	if !known {
		return nil
	}
	children, err := sc.old.Children(f.old.Sub)
	if err != nil {
		return err
	}
	f.known = make(map[string]tree.Entry, len(children))
	for _, c := range children {
		f.known[c.Name] = c
	}
	return nil
}

// child reads a name that is no directory.
func (sc *scan) child(f *frame, name string) error {
	src, err := f.src.Open()
	if err != nil {
		return sc.lost(err)
	}
	defer f.src.Release()
	info, err := src.Lstat(name)
	if err != nil {
		return sc.lost(err)
	}
	if info.IsDir() { // a file when the directory was listed
		return sc.lost(unix.ENOTDIR)
	}
	if !sc.admits(f, name, info) {
		return nil
	}
	at := site{f, name}
	kind := kindOf(info)
	if kind == 0 {
		sc.found.refuse(Refused{Path: at.path()}, deviceName(info))
		return nil
	}
	e, err := sc.leaf(src, at, info, kind, f.was(name))
	if err != nil {
		return err
	}
	f.put(e)
	return nil
}

// entry is what the kernel said, as a manifest says it.
func (sc *scan) entry(at site, info fsx.Info, kind tree.Kind, old *tree.Entry) tree.Entry {
	e := tree.Entry{Name: at.name, Kind: kind, Mode: info.Mode, MTime: info.MTime}
	if kind == tree.KindFile {
		e.Size, e.Layer = info.Size, sc.layer
	}
	if kind == tree.KindSymlink {
		e.Mode = 0o777 // the kernel's value; it cannot be set
	}
	sc.own(at, &e, info, old)
	return e
}

func (sc *scan) own(at site, e *tree.Entry, info fsx.Info, old *tree.Entry) {
	e.UID, e.GID = info.UID, info.GID
	if sc.owner != nil {
		sc.owner(at, e, old)
	}
}

func (sc *scan) sift(at site, all []fsx.Xattr) []fsx.Xattr {
	kept, _, refused, lost := sc.attrs.sift(all)
	if len(refused)+len(lost) > 0 {
		sc.found.attrs(at.path(), refused, lost)
	}
	return kept
}

// lost turns the errors of a name that is gone, or is something else by now,
// into a reason to read again.
func (sc *scan) lost(err error) error {
	if err == nil {
		return nil
	}
	if sc.settle && (errors.Is(err, os.ErrNotExist) || errors.Is(err, fsx.ErrNotRegular) ||
		errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ELOOP) || errors.Is(err, fsx.ErrMoved)) {
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
