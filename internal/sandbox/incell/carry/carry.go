// Package carry copies a file or a directory through a stream of bytes, from one
// side that reads it to another that writes it.
//
// Either side may be hostile to the other: what runs in a cell can forge all
// that comes out of it. So a stream holds only directories, regular files and
// symbolic links, with permission bits and modification times; what is received
// is written through a directory descriptor, beneath it, without ever following
// a link; set-user-id bits, owners and extended attributes are not restored. A
// sender may list them, so that the receiver can report what it drops. FIFOs,
// sockets and devices are left out and reported, and never opened.
//
// The stream is a tar archive whose first entry is called "root" and whose last
// one is called "end", so that a stream that was cut short is recognised. The
// contents of a file with holes are a list of its parts and then the parts.
//
// The package knows nothing of cells, sockets or callers. [Main] is the side that
// runs inside a cell.
package carry

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// The names of the first and the last entry.
const (
	rootName = "root"
	endName  = "end"
)

// The records of a stream.
const (
	recordSize  = "FORKCELL.size"  // of a file that is sent without its holes
	recordOwner = "FORKCELL.owner" // UID:GID/UID:GID: whose it is, and who own is
	recordXattr = "SCHILY.xattr."  // of what gives rights to others
)

// grantsRights lists the extended attributes that a sender reports.
var grantsRights = []string{"system.posix_acl_access", "system.posix_acl_default", "security.capability"}

// permissions are the mode bits that are restored. Set-id bits are only reported.
const (
	permissions = 0o777
	setID       = 0o6000
)

// ErrStream means that a stream was not written by this package, or is damaged.
var ErrStream = errors.New("malformed copy stream")

// Totals counts what was copied.
type Totals struct {
	Files, Dirs, Links int64
	Bytes              int64
	// Skipped are the names of what cannot be copied: FIFOs, sockets, devices.
	Skipped []string
}

// Owner is the owner of a file.
type Owner struct{ UID, GID uint32 }

// Send writes a name in a directory, with everything below it. It does not follow
// the name if it is a symbolic link. If own is not nil, the stream also has the
// owners that differ from own, and the lists and capabilities that give rights.
func Send(ctx context.Context, w io.Writer, dir *fsx.Dir, name string, own *Owner) (Totals, error) {
	s := &sender{ctx: ctx, out: NewWriter(w), own: own}
	if err := s.all(dir, name); err != nil {
		return s.out.Totals, err
	}
	return s.out.Totals, s.out.Close()
}

type sender struct {
	ctx context.Context //nolint:containedctx // lives as long as the one call
	out *Writer
	own *Owner
}

// all sends a name and everything below it.
func (s *sender) all(dir *fsx.Dir, name string) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	if err := s.send(dir, name, "", info); err != nil || !info.IsDir() {
		return err
	}
	root, err := dir.OpenDir(name)
	if err != nil {
		return err
	}
	defer root.Close()
	return fsx.Walk(s.ctx, root, fsx.Visitor{
		Enter: func(at *fsx.Step) (bool, error) { return true, s.send(at.Dir(), at.Name, at.Path(), at.Info) },
		Gone:  func(err error) bool { return errors.Is(err, fs.ErrNotExist) },
	})
}

// send sends one entry.
func (s *sender) send(dir *fsx.Dir, name, rel string, info fsx.Info) (err error) {
	e := Entry{Path: rel, Mode: info.Mode, Mtime: info.MTime.Time()}
	if s.own != nil {
		if err := s.tell(dir, name, info, &e); err != nil {
			return err
		}
	}
	switch {
	case info.IsDir():
		return s.out.Dir(e)
	case info.IsRegular():
		return s.file(dir, name, e)
	case info.IsSymlink():
		if e.Target, err = dir.Readlink(name); err != nil {
			return err
		}
		return s.out.Link(e)
	case rel == "":
		return fmt.Errorf("%s is not a file, directory or symbolic link", name)
	default:
		s.out.Skipped = append(s.out.Skipped, rel)
		return nil
	}
}

// tell adds the metadata that the receiver will drop.
func (s *sender) tell(dir *fsx.Dir, name string, info fsx.Info, e *Entry) error {
	if o := (Owner{info.UID, info.GID}); o != *s.own {
		e.Owner, e.Own = &o, *s.own
	}
	if !info.IsDir() && !info.IsRegular() {
		return nil
	}
	all, err := dir.Xattrs(name)
	for _, x := range all {
		if slices.Contains(grantsRights, x.Name) {
			e.Xattrs = append(e.Xattrs, x)
		}
	}
	return err
}

func (s *sender) file(dir *fsx.Dir, name string, e Entry) error {
	f, err := dir.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := fsx.StatFile(f)
	if err != nil {
		return err
	}
	e.Mode, e.Size = info.Mode, info.Size
	return s.out.File(s.ctx, e, f)
}

