package seccomp

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// TestConnectAlone: watching connect changes the answer to no other call, and
// without a listener connect is allowed like any other.
func TestConnectAlone(t *testing.T) {
	t.Parallel()
	for _, arch := range syscalls.Arches() {
		connect, _ := syscalls.Number(arch, watchedCall)
		for _, notify := range []Notify{0, Denials} {
			without, err := Build(arch, Options{Notify: notify})
			if err != nil {
				t.Fatal(err)
			}
			with, err := Build(arch, Options{Notify: notify | Connects})
			if err != nil {
				t.Fatal(err)
			}
			for number := range uint32(1024) {
				c := call{arch: auditArch(arch), number: number}
				want, _, _ := run(without.program, c)
				got, _, err := run(with.program, c)
				plain, _, _ := run(with.plain().program, c)
				if number == uint32(connect) {
					want = unix.SECCOMP_RET_USER_NOTIF
					if plain != unix.SECCOMP_RET_ALLOW {
						t.Errorf("%v: without a listener connect gives %#x", arch, plain)
					}
				}
				if err != nil || got != want {
					t.Errorf("%v, notify %d: call %d gives %#x, not %#x, %v", arch, notify, number, got, want, err)
				}
				if plain&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_USER_NOTIF {
					t.Errorf("%v: the plain filter hands over call %d", arch, number)
				}
			}
		}
	}
}

// TestConnectGoesOn: the listener sees a call of connect while its caller waits,
// and then the call does what it would have done. Denied calls stay denied.
func TestConnectGoesOn(t *testing.T) {
	t.Parallel()
	arch := native(t)
	f, err := Build(arch, Options{Notify: Denials | Connects})
	if err != nil {
		t.Fatal(err)
	}
	var seen []Notice
	waiting := true
	done := make(chan error, 1)
	onThread(t, func() error {
		server, at, err := listen()
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(server) }()
		fd, err := f.Install(0)
		if err != nil || fd < 0 {
			return fmt.Errorf("install: %d, %w", fd, err)
		}
		l, err := NewListener(fd)
		if err != nil {
			return err
		}
		go func() {
			err := l.Serve(func(n Notice) {
				seen = append(seen, n)
				waiting = waiting && l.Waiting()
			})
			done <- errors.Join(err, l.Close())
		}()
		client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(client) }()
		if err := unix.Connect(client, at); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		if err := unix.Connect(client, at); !errors.Is(err, unix.EISCONN) {
			return fmt.Errorf("connect again: %w", err)
		}
		if got := attempt(arch, "acct", [6]uint64{}); got != unix.EPERM {
			return fmt.Errorf("acct: %w", got)
		}
		return nil
	})
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(seen) != 3 || seen[0].Name != "connect" || seen[0].Denied != 0 || seen[2].Name != "acct" || !waiting {
		t.Errorf("seen, waiting %v: %+v", waiting, seen)
	}
}

func listen() (int, unix.Sockaddr, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	err = errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 1))
	at, named := unix.Getsockname(fd)
	if err = errors.Join(err, named); err != nil {
		_ = unix.Close(fd)
		return -1, nil, err
	}
	return fd, at, nil
}
