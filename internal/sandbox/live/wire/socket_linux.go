package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// A socket's address has room for 107 bytes, and paths of homes can be longer.
// So the directory is opened and the address is /proc/self/fd/N/NAME: the path
// to the directory may have any length, the name in it maxName bytes.
const maxName = 80

// backlog is how many commands may connect at once.
const backlog = 128

// Listener is a socket in a directory that only its user can enter. Closing it
// removes the name.
type Listener struct {
	*net.UnixListener
	dir  *fsx.Dir
	name string
	ino  uint64
	once sync.Once
	err  error
}

// Listen makes the socket. The directory must belong to the caller and be
// closed to others; Listen makes it if it is missing. The name appears only
// when connections are accepted, and replaces that of a server that was killed.
// Callers that may race for one path must hold a lock.
func Listen(path string) (*Listener, error) {
	dir, name, err := openDir(path, true)
	if err != nil {
		return nil, err
	}
	l, err := listenIn(dir, name)
	if err != nil {
		_ = dir.Close()
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	return l, nil
}

func openDir(path string, create bool) (*fsx.Dir, string, error) {
	name := filepath.Base(path)
	if len(name) > maxName || name == "." || name == "/" {
		return nil, "", fmt.Errorf("socket %s: the name must have 1 to %d bytes", path, maxName)
	}
	dir, err := fsx.OpenRoot(filepath.Dir(path))
	if create && errors.Is(err, fs.ErrNotExist) {
		if err = makeDir(filepath.Dir(path)); err == nil {
			dir, err = fsx.OpenRoot(filepath.Dir(path))
		}
	}
	return dir, name, err
}

func makeDir(path string) error {
	parent, err := fsx.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := parent.Mkdir(filepath.Base(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func listenIn(dir *fsx.Dir, name string) (*Listener, error) {
	if err := private(dir); err != nil {
		return nil, err
	}
	conn, err := connect(context.Background(), dir, name)
	switch {
	case err == nil:
		_ = conn.Close()
		return nil, ErrInUse
	case !errors.Is(err, ErrNoServer):
		return nil, err
	}
	temp := "." + rand.Text()
	ul, err := bind(dir, temp)
	if err != nil {
		return nil, err
	}
	l := &Listener{UnixListener: ul, dir: dir, name: name}
	if err = l.publish(temp); err != nil {
		_ = ul.Close()
		_ = dir.Remove(temp)
		return nil, err
	}
	return l, nil
}

// private checks that no other user can access the directory.
func private(dir *fsx.Dir) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir.Fd(), &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeNotPrivate,
			Message: fmt.Sprintf("the directory belongs to user %d with mode %#o", st.Uid, st.Mode&0o7777),
			Hint:    "it must be yours, with mode 0700",
		}
	}
	return nil
}

// bind makes a listening socket. No client can connect before its mode is
// changed, since it does not listen until then.
func bind(dir *fsx.Dir, name string) (*net.UnixListener, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "live socket")
	defer file.Close() // FileListener has its own
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: address(dir, name)}); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	l, err := listenOn(file, dir, name)
	if err != nil {
		_ = dir.Remove(name)
	}
	return l, err
}

func listenOn(file *os.File, dir *fsx.Dir, name string) (*net.UnixListener, error) {
	if err := dir.Chmod(name, 0o600); err != nil {
		return nil, err
	}
	if err := unix.Listen(int(file.Fd()), backlog); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	ul, ok := l.(*net.UnixListener)
	if !ok {
		_ = l.Close()
		return nil, fmt.Errorf("a listener of %T", l)
	}
	ul.SetUnlinkOnClose(false)
	return ul, nil
}

// publish gives a listening socket its name.
func (l *Listener) publish(temp string) error {
	ino, err := inode(l.dir, temp)
	if err != nil {
		return err
	}
	l.ino = ino
	return l.dir.Rename(temp, l.dir, l.name, 0)
}

// Close stops listening and removes the name, unless another server owns it by
// now. It may be called again, also concurrently.
func (l *Listener) Close() error {
	l.once.Do(func() {
		l.err = l.UnixListener.Close()
		if ino, err := inode(l.dir, l.name); err == nil && ino == l.ino {
			l.err = errors.Join(l.err, l.dir.Remove(l.name))
		}
		l.err = errors.Join(l.err, l.dir.Close())
	})
	return l.err
}

// IsLost reports whether the name was removed or given to another server: no client can
// connect any more.
func (l *Listener) IsLost() bool {
	ino, err := inode(l.dir, l.name)
	return errors.Is(err, fs.ErrNotExist) || err == nil && ino != l.ino
}

func inode(dir *fsx.Dir, name string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir.Fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, fmt.Errorf("stat: %w", err)
	}
	return st.Ino, nil
}

func address(dir *fsx.Dir, name string) string {
	return "/proc/self/fd/" + strconv.Itoa(dir.Fd()) + "/" + name
}

// connect returns ErrNoServer if no server listens.
func connect(ctx context.Context, dir *fsx.Dir, name string) (*net.UnixConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", address(dir, name))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return nil, ErrNoServer
	case err != nil:
		return nil, fmt.Errorf("connect: %w", err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("connect: a connection of %T", c)
	}
	return conn, nil
}

// peerUID returns the effective user who connected, or who listens. The kernel
// recorded it at that moment; the peer cannot change it.
func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var optErr error
	if err := raw.Control(func(fd uintptr) {
		cred, optErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if optErr != nil {
		return 0, optErr
	}
	return int(cred.Uid), nil
}