// Entry is one file, directory or symbolic link of a stream.
type Entry struct {
	// Path is relative to what is copied, which itself is "".
	Path   string
	Mode   uint32
	Mtime  time.Time
	Size   int64
	Target string
	// Type is that of fs.FileMode: a directory, a symbolic link or a file.
	Type fs.FileMode
	// Owner is nil for what belongs to own; otherwise Own is the id of own on the
	// sender's side. Owners and Xattrs are reported, not restored.
	Owner  *Owner
	Own    Owner
	Xattrs []fsx.Xattr
}

// Writer writes a stream from entries of any origin.
type Writer struct {
	Totals
	tar *tar.Writer
}

// NewWriter begins a stream.
func NewWriter(w io.Writer) *Writer { return &Writer{tar: tar.NewWriter(w)} }

// Dir adds a directory, before what is in it.
func (w *Writer) Dir(e Entry) error {
	w.Dirs++
	return w.header(e, tar.TypeDir, 0, nil)
}

// Link adds a symbolic link.
func (w *Writer) Link(e Entry) error {
	w.Links++
	return w.header(e, tar.TypeSymlink, 0, nil)
}

// File adds a file with exactly e.Size bytes of f. Holes are not sent.
func (w *Writer) File(ctx context.Context, e Entry, f *os.File) error {
	w.Files++
	extents, err := fsx.Extents(ctx, f, e.Size)
	if errors.Is(err, fsx.ErrManyExtents) {
		extents, err = []fsx.Extent{{Len: e.Size}}, nil
	}
	if err != nil {
		return err
	}
	if fsx.ExtentsLen(extents) < e.Size {
		err = w.sparse(e, extents)
	} else {
		err = w.header(e, tar.TypeReg, e.Size, nil)
	}
	if err != nil {
		return err
	}
	err = fsx.SendExtents(ctx, w.tar, f, extents, e.Size, nil)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s became shorter while it was read", e.Path)
	}
	w.Bytes += e.Size
	return err
}

// sparse writes the header and the list of a file with holes.
func (w *Writer) sparse(e Entry, extents []fsx.Extent) error {
	list := fsx.EncodeExtents(extents, e.Size)
	records := map[string]string{recordSize: strconv.FormatInt(e.Size, 10)}
	if err := w.header(e, tar.TypeReg, int64(len(list))+fsx.ExtentsLen(extents), records); err != nil {
		return err
	}
	_, err := w.tar.Write(list)
	return err
}

func (w *Writer) header(e Entry, kind byte, size int64, records map[string]string) error {
	if e.Owner != nil || len(e.Xattrs) > 0 {
		records = maps.Clone(records)
		if records == nil {
			records = map[string]string{}
		}
	}
	if e.Owner != nil {
		records[recordOwner] = fmt.Sprintf("%d:%d/%d:%d", e.Owner.UID, e.Owner.GID, e.Own.UID, e.Own.GID)
	}
	for _, x := range e.Xattrs {
		records[recordXattr+x.Name] = string(x.Value)
	}
	return w.tar.WriteHeader(&tar.Header{
		Format: tar.FormatPAX, Typeflag: kind, Name: path.Join(rootName, e.Path), Linkname: e.Target, Size: size,
		Mode: int64(e.Mode & (permissions | setID)), ModTime: e.Mtime, PAXRecords: records,
	})
}

// Close ends the stream.
func (w *Writer) Close() error {
	err := w.tar.WriteHeader(&tar.Header{Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: endName})
	if err != nil {
		return err
	}
	return w.tar.Close()
}

// Source opens the directory of a path that exists, and returns the name in it.
// Symbolic links are followed, except for the last component.
func Source(from string) (dir *fsx.Dir, name string, err error) {
	clean := path.Clean(from)
	name = path.Base(clean)
	if name == "." || name == ".." || name == "/" || strings.HasSuffix(from, "/") {
		dir, err = fsx.OpenRoot(clean)
		return dir, ".", err
	}
	if dir, err = fsx.OpenRoot(path.Dir(clean)); err != nil {
		return nil, "", err
	}
	if _, err := dir.Lstat(name); err != nil {
		return nil, "", errors.Join(err, dir.Close())
	}
	return dir, name, nil
}

// Place returns where a copy called base goes for a destination: into it, if it is
// a directory, else under its name. The path is trusted, and may go through
// symbolic links.
func Place(to, base string) (dir *fsx.Dir, name string, err error) {
	info, err := os.Stat(to)
	switch {
	case err == nil && info.IsDir():
		dir, err = fsx.OpenRoot(to)
		return dir, base, err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, "", err
	case strings.HasSuffix(to, "/"):
		return nil, "", &fs.PathError{Op: "open", Path: to, Err: errors.New("not a directory")}
	}
	parent, name := path.Split(to)
	if parent == "" {
		parent = "."
	}
	dir, err = fsx.OpenRoot(path.Clean(parent))
	return dir, name, err
}
