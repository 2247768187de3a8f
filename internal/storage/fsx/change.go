package fsx

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Rename moves a name to another directory of the same file system. flags are
// those of renameat2: 0 replaces, unix.RENAME_NOREPLACE never does,
// unix.RENAME_EXCHANGE swaps both.
func (d *Dir) Rename(oldRel string, to *Dir, newRel string, flags uint) error {
	from, err := d.at(oldRel)
	if err != nil {
		return d.fail("rename", oldRel, err)
	}
	defer from.close()
	dest, err := to.at(newRel)
	if err != nil {
		return to.fail("rename", newRel, err)
	}
	defer dest.close()
	err = retry(func() error { return unix.Renameat2(from.fd, from.name, dest.fd, dest.name, flags) })
	if err != nil {
		return d.fail("rename", oldRel, err)
	}
	return nil
}

// Remove removes one name: a file of any kind or an empty directory.
func (d *Dir) Remove(rel string) error {
	return d.change("remove", rel, func(p place) error {
		err := unix.Unlinkat(p.fd, p.name, 0)
		if err == unix.EISDIR || err == unix.EPERM {
			if dirErr := unix.Unlinkat(p.fd, p.name, unix.AT_REMOVEDIR); dirErr != unix.ENOTDIR {
				return dirErr
			}
		}
		return err
	})
}

// Chmod sets the permission bits of anything but a symbolic link.
func (d *Dir) Chmod(rel string, mode uint32) error {
	return d.change("chmod", rel, func(p place) error { return chmodPlace(p, mode) })
}

func chmodPlace(p place, mode uint32) error {
	if p.self() {
		return unix.Fchmod(p.fd, mode)
	}
	err := unix.Fchmodat(p.fd, p.name, mode, unix.AT_SYMLINK_NOFOLLOW)
	if err != unix.ENOSYS && err != unix.EOPNOTSUPP { //nolint:errorlint // straight from the kernel
		return err
	}
	// Kernels before 6.6: through a descriptor that cannot be a link.
	fd, err := openDirect(p.fd, p.name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.EOPNOTSUPP
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}

// Chown sets the owner of anything, also of a symbolic link. The kernel clears
// setuid and setgid bits: set the mode afterwards.
func (d *Dir) Chown(rel string, uid, gid uint32) error {
	return d.change("chown", rel, func(p place) error {
		name, flags := p.ref()
		return unix.Fchownat(p.fd, name, int(uid), int(gid), flags)
	})
}

// Chtimes sets the modification time of anything, also of a symbolic link. The
// access time is left alone.
func (d *Dir) Chtimes(rel string, mtime Time) error {
	return d.change("chtimes", rel, func(p place) error {
		name, flags := p.ref()
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: mtime.Sec, Nsec: int64(mtime.Nsec)}}
		return unix.UtimesNanoAt(p.fd, name, times, flags)
	})
}

// ref names the place for calls that know AT_EMPTY_PATH: unlike ".", it needs
// no search permission on the directory itself.
func (p place) ref() (name string, flags int) {
	if p.self() {
		return "", unix.AT_EMPTY_PATH
	}
	return p.name, unix.AT_SYMLINK_NOFOLLOW
}
