package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// A frame is the pending directory of a generation, with the six directories and
// two files that each one has. A generation that ends unchanged leaves its frame,
// emptied, to a later one: a rename is cheaper than freeing nine inodes and
// finding nine others, above all on file systems that do not reuse an inode soon
// after it was freed.

const (
	spareDir = "spare"
	// spareCount bounds the number of spare frames: about as many as there are
	// runs at once.
	spareCount = 8
	// spareMarker is the name of the marker in a spare frame.
	spareMarker = "unbegun"
	tmpMode     = 0o1777
)

// frameDirs are the directories of a frame. In a spare frame all but work are
// empty.
var frameDirs = []string{AreaWorkspace, AreaHome, "tmp", "work", "work/" + AreaWorkspace, "work/" + AreaHome}

// newFramed makes the directory of a generation, from a spare frame if there is
// one.
func (s *Store) newFramed(op string) (*pending, error) {
	if err := s.checkNew(op); err != nil {
		return nil, err
	}
	p, err := s.takeFrame(op)
	if p != nil || err != nil {
		return p, err
	}
	return s.newPending(op)
}

// takeFrame makes a spare frame the pending directory of an operation; nil if
// there is none. It discards a frame that is not in order: a power failure may
// have brought back what was removed from it.
func (s *Store) takeFrame(op string) (*pending, error) {
	for i := range spareCount {
		err := s.home.Rename(spareName(i), s.home, "pending/"+op, unix.RENAME_NOREPLACE)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("begin %s: %w", op, err)
		}
		p, err := s.openPending(op)
		if err != nil {
			return nil, err
		}
		p.framed = true
		if sound, err := p.soundFrame(); err == nil && sound {
			return p, nil
		}
		if err := p.discard(); err != nil {
			return nil, err
		}
	}
	return nil, nil //nolint:nilnil // as documented
}

func spareName(i int) string { return fmt.Sprintf("%s/%d", spareDir, i) }

// soundFrame reports whether a frame is in order and empty.
func (p *pending) soundFrame() (bool, error) {
	own, err := p.dir.Lstat(".")
	if err != nil {
		return false, err
	}
	// No command could write to this directory, so the others are compared with it.
	fresh, _, err := lookAt(p.dir, "work/"+AreaHome)
	if err != nil {
		return false, err
	}
	names, err := p.dir.Names()
	if err != nil {
		return false, err
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{AreaHome, initRecord, "tmp", spareMarker, "work", AreaWorkspace}) {
		return false, nil
	}
	for _, name := range frameDirs {
		info, empty, err := lookAt(p.dir, name)
		if err != nil || !empty && name != "work" {
			return false, err
		}
		if name != "work" && info.Size != fresh.Size {
			return false, nil // it grew, and directories do not shrink
		}
		if name == AreaWorkspace || name == AreaHome {
			continue // Begin sets owner and mode
		}
		mode := uint32(0o700)
		if name == "tmp" {
			mode = tmpMode
		}
		if info.UID != own.UID || info.GID != own.GID || info.Mode != mode {
			return false, nil
		}
	}
	return true, nil
}

// lookAt returns the metadata of a directory, and reports whether it is empty,
// without attributes, and has the inode flags of its parent, which new files
// inherit.
func lookAt(d *fsx.Dir, name string) (info fsx.Info, empty bool, err error) {
	sub, err := d.OpenDir(name)
	if err != nil {
		return fsx.Info{}, false, err
	}
	defer sub.Close()
	if info, err = sub.Lstat("."); err != nil {
		return fsx.Info{}, false, err
	}
	names, err := sub.Names()
	if err != nil {
		return fsx.Info{}, false, err
	}
	attrs, err := sub.Xattrs(".")
	return info, len(names) == 0 && len(attrs) == 0 && flagsOf(sub) == flagsOf(d), err
}

// flagsOf returns the inode flags of a directory, as chattr sets them; 0 where the
// file system has none.
func flagsOf(d *fsx.Dir) uint32 {
	flags, err := unix.IoctlGetUint32(d.Fd(), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return 0
	}
	return flags
}

