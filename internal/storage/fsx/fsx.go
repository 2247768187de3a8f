// Package fsx is the one audited place for durable writes and for paths
// beneath a root.
//
// Trees that a cell or another program can write are reached only through a
// Dir: an open directory whose methods take relative paths, resolve them
// beneath it, and never follow a symbolic link. The package knows nothing of
// cells, layers or manifests; it knows the kernel's file calls and the order in
// which they survive a crash.
//
// What it does not do: it does not cross-check ownership, it does not stop at
// mount points (callers compare Info.Dev), and a descriptor that has been
// opened stays open on the same directory when someone renames it.
package fsx

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// errPath is returned for paths that are not plain relative paths: empty,
	// absolute, with "." or ".." or empty components, or with a NUL byte.
	errPath = errors.New("not a path beneath the directory")
	// ErrNotRegular is returned when something else than a regular file is
	// opened as one.
	ErrNotRegular = errors.New("not a regular file")
)

// Time is a file time with the whole precision of the kernel.
type Time struct {
	Sec  int64 `json:"sec"`
	Nsec int32 `json:"nsec"`
}

// Time returns t in the form of the standard library, in UTC.
func (t Time) Time() time.Time { return time.Unix(t.Sec, int64(t.Nsec)).UTC() }

// Info is the metadata of one name.
type Info struct {
	Type         uint32 // the S_IFMT bits
	Mode         uint32 // the permission bits, 07777
	UID, GID     uint32
	Size         int64
	MTime, CTime Time
	Dev, Ino     uint64
	Nlink        uint64
	Rdev         uint64
	Blocks       int64 // of 512 bytes
}

// IsDir reports whether the name is a directory.
func (i Info) IsDir() bool { return i.Type == unix.S_IFDIR }

// IsRegular reports whether the name is a regular file.
func (i Info) IsRegular() bool { return i.Type == unix.S_IFREG }

// IsSymlink reports whether the name is a symbolic link.
func (i Info) IsSymlink() bool { return i.Type == unix.S_IFLNK }

// IsWhiteout reports whether the name is the character device 0:0, which marks a
// deletion in an overlay layer.
func (i Info) IsWhiteout() bool { return i.Type == unix.S_IFCHR && i.Rdev == 0 }

// Xattr is one extended attribute.
type Xattr struct {
	Name  string
	Value []byte
}

func infoOf(st *unix.Stat_t) Info {
	return Info{
		Type: st.Mode & unix.S_IFMT, Mode: st.Mode & 0o7777,
		UID: st.Uid, GID: st.Gid, Size: st.Size,
		MTime: Time{int64(st.Mtim.Sec), int32(st.Mtim.Nsec)},        //nolint:unconvert // 32-bit hosts
		CTime: Time{int64(st.Ctim.Sec), int32(st.Ctim.Nsec)},        //nolint:unconvert // 32-bit hosts
		Dev:   uint64(st.Dev), Ino: st.Ino, Nlink: uint64(st.Nlink), //nolint:unconvert // 32-bit hosts
		Rdev: uint64(st.Rdev), Blocks: st.Blocks, //nolint:unconvert // 32-bit hosts
	}
}

// StatFile returns the metadata of an open file.
func StatFile(f *os.File) (Info, error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		return Info{}, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return infoOf(&st), nil
}

// retry repeats a call that a signal interrupted. File systems on a network or
// in user space return EINTR even for calls that otherwise never do.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // straight from the kernel
			return err
		}
	}
}
