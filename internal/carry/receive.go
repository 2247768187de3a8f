package carry

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/fsx"
)

// ErrExists means that what would be replaced is a directory, or would be
// replaced by one.
var ErrExists = errors.New("it exists already, and directories are not merged")

// Receive makes a stream's file or directory appear under a name, whole or not
// at all. A file or symbolic link replaces one; a directory is never replaced,
// and replaces nothing.
func Receive(ctx context.Context, r io.Reader, dir *fsx.Dir, name string) (t Totals, err error) {
	if err := fsx.CheckPath(name); err != nil || name == "." || strings.Contains(name, "/") {
		return t, fmt.Errorf("%q is no name for a copy", name)
	}
	temp := ".forkcell-cp-" + rand.Text()
	rec := &receiver{ctx: ctx, dir: dir, temp: temp, tar: tar.NewReader(r)}
	err = rec.all()
	if err == nil {
		err = rec.publish(name)
	}
	if err != nil {
		return rec.totals, errors.Join(err, removeIf(dir, temp))
	}
	return rec.totals, nil
}

func removeIf(dir *fsx.Dir, name string) error {
	if _, err := dir.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return dir.RemoveAll(name)
}

type receiver struct {
	ctx    context.Context //nolint:containedctx // lives as long as the one call
	dir    *fsx.Dir
	temp   string
	tar    *tar.Reader
	begun  bool
	isDir  bool
	later  []Entry // directories, whose modes and times come last
	totals Totals
}

func (r *receiver) all() error {
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		h, err := r.tar.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: it was cut short", ErrStream)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrStream, err)
		}
		if h.Name == endName && r.begun {
			return r.finishDirs()
		}
		if err := r.entry(h); err != nil {
			return err
		}
	}
}

// entry makes one thing. Its parent was made by an earlier entry, or making it
// fails: nothing is followed and nothing is replaced.
func (r *receiver) entry(h *tar.Header) error {
	rel, err := relative(h.Name)
	if err != nil {
		return err
	}
	if (rel == "") == r.begun {
		return fmt.Errorf("%w: %q is out of place", ErrStream, h.Name)
	}
	for key := range h.PAXRecords {
		// Such as a file of holes, a few bytes here and a full disk there.
		if !slices.Contains([]string{"path", "linkpath", "size", "mtime"}, key) {
			return fmt.Errorf("%w: %q has a record %q", ErrStream, h.Name, key)
		}
	}
	at := path.Join(r.temp, rel)
	e := Entry{Path: at, Mode: uint32(h.Mode) & permissions, Mtime: h.ModTime}
	switch h.Typeflag {
	case tar.TypeDir:
		r.totals.Dirs++
		r.isDir = r.isDir || !r.begun
		r.later = append(r.later, e)
		err = r.dir.Mkdir(at, 0o700)
	case tar.TypeSymlink:
		r.totals.Links++
		err = r.dir.Symlink(h.Linkname, at)
	case tar.TypeReg:
		r.totals.Files++
		if h.Mode&setID != 0 {
			r.totals.Stripped = append(r.totals.Stripped, rel)
		}
		err = r.file(e)
	default:
		return fmt.Errorf("%w: %q is of type %q", ErrStream, h.Name, h.Typeflag)
	}
	if err != nil {
		return err
	}
	r.begun = true
	if h.Typeflag == tar.TypeDir {
		return nil
	}
	return r.dir.Chtimes(at, stamp(h.ModTime))
}

func relative(name string) (string, error) {
	name = strings.TrimSuffix(name, "/")
	if name == rootName {
		return "", nil
	}
	rel, ok := strings.CutPrefix(name, rootName+"/")
	if !ok || fsx.CheckPath(rel) != nil || rel == "." {
		return "", fmt.Errorf("%w: a name %q", ErrStream, name)
	}
	return rel, nil
}

func (r *receiver) file(e Entry) error {
	f, err := r.dir.Create(e.Path, e.Mode|0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, r.tar)
	r.totals.Bytes += n
	if err == nil && e.Mode|0o600 != e.Mode {
		err = r.dir.Chmod(e.Path, e.Mode)
	}
	return errors.Join(err, f.Close())
}

// finishDirs closes directories, the deepest first: a mode may forbid what comes
// after it, and an entry changes its directory's time.
func (r *receiver) finishDirs() error {
	for i := len(r.later) - 1; i >= 0; i-- {
		e := r.later[i]
		if err := r.dir.Chmod(e.Path, e.Mode); err != nil {
			return err
		}
		if err := r.dir.Chtimes(e.Path, stamp(e.Mtime)); err != nil {
			return err
		}
	}
	return nil
}

// publish gives the copy its name.
func (r *receiver) publish(name string) error {
	flags := uint(unix.RENAME_NOREPLACE)
	if !r.isDir {
		old, err := r.dir.Lstat(name)
		if err == nil && old.IsDir() {
			return &fs.PathError{Op: "replace", Path: name, Err: ErrExists}
		}
		flags = 0
	}
	err := r.dir.Rename(r.temp, r.dir, name, flags)
	if errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "replace", Path: name, Err: ErrExists}
	}
	return err
}

func stamp(t time.Time) fsx.Time {
	return fsx.Time{Sec: t.Unix(), Nsec: int32(t.Nanosecond())}
}
