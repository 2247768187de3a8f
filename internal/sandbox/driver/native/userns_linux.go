package native

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/spawn"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/clone"
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
// for users and groups. Such a namespace must be made with a process, which does
// nothing and is killed at once.
func newUserNamespace(idMap string) (*os.File, error) {
	spawn.Sharing.Lock()
	defer spawn.Sharing.Unlock()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &clone.Script{}
	s.Do("parent's death", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	s.Do("parent", unix.SYS_KILL, uintptr(unix.Getpid()), 0)
	s.Do("sleep", unix.SYS_PPOLL)
	// It shares the table of open files, so that it cannot keep a pipe open.
	pid, pidfd, err := s.Start(unix.CLONE_NEWUSER | unix.CLONE_FILES)
	if err != nil {
		return nil, fmt.Errorf("clone user namespace: %w", err)
	}
	defer runtime.KeepAlive(s) // the process reads it
	defer spawn.End(pid, pidfd)
	n := spawn.Config{Flags: unix.CLONE_NEWUSER, UIDMap: idMap, GIDMap: idMap, Groups: "allow"}
	if err := n.WriteMaps(pid); err != nil {
		return nil, err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		return nil, fmt.Errorf("open user namespace: %w", err)
	}
	return f, nil
}
