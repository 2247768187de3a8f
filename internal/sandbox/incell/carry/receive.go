package carry

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// ErrExists means that what would be replaced is a directory, or would be
// replaced by one.
var ErrExists = errors.New("it exists already, and directories are not merged")

// Screen decides what a receiver writes. Its zero value writes everything.
type Screen struct {
	// Entry, unless nil, is called with each entry as the sender describes it, and
	// reports whether it is written. Directories are always written.
	Entry func(Entry) bool
	// Whole, unless nil, is called when everything is written, at a path of dir, and
	// before it gets its name. After an error nothing stays.
	Whole func(dir *fsx.Dir, at string) error
}

// Receive writes a stream's file or directory under a name, all of it or nothing.
// A file or symbolic link replaces another; a directory is never replaced, and
// replaces nothing.
func Receive(ctx context.Context, r io.Reader, dir *fsx.Dir, name string, screen Screen) (t Totals, err error) {
	if err := fsx.CheckPath(name); err != nil || name == "." || strings.Contains(name, "/") {
		return t, fmt.Errorf("%q is not a valid name", name)
	}
	temp := ".forkcell-cp-" + rand.Text()
	rec := &receiver{ctx: ctx, screen: screen, dir: dir, temp: temp, tar: tar.NewReader(r)}
	err = rec.all()
	if err == nil && screen.Whole != nil {
		err = screen.Whole(dir, temp)
	}
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
	screen Screen
	dir    *fsx.Dir
	temp   string
	tar    *tar.Reader
	begun  bool
	isDir  bool
	open   openDirs
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
			return r.leave("")
		}
		if err := r.entry(h); err != nil {
			return err
		}
	}
}

// entry makes one entry. An earlier entry made its parent, else it fails: nothing
// is followed and nothing is replaced.
func (r *receiver) entry(h *tar.Header) error {
	rel, err := relative(h.Name)
	if err != nil {
		return err
	}
	if (rel == "") == r.begun {
		return fmt.Errorf("%w: %q is out of place", ErrStream, h.Name)
	}
	said, err := saidOf(h, rel)
	if err != nil {
		return err
	}
	if r.screen.Entry != nil && !r.screen.Entry(said) && h.Typeflag != tar.TypeDir {
		r.begun = true
		return nil
	}
	at := path.Join(r.temp, rel)
	if err := r.leave(path.Dir(at)); err != nil {
		return err
	}
	e := Entry{Path: at, Mode: uint32(h.Mode) & permissions, Mtime: h.ModTime, Size: said.Size}
	switch h.Typeflag {
	case tar.TypeDir:
		r.totals.Dirs++
		r.isDir = r.isDir || !r.begun
		r.open.push(e)
		err = r.dir.Mkdir(at, 0o700)
	case tar.TypeSymlink:
		r.totals.Links++
		err = r.dir.Symlink(h.Linkname, at)
	case tar.TypeReg:
		r.totals.Files++
		_, sparse := h.PAXRecords[recordSize]
		err = r.file(e, sparse)
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
		return "", fmt.Errorf("%w: bad name %q", ErrStream, name)
	}
	return rel, nil
}

// saidOf returns the entry that a header and its records describe.
func saidOf(h *tar.Header, rel string) (Entry, error) {
	e := Entry{Path: rel, Mode: uint32(h.Mode) & (permissions | setID), Mtime: h.ModTime, Size: h.Size, Target: h.Linkname}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Type = fs.ModeDir
	case tar.TypeSymlink:
		e.Type = fs.ModeSymlink
	}
	for key, value := range h.PAXRecords {
		if err := e.record(key, value); err != nil {
			return e, fmt.Errorf("%w: %q has a record %q: %w", ErrStream, h.Name, key, err)
		}
	}
	slices.SortFunc(e.Xattrs, func(a, b fsx.Xattr) int { return strings.Compare(a.Name, b.Name) })
	return e, nil
}

func (e *Entry) record(key, value string) (err error) {
	switch key {
	case "path", "linkpath", "size", "mtime":
		return nil
	case recordSize:
		e.Size, err = strconv.ParseInt(value, 10, 64)
		if err == nil && (e.Size < 0 || e.Type != 0) {
			err = strconv.ErrRange
		}
		return err
	case recordOwner:
		e.Owner = &Owner{}
		_, err = fmt.Sscanf(value, "%d:%d/%d:%d", &e.Owner.UID, &e.Owner.GID, &e.Own.UID, &e.Own.GID)
		return err
	}
	if name, ok := strings.CutPrefix(key, recordXattr); ok && slices.Contains(grantsRights, name) {
		e.Xattrs = append(e.Xattrs, fsx.Xattr{Name: name, Value: []byte(value)})
		return nil
	}
	// Holes in the formats of other programs, for instance: a few bytes could make
	// the receiver write very many zeros.
	return errors.New("unknown record")
}

func (r *receiver) file(e Entry, sparse bool) error {
	f, err := r.dir.Create(e.Path, e.Mode|0o600)
	if err != nil {
		return err
	}
	if sparse {
		err = r.extents(f, e)
	} else {
		_, err = io.Copy(f, r.tar)
	}
	r.totals.Bytes += e.Size
	if err == nil && e.Mode|0o600 != e.Mode {
		err = r.dir.Chmod(e.Path, e.Mode)
	}
	return errors.Join(err, f.Close())
}

// extents writes a file whose holes were not sent.
func (r *receiver) extents(f *os.File, e Entry) error {
	list, err := fsx.DecodeExtents(r.tar, e.Size)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStream, err)
	}
	if err := fsx.ReceiveExtents(r.ctx, f, r.tar, list, e.Size); err != nil {
		return err
	}
	if n, _ := r.tar.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("%w: more contents than parts", ErrStream)
	}
	return nil
}

// openDirs are the directories above the current entry. Their modes and times are
// set last: a mode may forbid making entries, and an entry changes the time of its
// directory. Only one path is kept, however many there are.
type openDirs struct {
	path  string
	above []openDir
}

type openDir struct {
	up    int // length of the path above
	mode  uint32
	mtime time.Time
}

func (o *openDirs) push(e Entry) {
	o.above = append(o.above, openDir{len(o.path), e.Mode, e.Mtime})
	o.path = e.Path
}

// leave finishes the directories that are not above a path.
func (r *receiver) leave(at string) error {
	o := &r.open
	for len(o.above) > 0 && at != o.path && !strings.HasPrefix(at, o.path+"/") {
		last := len(o.above) - 1
		d := o.above[last]
		if err := r.dir.Chmod(o.path, d.mode); err != nil {
			return err
		}
		if err := r.dir.Chtimes(o.path, stamp(d.mtime)); err != nil {
			return err
		}
		o.path, o.above = o.path[:d.up], o.above[:last]
	}
	return nil
}

// publish renames the copy to its final name.
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
