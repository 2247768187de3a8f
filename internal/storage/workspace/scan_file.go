package workspace

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// errReplaced means that a name now belongs to another file. Its contents must not
// be recorded for the other names of the first file, so the directory is read
// again.
var errReplaced = errors.New("replaced while it was read")

// child reads a name that is not a directory.
func (sc *scan) child(f *dirScan, name string) error {
	src, err := f.src.Open()
	if err != nil {
		return sc.lostError(err)
	}
	defer f.src.Release()
	info, err := src.Lstat(name)
	if err != nil {
		return sc.lostError(err)
	}
	if info.IsDir() { // a file when the directory was listed
		return sc.lostError(unix.ENOTDIR)
	}
	if !sc.admits(f, name, info) {
		return nil
	}
	at := site{f, name}
	kind := tree.KindOf(info)
	if kind == 0 {
		sc.found.refuse(RefusedEntry{Path: at.path()}, deviceName(info))
		return nil
	}
	e, err := sc.leaf(src, at, info, kind, f.was(name))
	if err != nil {
		return err
	}
	f.put(e)
	return nil
}

// leaf reads anything but a directory, once for all its names. src is the open
// directory that has it.
func (sc *scan) leaf(src *fsx.Dir, at site, info fsx.Info, kind tree.Kind, old *tree.Entry) (tree.Entry, error) {
	g := sc.links.group(info)
	if g == nil {
		return sc.leafAlone(src, at, info, kind, old)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	path := at.path()
	if len(g.paths) == 0 {
		e, err := sc.leafAlone(src, at, info, kind, old)
		if err == nil {
			g.paths, g.entry = append(g.paths, path), e
		}
		return e, err
	}
	if sc.dst != nil {
		if err := sc.dst.Link(g.paths[0], path); err != nil {
			return tree.Entry{}, fmt.Errorf("copy: %w", err)
		}
	}
	g.paths = append(g.paths, path)
	e := g.entry
	e.Name = at.name
	sc.own(at, &e, info, old)
	return e, nil
}

func (sc *scan) leafAlone(src *fsx.Dir, at site, info fsx.Info, kind tree.Kind, old *tree.Entry) (tree.Entry, error) {
	e := sc.entry(at, info, kind, old)
	dst, done, err := at.copyIn()
	if err != nil {
		return e, fmt.Errorf("copy: %w", err)
	}
	defer done()
	if kind == tree.KindFile {
		r := fileRead{scan: sc, src: src, dst: dst, at: at, info: info, e: &e, old: old}
		if err := r.run(); err != nil {
			return e, err
		}
		sc.count.add(at, e.Size)
		return e, nil
	}
	if kind == tree.KindSymlink {
		if e.Target, err = src.Readlink(at.name); err != nil {
			return e, sc.lostError(err)
		}
		e.Size = int64(len(e.Target))
	}
	all, err := src.Xattrs(at.name)
	if err != nil {
		return e, sc.lostError(err)
	}
	e.Xattrs = sc.sift(at, all)
	if dst != nil {
		if err := makeSpecial(dst, at.name, e, sc.s.opt.Root); err != nil {
			return e, fmt.Errorf("copy: %w", err)
		}
	}
	return e, nil
}

// copyIn opens the directory of the copy of a name; nil if there is no copy.
func (s site) copyIn() (dst *fsx.Dir, done func(), err error) {
	if s.f.dst == nil {
		return nil, func() {}, nil
	}
	dst, err = s.f.dst.Open()
	return dst, s.f.dst.Release, err
}

// fileRead is the reading of one regular file.
type fileRead struct {
	*scan
	src, dst *fsx.Dir // dst gets a copy, unless it is nil
	at       site
	info     fsx.Info
	e        *tree.Entry
	old      *tree.Entry
}

// run reads the file, and again if it changes meanwhile.
func (r *fileRead) run() error {
	if r.dst == nil && r.sameStamp(r.info, r.old) {
		r.e.Digest, r.e.PlainDigest, r.e.Xattrs, r.e.Stamp = r.old.Digest, r.old.PlainDigest, r.old.Xattrs, r.old.Stamp
		return nil
	}
	err := r.retryUntilStable(r.at, r.read, func() error { return removeIfThere(r.dst, r.at.name) })
	if errors.Is(err, errReplaced) {
		return errMoved
	}
	return err
}

func (r *fileRead) read() error {
	if r.settle {
		if err := r.s.step("scan.found"); err != nil {
			return err
		}
	}
	file, err := r.src.OpenFile(r.at.name)
	if err != nil {
		return r.lostError(err)
	}
	defer file.Close()
	before := r.info
	if r.settle {
		if before, err = fsx.StatFile(file); err != nil {
			return err
		}
		if r.info.Nlink > 1 && (before.Ino != r.info.Ino || before.Dev != r.info.Dev) || r.keepsFromOthers(before) {
			return errReplaced
		}
		*r.e = r.entry(r.at, before, tree.KindFile, r.old)
	}
	all, err := fileAttrs(file, r.src, r.at.name)
	if err != nil {
		return r.lostError(err)
	}
	r.e.Xattrs = r.sift(r.at, all)
	if err := r.contents(file); err != nil {
		return err
	}
	if r.settle {
		if err := r.checkUnchanged(file, before); err != nil {
			return err
		}
	}
	if r.stamps && r.start.Sub(before.CTime.Time()) > racy {
		r.e.Stamp = tree.StampOf(before)
	}
	return nil
}

// retryUntilStable repeats the read of a file until it did not change meanwhile. undo
// removes the results of a read, except for links: the reader of a file with
// several names holds their group.
func (sc *scan) retryUntilStable(at site, read func() error, undo func() error) error {
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

// checkUnchanged checks that an open file has not changed.
func (r *fileRead) checkUnchanged(file *os.File, before fsx.Info) error {
	if err := r.s.step("scan.read"); err != nil {
		return err
	}
	after, err := fsx.StatFile(file)
	if err != nil {
		return err
	}
	if hasChanged(before, after) || after.Size != r.e.Size {
		return errMoved
	}
	return nil
}

// contents reads a file's bytes and copies or keeps them.
func (r *fileRead) contents(file *os.File) (err error) {
	ctx := r.pool.ctx
	switch {
	case r.dst != nil:
		r.e.Digest, r.e.PlainDigest, r.e.Size, err = r.s.copyFile(ctx, r.dst, r.at.name, file, *r.e, r.old, r.s.opt.Root)
	case r.objects != nil:
		r.e.Digest, r.e.PlainDigest, r.e.Size, err = r.objects.put(ctx, file, r.e.Size, r.old)
	default:
		r.e.Digest, r.e.PlainDigest, r.e.Size, err = r.s.hashFile(ctx, file, r.old)
	}
	switch {
	case err == nil:
		return nil
	case r.settle && errors.Is(err, tree.ErrSize):
		return errMoved
	}
	return fmt.Errorf("read %s: %w", shortName(r.at.path()), err)
}

// sameStamp reports whether a file need not be read again.
func (sc *scan) sameStamp(info fsx.Info, old *tree.Entry) bool {
	return sc.stamps && old != nil && old.Kind == tree.KindFile && old.Stamp != (tree.Stamp{}) &&
		old.Stamp == tree.StampOf(info) &&
		old.Size == info.Size && old.MTime == info.MTime &&
		(sc.objects == nil || sc.objects.has(old.Digest, old.Size))
}
