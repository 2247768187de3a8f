package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// objectTemp begins the names of objects that are being written.
const objectTemp = "tmp_"

// objects keeps file contents by their digest, for delta cells.
type objects struct {
	s       *Store
	op      string
	dir     *fsx.Dir
	next    atomic.Int64
	written atomic.Int64 // disk space
}

func (s *Store) openObjects(op string) (*objects, error) {
	if err := s.ensure("objects"); err != nil {
		return nil, err
	}
	dir, err := s.home.OpenDir("objects")
	if err != nil {
		return nil, fmt.Errorf("open objects: %w", err)
	}
	return &objects{s: s, op: op, dir: dir}, nil
}

func (o *objects) close() { o.dir.Close() }

func objectPath(d tree.Hash) string {
	name := d.String()
	return name[:2] + "/" + name
}

// has reports whether the contents are kept already. It compares the size because
// a crash may have left a short object under its final name.
func (o *objects) has(d tree.Hash, size int64) bool {
	info, err := o.dir.Lstat(objectPath(d))
	return err == nil && info.IsRegular() && info.Size == size
}

// put keeps the contents of src. If they are probably unchanged, it first only
// reads them.
func (o *objects) put(ctx context.Context, src *os.File, size int64, old *tree.Entry) (tree.Hash, bool, int64, error) {
	if old != nil && old.Kind == tree.KindFile && old.Size == size && o.has(old.Digest, size) {
		digest, plain, n, err := o.s.hashFile(ctx, src, old)
		if err != nil || digest == old.Digest {
			return digest, plain, n, err
		}
	}
	digest, n, err := o.add(ctx, src, size, nil)
	return digest, false, n, err
}

// add writes contents under a temporary name and then renames them.
func (o *objects) add(ctx context.Context, src io.Reader, size int64, like *tree.Entry) (tree.Hash, int64, error) {
	temp := fmt.Sprintf("%s%s_%d", objectTemp, o.op, o.next.Add(1))
	// An interrupted operation may have left a file of this name.
	if err := removeIfThere(o.dir, temp); err != nil {
		return tree.Hash{}, 0, err
	}
	digest, n, err := o.write(ctx, src, size, like, temp)
	if err != nil {
		return digest, n, errors.Join(err, removeIfThere(o.dir, temp))
	}
	return digest, n, nil
}

func (o *objects) write(ctx context.Context, src io.Reader, size int64, like *tree.Entry, temp string) (tree.Hash, int64, error) {
	h, done := o.s.hashing(size, like)
	defer done()
	dst, err := o.dir.Create(temp, 0o400)
	if err != nil {
		return tree.Hash{}, 0, err
	}
	n, err := copyContents(ctx, dst, src, h)
	info, statErr := fsx.StatFile(dst)
	if err = errors.Join(err, statErr, dst.Close()); err != nil {
		return tree.Hash{}, n, err
	}
	digest, _, err := h.Sum(like)
	if err != nil {
		return digest, n, err
	}
	if o.has(digest, n) {
		return digest, n, o.dir.Remove(temp)
	}
	path := objectPath(digest)
	if err := o.dir.MkdirAll(path[:2], 0o700); err != nil {
		return digest, n, err
	}
	if err := o.dir.Rename(temp, o.dir, path, 0); err != nil {
		return digest, n, err
	}
	o.written.Add(spaceOf(info))
	return digest, n, nil
}

// putReader keeps contents, which must have the digest of e.
func (o *objects) putReader(ctx context.Context, src io.Reader, e tree.Entry) error {
	digest, n, err := o.add(ctx, src, e.Size, &e)
	if errors.Is(err, tree.ErrSize) {
		return ErrSourceChanged
	}
	if err != nil {
		return err
	}
	if digest != e.Digest || n != e.Size {
		return ErrSourceChanged
	}
	return nil
}

// openObject opens an object.
func (s *Store) openObject(d tree.Hash) (*os.File, error) {
	f, err := s.home.OpenFile("objects/" + objectPath(d))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("object %s is missing: %w", d, unix.ENOENT)
	}
	return f, err
}
