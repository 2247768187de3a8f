package fsx

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// OpenFile opens a regular file for reading. It never waits for the other end
// of a FIFO, never takes a terminal, and refuses what is not a regular file
// with ErrNotRegular.
func (d *Dir) OpenFile(rel string) (*os.File, error) { return d.openFile(rel, unix.O_RDONLY) }

// ReopenFile is OpenFile for reading and writing.
func (d *Dir) ReopenFile(rel string) (*os.File, error) { return d.openFile(rel, unix.O_RDWR) }

func (d *Dir) openFile(rel string, how int) (*os.File, error) {
	p, err := d.at(rel)
	if err != nil {
		return nil, d.fail("open", rel, err)
	}
	defer p.close()
	fd, err := openRegular(p, how)
	if err != nil {
		return nil, d.fail("open", rel, err)
	}
	return os.NewFile(uintptr(fd), d.join(rel)), nil
}

func openRegular(p place, how int) (int, error) {
	fd, err := openBeneath(p.fd, p.name, how|unix.O_NONBLOCK|unix.O_NOCTTY)
	switch {
	case err == nil:
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV): // a symbolic link, a socket, a device without driver
		return -1, ErrNotRegular
	default:
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	if err == nil {
		// Without the flag os.NewFile does not try to poll the file.
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// CreateFIFO makes a new FIFO and opens it for reading and writing, so that reading
// from it never ends.
func (d *Dir) CreateFIFO(rel string) (*os.File, error) {
	if err := d.Mkfifo(rel, 0o600); err != nil {
		return nil, err
	}
	p, err := d.at(rel)
	if err != nil {
		return nil, d.fail("open", rel, err)
	}
	defer p.close()
	fd, err := openBeneath(p.fd, p.name, unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return nil, d.fail("open", rel, err)
	}
	return os.NewFile(uintptr(fd), d.join(rel)), nil
}

// Create makes a new file and opens it for reading and writing; an existing
// name is an error. The mode is exact. Mode 0600 costs one call less than
// others: use it when the final mode is set later.
func (d *Dir) Create(rel string, mode uint32) (*os.File, error) {
	p, err := d.at(rel)
	if err != nil {
		return nil, d.fail("create", rel, err)
	}
	defer p.close()
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_RDWR | unix.O_NOFOLLOW | unix.O_CLOEXEC
	var fd int
	for {
		fd, err = unix.Openat(p.fd, p.name, flags, mode&0o600)
		if err != unix.EINTR { //nolint:errorlint // straight from the kernel
			break
		}
	}
	if err == nil && mode != 0o600 {
		if err = unix.Fchmod(fd, mode); err != nil {
			_ = unix.Close(fd)
			_ = unix.Unlinkat(p.fd, p.name, 0)
		}
	}
	if err != nil {
		return nil, d.fail("create", rel, err)
	}
	return os.NewFile(uintptr(fd), d.join(rel)), nil
}
