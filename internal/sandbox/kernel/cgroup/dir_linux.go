package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dir is one group of one hierarchy, held open.
type dir struct {
	path string
	v2   bool
	file *os.File
}

// openDir opens a group and, unless lock is 0, takes the lock that says that its
// owner lives. The kernel drops it with the last descriptor, so it outlives no
// process.
func openDir(p string, v2 bool, lock int) (*dir, error) {
	f, err := os.Open(p)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	d := &dir{path: p, v2: v2, file: f}
	if lock == 0 {
		return d, nil
	}
	err = d.control(func(fd int) error { return unix.Flock(fd, lock|unix.LOCK_NB) })
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cgroup: lock %s: %w", p, err)
	}
	return d, nil
}

// control calls do with the descriptor, which stays open meanwhile.
func (d *dir) control(do func(fd int) error) error {
	raw, err := d.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = retryInterrupted(func() error { return do(int(fd)) }) })
	return errors.Join(err, inner)
}

// open opens a file of the group itself.
func (d *dir) open(name string, flags uint64) (int, error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd := -1
	err := d.control(func(at int) (err error) {
		fd, err = unix.Openat2(at, name, &how)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("cgroup: open %s/%s: %w", d.path, name, err)
	}
	return fd, nil
}

func (d *dir) write(name, value string) error {
	fd, err := d.open(name, unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	err = retryInterrupted(func() error {
		_, err := unix.Write(fd, []byte(value))
		return err
	})
	if err != nil {
		return fmt.Errorf("cgroup: write %q to %s/%s: %w", value, d.path, name, err)
	}
	return nil
}

func (d *dir) writeInt(name string, n int64) error {
	return d.write(name, strconv.FormatInt(n, 10))
}

func (d *dir) read(name string) (string, error) {
	fd, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	text, err := readFrom(fd)
	if err != nil {
		return "", fmt.Errorf("cgroup: read %s/%s: %w", d.path, name, err)
	}
	return text, nil
}

// readFrom reads an open file from its start.
func readFrom(fd int) (string, error) {
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n := 0
		err := retryInterrupted(func() (err error) {
			n, err = unix.Pread(fd, buf, int64(b.Len()))
			return err
		})
		if err != nil {
			return "", err
		}
		if n == 0 {
			return b.String(), nil
		}
		b.Write(buf[:n])
	}
}

func (d *dir) readInt(name string) (int64, error) {
	text, err := d.read(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cgroup: %s/%s: %w: %q", d.path, name, errFormat, text)
	}
	return n, nil
}

// readKey reads one number of a file of keys; a key that is absent is -1.
func (d *dir) readKey(name, key string) (int64, error) {
	text, err := d.read(name)
	if err != nil {
		return 0, err
	}
	values, err := parseKeyed(text)
	if err != nil {
		return 0, fmt.Errorf("cgroup: %s/%s: %w", d.path, name, err)
	}
	if n, ok := values[key]; ok {
		return n, nil
	}
	return -1, nil
}

func (d *dir) has(name string) bool {
	var st unix.Stat_t
	return d.control(func(fd int) error { return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) }) == nil
}

// pids lists the processes of the group.
func (d *dir) pids() ([]int, error) {
	text, err := d.read("cgroup.procs")
	if err != nil {
		return nil, err
	}
	pids, err := parsePIDs(text)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %s/cgroup.procs: %w", d.path, err)
	}
	return pids, nil
}

// retryInterrupted repeats a system call that a signal has interrupted.
func retryInterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
