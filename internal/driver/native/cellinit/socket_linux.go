package cellinit

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"
)

// localBacklog is how many connections to the cell's socket may wait.
const localBacklog = 128

// localSocket makes the unix socket of the plan. Only its listener is sent to the
// host side: the host's files have nothing of it.
func (r *rootfs) localSocket() error {
	name := string(r.plan.Socket)
	if name == "" || r.sockets == nil {
		return nil
	}
	dir, err := r.mountPoint(path.Dir(name), true)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Fchdir(dir); err != nil {
		return fmt.Errorf("enter %s: %w", path.Dir(name), err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path.Base(name)}); err == nil {
		err = unix.Listen(fd, localBacklog)
	}
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("%s: %w", name, err)
	}
	r.local = fd
	return nil
}

// captured returns the sockets for the host side: those of the network, and last the
// one of the plan.
func (r *rootfs) captured() []int {
	fds := r.sockets.Descriptors()
	if r.local > 0 {
		fds = append(fds, r.local)
	}
	return fds
}
