package cellinit

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

func (r *rootfs) descriptors() error {
	if r.without.Has(control.Descriptors) {
		return nil
	}
	return closeInherited()
}

// closeInherited closes whatever the caller had left open without the flag that
// closes it at exec. Everything that this process has opened itself has the flag.
// To set it on the others would keep them from the commands, but a workspace can
// hold a link to /proc/self/fd/N, and a command that is started in the directory
// behind it would start outside of the cell.
func closeInherited() error {
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	defer unix.Close(dir)
	names, err := mountfd.Names(dir)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			return fmt.Errorf("descriptor %q: %w", name, err)
		}
		if fd < controlFD {
			continue
		}
		if fd == controlFD {
			unix.CloseOnExec(fd)
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		switch {
		case errors.Is(err, unix.EBADF): // the runtime has closed it meanwhile
		case err != nil:
			return fmt.Errorf("descriptor %d: %w", fd, err)
		case flags&unix.FD_CLOEXEC == 0:
			_ = unix.Close(fd)
		}
	}
	return nil
}

// enterWorkdir makes a directory the current one. Links that are not text, as in
// /proc/self/fd, are not followed: they lead out of the cell's root.
func enterWorkdir(path string, w protocol.Without) error {
	if w.Has(control.Workdir) {
		return unix.Chdir(path)
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.ENOSYS) {
		return enterInside(path)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchdir(fd)
}

// enterInside does the same where the filter denies openat2: it looks where the
// path has led to before anything is started there.
func enterInside(path string) error {
	if err := unix.Chdir(path); err != nil {
		return err
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getcwd(buf)
	if err == nil && (n == 0 || buf[0] != '/') {
		err = errors.New("it is not in the cell")
	}
	if err != nil {
		return errors.Join(err, unix.Chdir("/"))
	}
	return nil
}
