package spawn

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/clone"
)

// Config configures the clone of a process in new namespaces.
type Config struct {
	Name           string // what the program is called
	Flags          uint64 // its namespaces
	UIDMap, GIDMap string // of its user namespace, if it has one of its own
	Groups         string // what it may do about its groups: allow or deny
	Root           bool   // it becomes root in its namespaces before it executes the program
	Ambient        []uintptr
	// Nested means that the caller is in another pid namespace than its /proc.
	Nested bool
}

// MapNested gives a process in a namespace below the caller's all of the caller's
// users: those of a root caller's cell, or the one of another's.
func (n *Config) MapNested(root bool, uid, gid int) {
	if root {
		n.UIDMap, n.GIDMap, n.Groups = allIDs, allIDs, "allow"
		return
	}
	n.MapOne(uid, gid)
}

// MapOne gives the process one user and one group, with the numbers that they have
// here.
func (n *Config) MapOne(uid, gid int) {
	n.UIDMap, n.GIDMap = fmt.Sprintf("%d %d 1\n", uid, uid), fmt.Sprintf("%d %d 1\n", gid, gid)
	n.Groups = "deny"
}

// allIDs maps the users of a root caller's cell to themselves.
const allIDs = "0 0 65536\n"

// Capabilities returns those that a first process that is not root in its namespace keeps
// across its own exec. The overlay works with those of its mounter for ever after, so they
// include what copying up a file of any mode takes.
func Capabilities() []uintptr {
	return []uintptr{
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID,
		unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW,
		unix.CAP_SYS_CHROOT, unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE, unix.CAP_MKNOD, unix.CAP_SETFCAP,
	}
}

// Sharing is held while another process has our memory: what the kernel does to
// the memory of a process that becomes another user would puzzle the next one.
var Sharing sync.Mutex

// Start executes the program of exe with the given descriptors as 0, 1, 2 and so
// on. The process is a child of the calling thread.
func (n *Config) Start(exe string, env []string, files []int) (pid, pidfd int, err error) {
	Sharing.Lock()
	defer Sharing.Unlock()
	files, done, err := duplicateAbove(files)
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
	if pid, pidfd, err = s.Start(n.Flags); err != nil {
		return 0, -1, err
	}
	_ = unix.Close(executed[1])
	executed[1] = -1
	if n.Root {
		if err = n.writeMaps(pid, pidfd); err == nil {
			_, err = unix.Write(gate[1], []byte{1})
		}
	}
	if err == nil {
		awaitEnd(executed[0])
		err = s.Failure()
	}
	if err == nil && !n.Root {
		// Only now: as long as the process shares the memory of this one, the kernel
		// lets nobody but root write its maps if this memory cannot be dumped.
		err = n.writeMaps(pid, pidfd)
	}
	if err != nil {
		End(pid, pidfd) // before the gate is closed, which would let it on
		return 0, -1, err
	}
	return pid, pidfd, nil
}

// End kills a child and clears it away.
func End(pid, pidfd int) {
	_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	Reap(pid)
	_ = unix.Close(pidfd)
}

// dumpableByRoot is what PR_GET_DUMPABLE says of a process that changed its user
// where fs.suid_dumpable is 2.
const dumpableByRoot = 2

// script returns the calls that the process makes until it executes a program.
func (n *Config) script(exe string, env []string, files []int, gate [2]int) (*clone.Script, error) {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("whether memory can be dumped: %w", err)
	}
	s := &clone.Script{}
	if n.Root {
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
	return s, s.Exec(exe, []string{n.Name}, env)
}

// keepCapabilities makes capabilities outlast the execution of a program by
// someone who is not root.
func (n *Config) keepCapabilities(s *clone.Script) {
	if len(n.Ambient) == 0 {
		return
	}
	var keep uint64
	for _, c := range n.Ambient {
		keep |= 1 << c
	}
	all := keep
	if n.Flags&unix.CLONE_NEWUSER != 0 {
		all = 1<<(unix.CAP_LAST_CAP+1) - 1
	}
	hdr := clone.Point(s, unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3})
	s.Do("capabilities", unix.SYS_CAPSET, hdr, clone.Point(s, [2]unix.CapUserData{
		{Effective: uint32(all), Permitted: uint32(all), Inheritable: uint32(keep)},
		{Effective: uint32(all >> 32), Permitted: uint32(all >> 32), Inheritable: uint32(keep >> 32)},
	}))
	for _, c := range n.Ambient {
		s.Do("ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c)
	}
}

// writeMaps gives the process its users and groups.
func (n *Config) writeMaps(pid, pidfd int) error {
	if n.Flags&unix.CLONE_NEWUSER == 0 {
		return nil
	}
	if n.Nested {
		var err error
		if pid, err = PIDOf(pidfd); err != nil {
			return err
		}
	}
	return n.WriteMaps(pid)
}

// WriteMaps gives the process with this number in /proc its users and groups.
func (n *Config) WriteMaps(pid int) error {
	for _, f := range []struct{ name, text string }{{"uid_map", n.UIDMap}, {"setgroups", n.Groups}, {"gid_map", n.GIDMap}} {
		if err := writeMap(fmt.Sprintf("/proc/%d/%s", pid, f.name), f.text); err != nil {
			return fmt.Errorf("write map: %w", err)
		}
	}
	return nil
}

// executing is the time in which a process that has closed its descriptors has
// executed its program.
const executing = 500 * time.Millisecond

// writeMap writes a file about a process that executes a program. The kernel closes the
// descriptors of such a process before it has the memory of the new program count as
// such that can be dumped. In between, after a parent whose memory cannot be dumped, the
// file is root's.
func writeMap(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	for limit := time.Now().Add(executing); errors.Is(err, unix.EACCES) && time.Now().Before(limit); {
		<-time.After(time.Millisecond)
		f, err = os.OpenFile(path, os.O_WRONLY, 0)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// PIDOf returns the number that the process of a descriptor has in /proc.
func PIDOf(pidfd int) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return 0, fmt.Errorf("number of a process: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(text))
			if err == nil && pid <= 0 {
				err = unix.ESRCH
			}
			return pid, err
		}
	}
	return 0, fmt.Errorf("number of a process: %w", unix.EBADF)
}

// duplicateAbove duplicates descriptors that would be overwritten before they are used.
func duplicateAbove(files []int) (high []int, done func(), err error) {
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

// awaitEnd returns when no process can write to a pipe any more.
func awaitEnd(fd int) {
	var b [1]byte
	for {
		if _, err := unix.Read(fd, b[:]); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// Reap waits for a child and returns its status.
func Reap(pid int) unix.WaitStatus {
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &status, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			return status
		}
	}
}