// area opens the empty directory of an area, and makes it unless the frame has it.
func (p *pending) area(name string) (*fsx.Dir, error) {
	if p.framed {
		return p.dir.OpenDir(name)
	}
	return plainDir(p.dir, name)
}

// mark marks the generation as begun.
func (p *pending) mark() error {
	if p.framed {
		return p.dir.Rename(spareMarker, p.dir, generationMarker, unix.RENAME_NOREPLACE)
	}
	f, err := p.dir.Create(generationMarker, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// recycle ends an operation. It keeps the frame as a spare one if nothing in it
// needs care to remove and there are not enough spare ones.
func (p *pending) recycle() error {
	p.close()
	p.s.packs.remove(p.layer)
	aside, err := p.s.setAside("pending/"+p.op, p.op)
	if aside == "" || err != nil {
		return err
	}
	if kept, err := p.s.keepFrame(aside); err == nil && kept {
		return nil
	}
	// A frame that cannot be kept can still be removed.
	if err := p.s.home.RemoveAll(aside); err != nil {
		return fmt.Errorf("remove %s: %w", p.op, err)
	}
	return nil
}

// keepFrame empties a frame and makes it a spare one. It reports whether it did.
func (s *Store) keepFrame(aside string) (bool, error) {
	d, err := s.home.OpenDir(aside)
	if err != nil {
		return false, err
	}
	defer d.Close()
	if bare, err := s.emptyFrame(d); err != nil || !bare {
		return false, err
	}
	if err := s.ensure(spareDir); err != nil {
		return false, err
	}
	for i := range spareCount {
		err := s.home.Rename(aside, s.home, spareName(i), unix.RENAME_NOREPLACE)
		if !errors.Is(err, os.ErrExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// emptyFrame removes what a run left in a frame. It reports false, and stops, if
// the areas changed: then the frame is not worth keeping.
func (s *Store) emptyFrame(d *fsx.Dir) (bool, error) {
	for _, name := range []string{AreaWorkspace, AreaHome} {
		// The kernel records the overlay's UUID in the upper directory.
		if err := d.RemoveXattr(name, s.upperAttrs().own+"uuid"); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return false, err
		}
		if _, bare, err := lookAt(d, name); err != nil || !bare {
			return false, err
		}
	}
	names, err := d.Names()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if name == generationMarker || name == initRecord || slices.Contains(frameDirs, name) {
			continue
		}
		if err := d.RemoveAll(name); err != nil {
			return false, err
		}
	}
	for _, name := range []string{"tmp", "work/" + AreaWorkspace, "work/" + AreaHome} {
		if err := emptyDir(d, name); err != nil {
			return false, err
		}
	}
	if err := overwrite(d, initRecord, nil); err != nil {
		return false, err
	}
	return true, d.Rename(generationMarker, d, spareMarker, 0)
}

// Remount prepares a generation to be mounted again: the kernel refuses the
// scratch directory of an overlay that was mounted before. It must not be mounted
// now.
func (w *Work) Remount() error {
	dir, err := w.p.dir.OpenDir("work")
	if errors.Is(err, os.ErrNotExist) {
		return nil // not an overlay
	}
	if err != nil {
		return fmt.Errorf("mount again: %w", err)
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return fmt.Errorf("mount again: %w", err)
	}
	for _, name := range names {
		if err := emptyDir(dir, name); err != nil {
			return fmt.Errorf("mount again: %w", err)
		}
	}
	return nil
}

// emptyDir removes everything in a directory.
func emptyDir(d *fsx.Dir, name string) error {
	sub, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	names, err := sub.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := sub.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// overwrite replaces the contents of a file in a pending directory, and pads them
// with blanks to the old size: truncating a file that was just written waits for
// the disk. The result is neither durable nor atomic.
func overwrite(d *fsx.Dir, name string, data []byte) error {
	f, err := d.ReopenFile(name)
	if errors.Is(err, os.ErrNotExist) {
		f, err = d.Create(name, 0o600)
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		blanks := max(0, int(info.Size())-len(data))
		_, err = f.Write(append(bytes.Clone(data), bytes.Repeat([]byte(" "), blanks)...))
	}
	return errors.Join(err, f.Close())
}
