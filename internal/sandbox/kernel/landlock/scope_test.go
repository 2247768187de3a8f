package landlock

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestScope: signals and abstract sockets reach what the thread itself started,
// and nothing else.
func TestScope(t *testing.T) {
	t.Parallel()
	if ABI() < 6 {
		t.Skip("this kernel's Landlock does not know scopes")
	}
	p := newPlace(t)
	r := p.rules()
	outside := exec.Command("/bin/cat")
	hold, err := outside.StdinPipe() // cat lives until this is closed
	if err != nil {
		t.Fatal(err)
	}
	if err := outside.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = hold.Close()
		if err := outside.Wait(); err != nil {
			t.Errorf("the process outside: %v", err)
		}
	})
	host, err := net.Listen("unix", "@"+p.out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	onThread(t, func() error {
		if _, err := Restrict(r); err != nil {
			return err
		}
		return try(
			step{"signal outside", func() error { return unix.Kill(outside.Process.Pid, unix.SIGTERM) }, unix.EPERM},
			step{"probe outside", func() error { return unix.Kill(outside.Process.Pid, 0) }, unix.EPERM},
			step{"signal a child", killChild, nil},
			step{"a child signals its own", func() error {
				return exec.Command("/bin/sh", "-c", "cat /dev/zero > /dev/null & kill $! && ! wait $!").Run()
			}, nil},
			step{"socket outside", func() error { return connect("@" + p.out) }, unix.EPERM},
			step{"own socket", func() error { return ownSocket("@" + p.rw) }, nil},
		)
	})
}

func killChild() error {
	child := exec.Command("/bin/cat")
	hold, err := child.StdinPipe()
	if err != nil {
		return err
	}
	defer func() { _ = hold.Close() }()
	if err := child.Start(); err != nil {
		return err
	}
	if err := unix.Kill(child.Process.Pid, unix.SIGTERM); err != nil {
		return err
	}
	var exit *exec.ExitError
	if err := child.Wait(); !errors.As(err, &exit) || exit.Exited() {
		return fmt.Errorf("the child ended with %w", err)
	}
	return nil
}

// connect and ownSocket stay on this thread: net would go to others.
func connect(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}

func ownSocket(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return err
	}
	if err := unix.Listen(fd, 1); err != nil {
		return err
	}
	return connect(name)
}
