package native

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/clone"
	"github.com/forkcell/forkcell/internal/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/driver/native/protocol"
)

// spawnConfig configures the clone of a process in new namespaces.
type spawnConfig struct {
	flags          uint64 // its namespaces
	uidMap, gidMap string // of its user namespace, if it has one of its own
	groups         string // what it may do about its groups: allow or deny
	root           bool   // it becomes root in its namespaces
	ambient        []uintptr
}

// sharing is held while another process has our memory: what the kernel does to
// the memory of a process that becomes another user would puzzle the next one.
var sharing sync.Mutex

// start executes the program of exe with the given descriptors as 0, 1, 2 and so
// on. The process is a child of the calling thread.
func (n *spawnConfig) start(exe string, env []string, files []int) (pid, pidfd int, err error) {
	sharing.Lock()
	defer sharing.Unlock()
	files, done, err := above(files)
	if err != nil {
		return 0, -1, err
	}
	defer done()
	// A process that becomes root waits for its maps at the gate. Its own end of the
	// other pipe is closed when it has executed the program, or has died.
	gate, executed := [2]int{-1, -1}, [2]int{-1, -1}
	defer func() {
		mountfd.CloseAll(gate[:])
		mountfd.CloseAll(executed[:])
	}()
	for _, p := range [][]int{gate[:], executed[:]} {
		if err := unix.Pipe2(p, unix.O_CLOEXEC); err != nil {
			return 0, -1, fmt.Errorf("pipe: %w", err)
		}
	}
	s, err := n.script(exe, env, files, gate)
	if err != nil {
		return 0, -1, err
	}
	defer runtime.KeepAlive(s) // the process reads it
	if pid, pidfd, err = s.Start(n.flags); err != nil {
		return 0, -1, err
	}
	_ = unix.Close(executed[1])
	executed[1] = -1
	if n.root {
		if err = n.writeMaps(pid); err == nil {
			_, err = unix.Write(gate[1], []byte{1})
		}
	}
	if err == nil {
		awaitEnd(executed[0])
		err = s.Failure()
	}
	if err == nil && !n.root {
		// Only now: as long as the process shares the memory of this one, the kernel
		// lets nobody but root write its maps if this memory cannot be dumped.
		err = n.writeMaps(pid)
	}
	if err != nil {
		end(pid, pidfd) // before the gate is closed, which would let it on
		return 0, -1, err
	}
	return pid, pidfd, nil
}

// end kills a child and clears it away.
func end(pid, pidfd int) {
	_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	reap(pid)
	_ = unix.Close(pidfd)
}

// dumpableByRoot is what PR_GET_DUMPABLE says of a process that changed its user
// where fs.suid_dumpable is 2.
const dumpableByRoot = 2

// script returns the calls that the process makes until it executes a program.
func (n *spawnConfig) script(exe string, env []string, files []int, gate [2]int) (*clone.Script, error) {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("whether memory can be dumped: %w", err)
	}
	s := &clone.Script{}
	if n.root {
		// Else the gate would not end with the parent.
		s.Do("gate", unix.SYS_CLOSE, uintptr(gate[1]))
		s.Do("wait for maps", unix.SYS_READ, uintptr(gate[0]), clone.Point(s, [1]byte{}), 1)
		s.Do("groups", unix.SYS_SETGROUPS, 0, 0)
		s.Do("group", unix.SYS_SETGID, 0)
		s.Do("user", unix.SYS_SETUID, 0)
		// The kernel has made the memory such that it cannot be dumped, or by root
		// only, and the memory is the parent's. The latter cannot be asked for.
		if dumpable != dumpableByRoot {
			s.Do("dumps", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, uintptr(dumpable))
		}
	}
	// It would not have outlasted the change of user.
	s.Do("parent's death", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	n.keepCapabilities(s)
	root, err := s.Bytes("/")
	if err != nil {
		return nil, err
	}
	s.Do("directory", unix.SYS_CHDIR, root)
	for i, fd := range files {
		s.Do("descriptors", unix.SYS_DUP3, uintptr(fd), uintptr(i), 0)
	}
	return s, s.Exec(exe, []string{protocol.InitName}, env)
}

// keepCapabilities makes capabilities outlast the execution of a program by
// someone who is not root.
func (n *spawnConfig) keepCapabilities(s *clone.Script) {
	if len(n.ambient) == 0 {
		return
	}
	var keep uint64
	for _, c := range n.ambient {
		keep |= 1 << c
	}
	const all = 1<<(unix.CAP_LAST_CAP+1) - 1
	hdr := clone.Point(s, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	s.Do("capabilities", unix.SYS_CAPSET, hdr, clone.Point(s, [2]unix.CapUserData{
		{Effective: all & (1<<32 - 1), Permitted: all & (1<<32 - 1), Inheritable: uint32(keep)},
		{Effective: all >> 32, Permitted: all >> 32, Inheritable: uint32(keep >> 32)},
	}))
	for _, c := range n.ambient {
		s.Do("ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c)
	}
}

// writeMaps gives the process its users and groups.
func (n *spawnConfig) writeMaps(pid int) error {
	if n.flags&unix.CLONE_NEWUSER == 0 {
		return nil
	}
	for _, f := range []struct{ name, text string }{{"uid_map", n.uidMap}, {"setgroups", n.groups}, {"gid_map", n.gidMap}} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, f.name), []byte(f.text), 0); err != nil {
			return fmt.Errorf("write map: %w", err)
		}
	}
	return nil
}

// above duplicates descriptors that would be overwritten before they are used.
func above(files []int) (high []int, done func(), err error) {
	var made []int
	done = func() { mountfd.CloseAll(made) }
	for _, fd := range files {
		if fd < len(files) {
			if fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, len(files)); err != nil {
				done()
				return nil, nil, fmt.Errorf("descriptors: %w", err)
			}
			made = append(made, fd)
		}
		high = append(high, fd)
	}
	return high, done, nil
}

// awaitEnd returns when nobody can write to a pipe any more.
func awaitEnd(fd int) {
	var b [1]byte
	for {
		if _, err := unix.Read(fd, b[:]); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reap waits for a child and returns its status.
func reap(pid int) unix.WaitStatus {
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &status, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			return status
		}
	}
}
