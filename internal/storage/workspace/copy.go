package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

func newContent() any { return tree.NewContent() }

// hashing returns a hash for the contents of one file. The caller calls done, so
// that the next file can use it: files are many and small.
func (s *Store) hashing(size int64, like *tree.Entry) (h *tree.Content, done func()) {
	h = s.contents.Get().(*tree.Content)
	h.Reset(size, like)
	return h, func() { s.contents.Put(h) }
}

// hashFile hashes a file to its end. like is the earlier entry of the file, if
// any: it decides whether the digest of an earlier version is still right.
func (s *Store) hashFile(ctx context.Context, src *os.File, like *tree.Entry) (tree.Hash, bool, int64, error) {
	info, err := fsx.StatFile(src)
	if err != nil {
		return tree.Hash{}, false, 0, err
	}
	h, done := s.hashing(info.Size, like)
	defer done()
	n, err := fsx.ReadSparse(ctx, src, h)
	if err != nil {
		return tree.Hash{}, false, n, err
	}
	digest, plain, err := h.Sum(like)
	return digest, plain, n, err
}

// HasDigest reports whether a file has the contents of an entry, whatever the
// version of the entry's digest.
func (s *Store) HasDigest(ctx context.Context, f *os.File, e tree.Entry) (bool, error) {
	digest, _, n, err := s.hashFile(ctx, f, &e)
	if errors.Is(err, tree.ErrSize) {
		return false, nil
	}
	return digest == e.Digest && n == e.Size, err
}

// copyFile makes a copy with the entry's metadata and returns the digest of the
// copied bytes. like is as in hashFile.
func (s *Store) copyFile(ctx context.Context, d *fsx.Dir, name string, src io.Reader, e tree.Entry, like *tree.Entry, owners bool) (tree.Hash, bool, int64, error) {
	h, done := s.hashing(e.Size, like)
	defer done()
	n, err := putFile(ctx, d, name, src, h, e, owners)
	if err != nil {
		return tree.Hash{}, false, n, err
	}
	digest, plain, err := h.Sum(like)
	return digest, plain, n, err
}

// putFile makes a file with contents and metadata. h may be nil.
func putFile(ctx context.Context, d *fsx.Dir, name string, src io.Reader, h *tree.Content, e tree.Entry, owners bool) (n int64, err error) {
	dst, err := d.Create(name, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = copyContents(ctx, dst, src, h)
	if err == nil {
		err = setFileMeta(dst, e, owners)
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return n, err
	}
	return n, d.Chtimes(name, e.MTime)
}

// copyContents copies a file or a stream into a new file. h may be nil.
func copyContents(ctx context.Context, dst *os.File, src io.Reader, h *tree.Content) (int64, error) {
	file, ok := src.(*os.File)
	switch {
	case !ok && h == nil:
		return fsx.WriteSparse(ctx, dst, src, nil)
	case !ok:
		return fsx.WriteSparse(ctx, dst, src, h)
	case h == nil:
		return fsx.CopySparse(ctx, dst, file, nil)
	}
	return fsx.CopySparse(ctx, dst, file, h)
}

// setFileMeta sets owner, attributes and mode, in an order in which none of them
// undoes another.
func setFileMeta(f *os.File, e tree.Entry, owners bool) error {
	fd := int(f.Fd())
	if owners {
		if err := unix.Fchown(fd, int(e.UID), int(e.GID)); err != nil {
			return &os.PathError{Op: "chown", Path: f.Name(), Err: err}
		}
	}
	for _, x := range e.Xattrs {
		if err := unix.Fsetxattr(fd, x.Name, x.Value, 0); err != nil {
			return &os.PathError{Op: "set attribute " + x.Name + " of", Path: f.Name(), Err: err}
		}
	}
	if e.Mode != 0o600 || len(e.Xattrs) > 0 {
		if err := unix.Fchmod(fd, e.Mode); err != nil {
			return &os.PathError{Op: "chmod", Path: f.Name(), Err: err}
		}
	}
	return nil
}

// setMeta sets the metadata of anything that exists by name. The time is set last.
func setMeta(d *fsx.Dir, name string, e tree.Entry, owners bool) error {
	if owners {
		if err := d.Chown(name, e.UID, e.GID); err != nil {
			return err
		}
	}
	if e.Kind != tree.KindSymlink {
		for _, x := range e.Xattrs {
			if err := d.SetXattr(name, x.Name, x.Value); err != nil {
				return err
			}
		}
		if err := d.Chmod(name, e.Mode); err != nil {
			return err
		}
	}
	return d.Chtimes(name, e.MTime)
}

// makeSpecial makes an entry that is neither a file nor a directory.
func makeSpecial(d *fsx.Dir, name string, e tree.Entry, owners bool) error {
	var err error
	switch e.Kind {
	case tree.KindSymlink:
		err = d.Symlink(e.Target, name)
	case tree.KindFifo:
		err = d.Mkfifo(name, 0o600)
	case tree.KindSocket:
		err = d.Mksock(name, 0o600)
	case tree.KindFile, tree.KindDir:
		err = fmt.Errorf("%s: not a special file", name)
	}
	if err != nil {
		return err
	}
	return setMeta(d, name, e, owners)
}

// fileAttrs lists the attributes of an open file. The kernel checks the file's
// mode for that, also through a descriptor; if it refuses, they are read by name,
// where an elevated reader can help.
func fileAttrs(f *os.File, d *fsx.Dir, name string) ([]fsx.Xattr, error) {
	all, err := fsx.FileXattrs(f)
	if errors.Is(err, os.ErrPermission) {
		return d.Xattrs(name)
	}
	return all, err
}

// plainDir makes an empty directory without inherited access control lists.
func plainDir(d *fsx.Dir, name string) (*fsx.Dir, error) {
	if err := d.Mkdir(name, 0o700); err != nil {
		return nil, err
	}
	dir, err := d.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if err := dropACLs(dir); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// dropACLs removes inherited access control lists, which new files would inherit
// too.
func dropACLs(d *fsx.Dir) error {
	for _, name := range []string{aclDefault, aclAccess} {
		if err := d.RemoveXattr(".", name); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
	}
	return nil
}

func removeIfThere(d *fsx.Dir, name string) error {
	if d == nil {
		return nil
	}
	if err := d.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// counter counts files and bytes, and reports progress from time to time.
type counter struct {
	what   string
	report func(Progress)
	files  atomic.Int64
	bytes  atomic.Int64
	mu     sync.Mutex
}

// newCounter reports to the context's progress, if it has one.
func newCounter(ctx context.Context, what string) *counter {
	report, _ := ctx.Value(progressKey{}).(func(Progress))
	return &counter{what: what, report: report}
}

func (c *counter) add(at interface{ path() string }, bytes int64) {
	const every, step = 256, 8 << 20
	files, total := c.files.Add(1), c.bytes.Add(bytes)
	if c.report == nil || files%every != 0 && total/step == (total-bytes)/step {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report(Progress{What: c.what, Files: files, Bytes: total, Path: at.path()})
}
