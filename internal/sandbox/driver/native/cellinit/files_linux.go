package cellinit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"golang.org/x/sys/unix"
)

// ownFiles makes the plan's files below a directory.
func (r *rootfs) ownFiles(dir int) error {
	if len(r.plan.Files) == 0 {
		return nil
	}
	from, err := r.passedDescriptor(r.plan.FilesFD)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	made := map[[2]int64]string{}
	for _, f := range r.plan.Files {
		if err := makeAbove(dir, f.Name); err != nil {
			return fmt.Errorf("make own %s: %w", f.Name, err)
		}
		key := [2]int64{f.Offset, f.Size}
		first, known := made[key]
		if known {
			err = unix.Linkat(dir, first, dir, f.Name, 0)
		} else {
			err = unpack(dir, from, f)
			made[key] = f.Name
		}
		if err != nil {
			return fmt.Errorf("make own %s: %w", f.Name, err)
		}
	}
	return nil
}

// makeAbove makes the directories above a name.
func makeAbove(dir int, name string) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if err := unix.Mkdirat(dir, name[:i], 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return nil
}

func unpack(dir, from int, f protocol.File) error {
	fd, err := unix.Openat(dir, f.Name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for offset, left := f.Offset, f.Size; left > 0; {
		n, err := unix.Sendfile(fd, from, &offset, int(left))
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("its contents are cut off")
		}
		left -= int64(n)
	}
	return nil
}

// readFile reads a file of /proc. Package os would first make what it needs to wait for
// pipes and sockets, which this process has no use for.
func readFile(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 8<<10)
	for {
		if len(text) == cap(text) {
			text = slices.Grow(text, cap(text))
		}
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case n == 0:
			return text, nil
		default:
			text = text[:len(text)+n]
		}
	}
}
