package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/fsx"
)

// The frame of a generation on overlay is a directory with seven directories and
// two files in it. A generation that ends unchanged leaves its frame, emptied,
// for another one: a rename costs less than to free nine inodes and to search
// for nine others, above all on a file system that gives none away that was
// freed lately.

const (
	spareDir = "spare"
	// spareCount bounds how many frames wait: about as many as runs go on at
	// once.
	spareCount = 8
	// unbegun is the name of the marker in a frame that waits.
	unbegun = "unbegun"
	tmpMode = 0o1777
)

// frameDirs are the directories of a frame. All but work end empty.
var frameDirs = []string{AreaWorkspace, AreaHome, "tmp", "work", "work/" + AreaWorkspace, "work/" + AreaHome}

// newFramed makes the directory of a generation, of a frame that waits where
// there is one.
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

// takeFrame gives an operation a frame; nil if none waits. One that is not as it
// should be is thrown away: a power failure may have brought back what was
// removed from it.
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

// soundFrame tells whether a directory is what an operation needs that starts
// with nothing.
func (p *pending) soundFrame() (bool, error) {
	own, err := p.dir.Lstat(".")
	if err != nil {
		return false, err
	}
	// Where no command can write there is a directory to compare with.
	fresh, _, err := lookAt(p.dir, "work/"+AreaHome)
	if err != nil {
		return false, err
	}
	names, err := p.dir.Names()
	if err != nil {
		return false, err
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{AreaHome, initRecord, "tmp", unbegun, "work", AreaWorkspace}) {
		return false, nil
	}
	for _, name := range frameDirs {
		info, empty, err := lookAt(p.dir, name)
		if err != nil || !empty && name != "work" {
			return false, err
		}
		if name != "work" && info.Size != fresh.Size {
			return false, nil // it was big once
		}
		if name == AreaWorkspace || name == AreaHome {
			continue // Begin sets its owner and mode
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

// lookAt tells whether a directory is empty, without attributes, and has the
// flags of the one that it is in: files inherit them.
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

// flagsOf are the inode's, as chattr sets them; 0 where the file system has none.
func flagsOf(d *fsx.Dir) uint32 {
	flags, err := unix.IoctlGetUint32(d.Fd(), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return 0
	}
	return flags
}

// area is the empty directory of an area.
func (p *pending) area(name string) (*fsx.Dir, error) {
	if p.framed {
		return p.dir.OpenDir(name)
	}
	return plainDir(p.dir, name)
}

// mark says that the generation can be worked on.
func (p *pending) mark() error {
	if p.framed {
		return p.dir.Rename(unbegun, p.dir, generationMarker, unix.RENAME_NOREPLACE)
	}
	f, err := p.dir.Create(generationMarker, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// recycle ends an operation and keeps its frame, if there is nothing in it that
// would have to be removed with care and not enough others wait.
func (p *pending) recycle() error {
	p.close()
	p.s.packs.forget(p.layer)
	aside, err := p.s.setAside("pending/"+p.op, p.op)
	if aside == "" || err != nil {
		return err
	}
	if kept, err := p.s.keepFrame(aside); err == nil && kept {
		return nil
	}
	// Whatever was in the way of keeping it, it can still be removed.
	if err := p.s.home.RemoveAll(aside); err != nil {
		return fmt.Errorf("remove %s: %w", p.op, err)
	}
	return nil
}

// keepFrame empties a frame and puts it where others find it.
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

// emptyFrame takes out of a frame what a run has left there. It reports whether the
// areas were as they were made, and so whether the rest was worth the effort.
func (s *Store) emptyFrame(d *fsx.Dir) (bool, error) {
	for _, name := range []string{AreaWorkspace, AreaHome} {
		// The kernel names an overlay in the directory that it writes to.
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
	return true, d.Rename(generationMarker, d, unbegun, 0)
}

// Remount lets a generation be mounted once more: the kernel refuses the scratch
// directory of an overlay that was mounted before. Nobody may have it mounted.
func (w *Work) Remount() error {
	dir, err := w.p.dir.OpenDir("work")
	if errors.Is(err, os.ErrNotExist) {
		return nil // there is no overlay
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

// overwrite gives a file of a pending directory other contents, with blanks up to
// its old end: to cut a file off waits for the disk, if it was just written. It is
// neither durable nor done at once.
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
