package cellinit

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/packages"
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
	var err error
	r.local, err = r.listen(name, unix.SOCK_NONBLOCK)
	return err
}

// packageSocket makes the socket at which commands ask for package managers.
func (r *rootfs) packageSocket() (err error) {
	if r.plan.Packages {
		r.asks, err = r.listen(packages.Socket, 0)
	}
	return err
}

// listen makes a unix socket in the cell. kind is added to its type.
func (r *rootfs) listen(name string, kind int) (int, error) {
	dir, err := r.mountPoint(path.Dir(name), true)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	if err := unix.Fchdir(dir); err != nil {
		return -1, fmt.Errorf("enter %s: %w", path.Dir(name), err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|kind, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path.Base(name)}); err == nil {
		err = unix.Listen(fd, localBacklog)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("%s: %w", name, err)
	}
	return fd, nil
}

// captureSockets returns the sockets for the host side: those of the network, and last the
// one of the plan. Without a network it is the socket for unanswered questions, if any.
func (r *rootfs) captureSockets() []int {
	if r.sockets == nil && r.unanswered > 0 {
		return []int{r.unanswered}
	}
	if r.sockets == nil {
		return nil
	}
	fds := r.sockets.Descriptors()
	if r.local > 0 {
		fds = append(fds, r.local)
	}
	return fds
}
