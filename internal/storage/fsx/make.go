package fsx

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Mkdir makes a directory with exactly this mode, whatever the umask.
func (d *Dir) Mkdir(rel string, mode uint32) error {
	return d.change("mkdir", rel, func(p place) error {
		if err := unix.Mkdirat(p.fd, p.name, 0o700); err != nil {
			return err
		}
		return chmodNew(p, mode, unix.AT_REMOVEDIR)
	})
}

// MkdirAll makes a directory and the missing ones above it, all with this mode.
// What exists is left as it is, and must be directories.
func (d *Dir) MkdirAll(rel string, mode uint32) error {
	if err := CheckPath(rel); err != nil {
		return d.fail("mkdir", rel, err)
	}
	if rel == "." {
		return nil
	}
	for end := 0; end < len(rel); {
		if next := strings.IndexByte(rel[end+1:], '/'); next >= 0 {
			end += 1 + next
		} else {
			end = len(rel)
		}
		err := d.Mkdir(rel[:end], mode)
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := d.Lstat(rel[:end])
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return d.fail("mkdir", rel[:end], unix.ENOTDIR)
		}
	}
	return nil
}

// Symlink makes a symbolic link; the target is any text.
func (d *Dir) Symlink(target, rel string) error {
	return d.change("symlink", rel, func(p place) error { return unix.Symlinkat(target, p.fd, p.name) })
}

// Link makes a hard link beneath the same directory.
func (d *Dir) Link(oldRel, newRel string) error { return d.LinkTo(oldRel, d, newRel) }

// LinkTo makes a hard link beneath another directory of the same file system.
func (d *Dir) LinkTo(oldRel string, to *Dir, newRel string) error {
	from, err := d.at(oldRel)
	if err != nil {
		return d.fail("link", oldRel, err)
	}
	defer from.close()
	return to.change("link", newRel, func(p place) error {
		return unix.Linkat(from.fd, from.name, p.fd, p.name, 0)
	})
}

// Mkfifo makes a FIFO with exactly this mode.
func (d *Dir) Mkfifo(rel string, mode uint32) error {
	return d.mknod("mkfifo", rel, unix.S_IFIFO, mode)
}

// Mksock makes a socket without a listener, with exactly this mode.
func (d *Dir) Mksock(rel string, mode uint32) error {
	return d.mknod("mksock", rel, unix.S_IFSOCK, mode)
}

// Whiteout makes the character device 0:0, by which an overlay layer hides a
// name. No privilege is needed for this one device.
func (d *Dir) Whiteout(rel string) error {
	return d.change("whiteout", rel, func(p place) error {
		return unix.Mknodat(p.fd, p.name, unix.S_IFCHR, 0)
	})
}

func (d *Dir) mknod(op, rel string, kind, mode uint32) error {
	return d.change(op, rel, func(p place) error {
		if err := unix.Mknodat(p.fd, p.name, kind|0o600, 0); err != nil {
			return err
		}
		return chmodNew(p, mode, 0)
	})
}

// chmodNew sets the mode of a new entry, and removes the entry if that fails.
func chmodNew(p place, mode uint32, removeFlags int) error {
	err := chmodPlace(p, mode)
	if err != nil {
		_ = unix.Unlinkat(p.fd, p.name, removeFlags)
	}
	return err
}

// change resolves rel and does something to its last component.
func (d *Dir) change(op, rel string, do func(place) error) error {
	p, err := d.at(rel)
	if err != nil {
		return d.fail(op, rel, err)
	}
	defer p.close()
	if err := retry(func() error { return do(p) }); err != nil {
		return d.fail(op, rel, err)
	}
	return nil
}
