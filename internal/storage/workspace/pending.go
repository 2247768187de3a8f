package workspace

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// trashPrefix begins the names of directories in pending that only wait to be
// deleted.
const trashPrefix = "trash_"

// pending is a layer that is being made.
type pending struct {
	s     *Store
	op    string
	layer string
	dir   *fsx.Dir
}

// newPending makes the directory of a new operation.
func (s *Store) newPending(op string) (*pending, error) {
	if err := s.checkNew(op); err != nil {
		return nil, err
	}
	if err := s.home.Mkdir("pending/"+op, 0o700); err != nil {
		return nil, fmt.Errorf("begin %s: %w", op, err)
	}
	p, err := s.openPending(op)
	if err != nil {
		return nil, err
	}
	if err := dropACLs(p.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("begin %s: %w", op, err), p.discard())
	}
	return p, nil
}

// checkNew refuses an operation that has already become a layer.
func (s *Store) checkNew(op string) error {
	if err := checkID("operation", op); err != nil {
		return err
	}
	if err := s.ensure("pending"); err != nil {
		return err
	}
	taken, err := exists(s.home, "layers/"+layerOf(op))
	if err != nil {
		return fmt.Errorf("begin %s: %w", op, err)
	}
	if taken {
		return fmt.Errorf("begin %s: %s: %w", op, layerOf(op), os.ErrExist)
	}
	return nil
}

func (s *Store) openPending(op string) (*pending, error) {
	dir, err := s.home.OpenDir("pending/" + op)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", op, err)
	}
	return &pending{s: s, op: op, layer: layerOf(op), dir: dir}, nil
}

func (p *pending) close() { p.dir.Close() }

// discard removes the operation's directory. It renames it first, so that a
// half-removed one is never resumed.
func (p *pending) discard() error {
	p.close()
	p.s.packs.remove(p.layer)
	return p.s.trash("pending/"+p.op, p.op)
}

// DiscardPending removes what an operation left unfinished, if anything.
func (s *Store) DiscardPending(op string) error {
	if err := checkID("operation", op); err != nil {
		return err
	}
	return s.trash("pending/"+op, op)
}

// trash renames a directory away and deletes it.
func (s *Store) trash(rel, id string) error {
	to, err := s.setAside(rel, id)
	if to == "" || err != nil {
		return err
	}
	if err := s.home.RemoveAll(to); err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	return nil
}

// setAside renames a directory to a name that marks it for deletion, and returns
// the name; "" if there is no such directory.
func (s *Store) setAside(rel, id string) (string, error) {
	if err := s.ensure("pending"); err != nil {
		return "", err
	}
	to := "pending/" + trashPrefix + id
	err := s.home.Rename(rel, s.home, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, os.ErrExist) { // an earlier removal was interrupted
		if err = s.home.RemoveAll(to); err == nil {
			err = s.home.Rename(rel, s.home, to, unix.RENAME_NOREPLACE)
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("remove %s: %w", id, err)
	}
	return to, nil
}

// readSmall reads a file that is small in every sound home.
func readSmall(d *fsx.Dir, rel string) ([]byte, error) { return readWithin(d, rel, 4<<20) }

// readWithin reads a file that has at most limit bytes in every sound home.
func readWithin(d *fsx.Dir, rel string, limit int64) ([]byte, error) {
	f, err := d.OpenFile(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := fsx.StatFile(f)
	if err != nil {
		return nil, err
	}
	if info.Size > limit {
		return nil, fmt.Errorf("%s is too big: %d bytes", rel, info.Size)
	}
	data := make([]byte, info.Size)
	n, err := f.ReadAt(data, 0)
	if int64(n) < info.Size {
		return nil, err
	}
	return data, nil
}

// writeNew writes a file of a pending directory, and replaces one that an
// interrupted seal left. It is not durable by itself.
func writeNew(d *fsx.Dir, name string, data []byte) error {
	if err := d.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := d.Create(name, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// pack is a manifest that is being written.
type pack struct {
	s     *Store
	layer string
	file  *os.File
	buf   *bufio.Writer
	w     *tree.Writer
}

// newPack starts the manifest of a pending layer.
func (s *Store) newPack(dir *fsx.Dir, layer string) (*pack, error) {
	if err := removeIfThere(dir, "manifest"); err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	file, err := dir.Create("manifest", 0o600)
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	return s.packTo(file, layer)
}

func (s *Store) packTo(file *os.File, layer string) (*pack, error) {
	s.packs.remove(layer)
	buf := bufio.NewWriterSize(file, 128<<10)
	w, err := tree.NewWriter(buf, layer, s.packs)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write manifest: %w", err), file.Close())
	}
	return &pack{s: s, layer: layer, file: file, buf: buf, w: w}, nil
}

// finish completes the manifest. Then it can be loaded.
func (p *pack) finish() (map[string]tree.AreaRoots, error) {
	areas, err := p.w.Close()
	if err == nil {
		err = p.buf.Flush()
	}
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	info, err := fsx.StatFile(p.file)
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	p.s.packs.addFile(p.layer, p.file, info.Size)
	p.file = nil
	return areas, nil
}

// abort closes a manifest that was not finished.
func (p *pack) abort() {
	if p.file != nil {
		p.file.Close()
	}
}

// Forget frees a tree that is not stored: it cannot be read any more. Other trees stay.
func (s *Store) Forget(t *tree.Tree) {
	s.mu.Lock()
	layer, is := s.inMemory[t]
	delete(s.inMemory, t)
	s.mu.Unlock()
	if is {
		s.packs.remove(layer)
	}
}

// memoryTree makes a tree that is not stored. It is valid until Forget, or until the
// store is closed.
func (s *Store) memoryTree(changes bool, build func(w *tree.Writer) (tree.Entry, tree.Links, *findings, error)) (*tree.Tree, Report, error) {
	fd, err := unix.MemfdCreate("forkcell-tree", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, Report{}, fmt.Errorf("make a memory file: %w", err)
	}
	s.mu.Lock()
	s.scans++
	layer := fmt.Sprintf("mem_%d", s.scans)
	s.mu.Unlock()
	p, err := s.packTo(os.NewFile(uintptr(fd), "memory"), layer)
	if err != nil {
		return nil, Report{}, err
	}
	defer p.abort()
	root, links, found, err := build(p.w)
	var report Report
	if found != nil {
		report = found.report()
	}
	if err != nil {
		return nil, report, err
	}
	if err := setArea(p.w, AreaWorkspace, changes, root, links); err != nil {
		return nil, report, err
	}
	if _, err := p.finish(); err != nil {
		return nil, report, err
	}
	m, err := tree.Load(s.packs, layer)
	if err != nil {
		return nil, report, err
	}
	t, ok := m.Area(AreaWorkspace)
	if !ok {
		return nil, report, fmt.Errorf("%w: a tree in memory has no area", ErrCorrupt)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inMemory[t] = layer
	return t, report, nil
}
