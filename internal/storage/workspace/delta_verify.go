package workspace

import (
	"fmt"
	"os"
	"sync"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// rebuild takes the metadata from the manifest, which alone has it, and reads the
// contents where they are kept.
func (b deltaBackend) rebuild(v *verification, w *tree.Writer, area string, t *tree.Tree) (tree.Entry, tree.Links, error) {
	r := &rehasher{v: v, w: w, t: t, open: contentsOf(b, v.layer, area), pool: newPool(v.ctx)}
	root := &rehashed{at: r.pool.keeper.Root(nil), entry: t.Root()}
	if err := r.pool.run(r.dir(root)); err != nil {
		return tree.Entry{}, tree.Links{}, err
	}
	links, err := t.Links()
	return root.entry, links, err
}

type rehasher struct {
	v    *verification
	w    *tree.Writer
	t    *tree.Tree
	open opener
	pool *pool
}

// rehashed is one directory that is rebuilt. at only names it.
type rehashed struct {
	up    *rehashed
	at    *fsx.Ref
	entry tree.Entry
	mu    sync.Mutex
	edit  *tree.DirEdit
}

func (d *rehashed) put(e tree.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.edit.Put(e)
}

func (r *rehasher) dir(d *rehashed) (enter func(t *task) error, leave func() (bool, error)) {
	enter = func(t *task) error {
		children, err := r.t.Children(d.entry.Sub)
		if err != nil {
			return err
		}
		d.edit = r.w.NewDir()
		files := children[:0:0]
		for _, e := range children {
			if e.Kind != tree.KindDir {
				files = append(files, e)
				continue
			}
			enter, leave := r.dir(&rehashed{up: d, at: d.at.Child(e.Name), entry: e})
			r.pool.add(t, enter, leave)
		}
		batches(r.pool, t, files, func(e tree.Entry) error {
			err := r.read(d, &e)
			d.put(e)
			return err
		})
		return nil
	}
	leave = func() (again bool, err error) {
		if d.entry.Sub, err = d.edit.Node(); err == nil && d.up != nil {
			d.up.put(d.entry)
		}
		return false, err
	}
	return enter, leave
}

// read hashes the contents of a file again. A file that cannot be read gets a zero
// digest, so that all bad files are reported and not only the first.
func (r *rehasher) read(d *rehashed, e *tree.Entry) error {
	if e.Kind != tree.KindFile {
		return nil
	}
	was := *e
	e.Digest, e.PlainDigest = tree.Hash{}, false
	f, err := r.open(pathBelow(d.at, e.Name), was)
	if err != nil {
		return nil
	}
	defer f.Close()
	file, ok := f.(*os.File)
	if !ok {
		return fmt.Errorf("%s: not a file of the store", e.Name)
	}
	digest, plain, n, err := r.v.s.hashFile(r.pool.ctx, file, &was)
	if r.pool.ctx.Err() != nil {
		return r.pool.ctx.Err()
	}
	if e.Size = n; err == nil {
		e.Digest, e.PlainDigest = digest, plain
	}
	return nil
}
