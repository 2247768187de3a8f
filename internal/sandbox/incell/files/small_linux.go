package files

import (
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
)

// maxSmall bounds the files that Small reads.
const maxSmall = 64 << 10

// ErrNotSmall is returned for a file that the program in the cell has to read.
var ErrNotSmall = errors.New("not a small file on a disk")

// Small reads a small file of a cell on the host's side. The cell has opened it, so it
// can be anything that the cell can open: pipes and devices, whose reads may wait, and
// files of the kernel, which say to this process what they do not say to the cell, are
// refused.
func Small(f *os.File) (info api.FileInfo, content []byte, err error) {
	stat, err := f.Stat()
	if err != nil {
		return info, nil, err
	}
	if !stat.Mode().IsRegular() || stat.Size() > maxSmall {
		return info, nil, ErrNotSmall
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return info, nil, os.NewSyscallError("fstatfs", err)
	}
	if !slices.Contains(diskTypes(), fs.Type) {
		return info, nil, ErrNotSmall
	}
	content = make([]byte, stat.Size())
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, stat.Size()), content); err != nil {
		return info, nil, err // the file has become shorter
	}
	return entry(stat, f.Name(), f.Name()), content, nil
}

// diskTypes returns the file systems whose files are bytes and nothing else.
func diskTypes() []int64 {
	return []int64{
		unix.OVERLAYFS_SUPER_MAGIC, unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC,
	}
}
