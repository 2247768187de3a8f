package native

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pack puts the contents of files into a descriptor, each once, and the names
// into the plan: trust stores are large, and a cell has several names for one.
func (p *plan) pack() (int, error) {
	fd, err := unix.MemfdCreate("forkcell-files", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("memory file: %w", err)
	}
	out := os.NewFile(uintptr(fd), "files")
	defer out.Close()
	// Files that share their contents share their memory: to compare it would
	// take as long as to copy it.
	type memory struct {
		first *byte
		size  int
	}
	at, end := map[memory]int64{}, int64(0)
	for _, f := range p.files {
		m := memory{size: len(f.Data)}
		if m.size > 0 {
			m.first = &f.Data[0]
		}
		offset, known := at[m]
		if !known {
			if _, err := out.Write(f.Data); err != nil {
				return -1, fmt.Errorf("memory file: %w", err)
			}
			offset = end
			at[m], end = offset, end+int64(len(f.Data))
		}
		p.Files = append(p.Files, filePlan{Name: f.Name, Offset: offset, Size: int64(len(f.Data))})
	}
	kept, err := unix.FcntlInt(out.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("memory file: %w", err)
	}
	return kept, nil
}

// ownFiles makes the plan's files below a directory.
func (r *rootfs) ownFiles(dir int) error {
	if len(r.plan.Files) == 0 {
		return nil
	}
	from, err := r.passed(r.plan.FilesFD)
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

func unpack(dir, from int, f filePlan) error {
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
