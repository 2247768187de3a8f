package driver

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// layerNamespace is the user namespace whose map id-mapped layers carry. It is
// made at first use and kept: one descriptor serves every run of the process.
type layerNamespace struct {
	idMap string
	mu    sync.Mutex
	file  *os.File
}

func (l *layerNamespace) get() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		f, err := newUserNamespace(l.idMap)
		if err != nil {
			return nil, err
		}
		l.file = f
	}
	return l.file, nil
}

// newUserNamespace returns a descriptor of a user namespace with the given map
// for users and groups. Such a namespace must be born with a process: a copy of
// this one, which does nothing and is killed at once.
func newUserNamespace(idMap string) (*os.File, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// No Go code, a signal handler above all, may run in the copy.
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		return nil, fmt.Errorf("block signals: %w", err)
	}
	pid, errno := cloneIdle(uintptr(unix.Getpid()))
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil); err != nil {
		return nil, fmt.Errorf("unblock signals: %w", err)
	}
	if errno != 0 {
		return nil, fmt.Errorf("clone user namespace: %w", errno)
	}
	defer func() {
		_ = unix.Kill(int(pid), unix.SIGKILL)
		for {
			if _, err := unix.Wait4(int(pid), nil, unix.WALL, nil); err != unix.EINTR {
				return
			}
		}
	}()
	for _, name := range []string{"uid_map", "gid_map"} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, name), []byte(idMap), 0); err != nil {
			return nil, fmt.Errorf("write map: %w", err)
		}
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return nil, fmt.Errorf("open user namespace: %w", err)
	}
	return f, nil
}

// cloneIdle makes a copy of this process in a new user namespace. The copy has
// one thread, all signals blocked, and leaves this function never: it sleeps in
// the kernel until it is killed, by its parent or by its parent's death. It
// shares the table of open files, so that it cannot keep a pipe open.
//
//go:norace
//go:nosplit
func cloneIdle(parent uintptr) (uintptr, syscall.Errno) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_FILES|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	for {
		if now, _, _ := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); now != parent {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
