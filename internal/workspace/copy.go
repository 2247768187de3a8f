package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/tree"
)

// scratch is what hashing one file takes. Files are many and small, so it is
// used again.
type scratch struct {
	hash hash.Hash
	buf  []byte
}

func newScratch() any { return &scratch{hash: sha256.New(), buf: make([]byte, 128<<10)} }

func sum(h hash.Hash) (d tree.Hash) {
	h.Sum(d[:0])
	return d
}

// hashFile reads a file to its end.
func (s *Store) hashFile(src io.Reader) (tree.Hash, int64, error) {
	tmp := s.scratch.Get().(*scratch)
	defer s.scratch.Put(tmp)
	tmp.hash.Reset()
	var total int64
	for {
		n, err := src.Read(tmp.buf)
		tmp.hash.Write(tmp.buf[:n])
		total += int64(n)
		if err == io.EOF {
			return sum(tmp.hash), total, nil
		}
		if err != nil {
			return tree.Hash{}, total, err
		}
	}
}

// copyFile makes a copy with the entry's metadata and returns the digest of
// what was copied.
func (s *Store) copyFile(d *fsx.Dir, name string, src io.Reader, e tree.Entry, owners bool) (tree.Hash, int64, error) {
	tmp := s.scratch.Get().(*scratch)
	defer s.scratch.Put(tmp)
	tmp.hash.Reset()
	n, err := putFile(d, name, src, tmp.hash, e, owners)
	return sum(tmp.hash), n, err
}

// putFile makes a file with contents and metadata. h may be nil.
func putFile(d *fsx.Dir, name string, src io.Reader, h hash.Hash, e tree.Entry, owners bool) (n int64, err error) {
	dst, err := d.Create(name, 0o600)
	if err != nil {
		return 0, err
	}
	if file, ok := src.(*os.File); ok {
		var w io.Writer
		if h != nil {
			w = h
		}
		n, err = fsx.CopySparse(dst, file, w)
	} else {
		w := io.Writer(dst)
		if h != nil {
			w = io.MultiWriter(dst, h)
		}
		n, err = io.Copy(w, src)
	}
	if err == nil {
		err = setFileMeta(dst, e, owners)
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return n, err
	}
	return n, d.Chtimes(name, e.MTime)
}

// setFileMeta sets owner, attributes and mode, in the order in which none takes
// another away again.
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

// setMeta sets the metadata of anything that exists by name; the time comes
// last.
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

// makeSpecial makes what is neither file nor directory.
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

// fileAttrs lists the attributes of an open file. Reading them is checked
// against the file's mode, also through a descriptor: then by name, where the
// elevated reader helps.
func fileAttrs(f *os.File, d *fsx.Dir, name string) ([]fsx.Xattr, error) {
	all, err := fsx.FileXattrs(f)
	if errors.Is(err, os.ErrPermission) {
		return d.Xattrs(name)
	}
	return all, err
}

// plainDir makes an empty directory that inherits no access rules.
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

// dropACLs takes inherited access rules away; new files would inherit them too.
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

// counter counts what was done and tells it now and then.
type counter struct {
	s     *Store
	what  string
	files atomic.Int64
	bytes atomic.Int64
	mu    sync.Mutex
}

func (c *counter) add(path string, bytes int64) {
	const every = 256
	files, total := c.files.Add(1), c.bytes.Add(bytes)
	if c.s.opt.Progress == nil || files%every != 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.opt.Progress(Progress{What: c.what, Files: files, Bytes: total, Path: path})
}
