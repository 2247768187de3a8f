package origin

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openAt opens a path without access to its content; a nil directory is the
// current one.
func openAt(dir *os.File, name string, flags, resolve uint64) (*os.File, error) {
	at := unix.AT_FDCWD
	if dir != nil {
		at = int(dir.Fd())
	}
	fd, err := unix.Openat2(at, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: resolve})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// hasVanished reports whether an error is about a process that has ended, or whose
// executable the caller may not read.
func hasVanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// firstPID is the first process of a pid namespace. It runs nothing of the cell.
const firstPID = 1

// processes lists the cell's processes by their numbers in it, the last one
// found first.
func (a *Attributor) processes() ([]int, error) {
	last := int(a.last.Load())
	var pids []int
	dir, err := openDir(a.proc, ".")
	if err != nil {
		return nil, fmt.Errorf("processes: %w", err)
	}
	defer func() { _ = unix.Close(dir) }()
	err = list(dir, func(name string) bool {
		n, ok := number(name)
		if !ok || n == firstPID {
			return true
		}
		pids = append(pids, n)
		if n == last {
			pids[0], pids[len(pids)-1] = pids[len(pids)-1], pids[0]
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("processes: %w", err)
	}
	return pids, nil
}

// holds reports whether a process has a descriptor whose link reads target.
func (a *Attributor) holds(pid int, target string) (bool, error) {
	dir, err := openDir(a.proc, strconv.Itoa(pid)+"/fd")
	if hasVanished(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("descriptors of process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(dir) }()
	held := false
	// One byte more than the target detects longer links.
	link := make([]byte, len(target)+1)
	err = list(dir, func(name string) bool {
		if _, ok := number(name); !ok {
			return true
		}
		n, err := unix.Readlinkat(dir, name, link)
		held = err == nil && string(link[:n]) == target
		return !held
	})
	if hasVanished(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("descriptors of process %d: %w", pid, err)
	}
	return held, nil
}

// number reads a name that is a decimal number.
func number(name string) (int, bool) {
	if name == "" || name[0] < '0' || name[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(name)
	return n, err == nil
}

func openDir(at *os.File, name string) (int, error) {
	return unix.Openat2(int(at.Fd()), name, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
}

// list calls f with the names in a directory until it returns false.
func list(dir int, f func(name string) bool) error {
	buf := make([]byte, 8<<10)
	var names []string
	for {
		n, err := unix.ReadDirent(dir, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if !f(name) {
				return nil
			}
		}
	}
}
