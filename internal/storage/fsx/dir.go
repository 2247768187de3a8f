package fsx

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Dir is an open directory. Every path given to a method is relative, slash
// separated and may have several components; "." is the directory itself. No
// component is ever followed through a symbolic link, and the last one is the
// thing meant, whatever it is. Methods may be used by several goroutines at
// once, but not after Close.
type Dir struct {
	fd   int
	path string
	read sync.Mutex // Names moves the descriptor's offset
}

// OpenRoot opens a directory by a trusted path, which may go through symbolic
// links.
func OpenRoot(path string) (*Dir, error) {
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if mayElevate(err) {
		fd, err = elevatedRoot(path, err)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &Dir{fd: fd, path: path}, nil
}

// Close releases the descriptor. Directories opened from d stay open.
func (d *Dir) Close() error {
	fd := d.fd
	d.fd = -1
	if err := unix.Close(fd); err != nil {
		return &fs.PathError{Op: "close", Path: d.path, Err: err}
	}
	return nil
}

// Fd is the descriptor; it belongs to d.
func (d *Dir) Fd() int { return d.fd }

// Path is the name by which the directory was opened, for messages only: by now
// it may be another directory's.
func (d *Dir) Path() string { return d.path }

func (d *Dir) join(rel string) string {
	if rel == "." {
		return d.path
	}
	return shortPath(d.path + "/" + rel)
}

// maxShown bounds the paths in messages: a tree may be so deep that a path has
// as many bytes as a book.
const maxShown = 1024

// shortPath leaves out the middle of a long path.
func shortPath(path string) string {
	const side = maxShown/2 - 8
	if len(path) <= maxShown {
		return path
	}
	return path[:side] + "/.../" + strings.TrimPrefix(path[len(path)-side:], "/")
}

// parentPath is the path of the directory above, for messages.
func parentPath(path string) string {
	if cut := strings.LastIndexByte(path, '/'); cut > 0 && !strings.Contains(path, "/.../") {
		return path[:cut]
	}
	return path
}

func (d *Dir) fail(op, rel string, err error) error {
	return &fs.PathError{Op: op, Path: d.join(rel), Err: err}
}

// OpenDir opens a directory beneath d.
func (d *Dir) OpenDir(rel string) (*Dir, error) {
	p, err := d.at(rel)
	if err != nil {
		return nil, d.fail("open", rel, err)
	}
	defer p.close()
	fd, err := openBeneath(p.fd, p.name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, d.fail("open", rel, err)
	}
	return &Dir{fd: fd, path: d.join(rel)}, nil
}

// Names lists the directory, sorted bytewise. It reads from the start each time.
func (d *Dir) Names() ([]string, error) {
	d.read.Lock()
	defer d.read.Unlock()
	names, err := readNames(d.fd)
	if err != nil {
		return nil, d.fail("read directory", ".", err)
	}
	slices.Sort(names)
	return names, nil
}

func readNames(fd int) (names []string, err error) {
	err = readDirents(fd, func(name string, _ byte) error {
		names = append(names, name)
		return nil
	})
	return names, err
}

// readDirents calls fn for each name in a directory but "." and "..", with its
// type as the directory has it.
func readDirents(fd int, fn func(name string, kind byte) error) error {
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	for {
		var n int
		err := retry(func() (err error) {
			n, err = unix.ReadDirent(fd, buf)
			return err
		})
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 0; {
			// struct linux_dirent64: inode, offset, length, type, name.
			const header = 8 + 8 + 2 + 1
			size := int(binary.NativeEndian.Uint16(rest[16:]))
			entry, kind, name := rest, rest[18], rest[header:size]
			rest = rest[size:]
			if end := bytes.IndexByte(name, 0); end >= 0 {
				name = name[:end]
			}
			if s := string(name); s != "." && s != ".." && binary.NativeEndian.Uint64(entry) != 0 {
				if err := fn(s, kind); err != nil {
					return err
				}
			}
		}
	}
}

// Lstat returns the metadata of a name.
func (d *Dir) Lstat(rel string) (Info, error) {
	p, err := d.at(rel)
	if err != nil {
		return Info{}, d.fail("lstat", rel, err)
	}
	defer p.close()
	st, err := statPlace(p)
	if err != nil {
		return Info{}, d.fail("lstat", rel, err)
	}
	return infoOf(st), nil
}

func statPlace(p place) (*unix.Stat_t, error) {
	var st unix.Stat_t
	var err error
	for {
		if p.self() {
			err = unix.Fstat(p.fd, &st)
		} else {
			err = unix.Fstatat(p.fd, p.name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
		}
		if err != unix.EINTR { //nolint:errorlint // straight from the kernel
			break
		}
	}
	if !mayElevate(err) {
		return &st, err
	}
	// The reader only opens: the caller itself asks for the owners, which the
	// reader's namespace would not know.
	fd, err := elevatedOpen(p.fd, p.name, unix.O_PATH, err)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	return &st, unix.Fstat(fd, &st)
}

// MountID returns the mount that a name is on. Unlike Info.Dev it also distinguishes bind
// mounts of one file system apart.
func (d *Dir) MountID(rel string) (uint64, error) {
	var st unix.Statx_t
	err := d.change("statx", rel, func(p place) error {
		name, flags := p.ref()
		err := unix.Statx(p.fd, name, flags|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &st)
		if !mayElevate(err) {
			return err
		}
		fd, err := elevatedOpen(p.fd, name, unix.O_PATH, err)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st)
	})
	return st.Mnt_id, err
}

// Readlink returns the target of a symbolic link.
func (d *Dir) Readlink(rel string) (string, error) {
	p, err := d.at(rel)
	if err != nil {
		return "", d.fail("readlink", rel, err)
	}
	defer p.close()
	target, err := readlink(p.fd, p.name)
	if mayElevate(err) {
		var fd int
		if fd, err = elevatedOpen(p.fd, p.name, unix.O_PATH, err); err == nil {
			target, err = readlink(fd, "")
			_ = unix.Close(fd)
		}
	}
	if err != nil {
		return "", d.fail("readlink", rel, err)
	}
	return target, nil
}

func readlink(fd int, name string) (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		var n int
		err := retry(func() (err error) {
			n, err = unix.Readlinkat(fd, name, buf)
			return err
		})
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// Sync makes the directory's own entries durable.
func (d *Dir) Sync() error {
	if err := retry(func() error { return unix.Fsync(d.fd) }); err != nil {
		return d.fail("sync", ".", err)
	}
	return nil
}

// SyncFS makes everything on the directory's file system durable.
func (d *Dir) SyncFS() error {
	if err := retry(func() error { return unix.Syncfs(d.fd) }); err != nil {
		return d.fail("syncfs", ".", err)
	}
	return nil
}

// Split lists the directory like Names: its directories, and everything else.
func (d *Dir) Split() (dirs, others []string, err error) {
	d.read.Lock()
	defer d.read.Unlock()
	err = readDirents(d.fd, func(name string, kind byte) error {
		if kind == unix.DT_UNKNOWN { // some file systems do not report it
			info, err := d.Lstat(name)
			if err != nil {
				return err
			}
			if info.IsDir() {
				kind = unix.DT_DIR
			}
		}
		if kind == unix.DT_DIR {
			dirs = append(dirs, name)
		} else {
			others = append(others, name)
		}
		return nil
	})
	if err != nil {
		return nil, nil, d.fail("read directory", ".", err)
	}
	slices.Sort(dirs)
	slices.Sort(others)
	return dirs, others, nil
}
