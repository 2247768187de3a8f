package origin

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
)

// ErrGone means that no process whose descriptors can be read holds the socket
// of a connection: its opener has ended, or has closed it.
var ErrGone = errors.New("the program that opened the connection cannot be found")

// sharedError means that different executables hold the socket of a connection,
// so that its opener is not known.
type sharedError struct{ First, Second Process }

func (e *sharedError) Error() string {
	return fmt.Sprintf("the connection is shared by different programs: %q and %q", e.First.Binary, e.Second.Binary)
}

// Process is the process that opened a connection.
type Process struct {
	// PID is its number in the cell.
	PID int
	// Binary is the path of its executable in the cell. If the executable was
	// deleted, it is the kernel's text instead: the old name or "/memfd:NAME",
	// with " (deleted)" after it.
	Binary string
	// Unnamed reports that Binary names another file or none.
	Unnamed bool
	// Writable reports that the executable is on a mount that the cell may
	// write.
	Writable bool
}

// IsTrusted reports whether the cell cannot have made the executable. Only such a
// process may match a rule that names a binary.
func (p Process) IsTrusted() bool { return !p.Unnamed && !p.Writable }

// Attributor finds the processes of one pid namespace that hold sockets of one
// network namespace. It is safe for concurrent use.
type Attributor struct {
	diag diag
	// open is held for reading while the directories are in use, so that none
	// is closed and its descriptor reused meanwhile.
	open   sync.RWMutex
	closed bool
	// root and proc are the root and /proc of the namespace's first process.
	root, proc *os.File
	// last is the process that was found last; it is tried first.
	last atomic.Int64
	// watched reports that connects are observed; marks are the results.
	watched bool
	marks   marks
}

// NewAttributor returns an Attributor for the cell whose first process has the
// number initPID here; the caller keeps that process from ending meanwhile. The
// caller needs the right to inspect the cell's processes, as their parent has.
func NewAttributor(s *Sockets, initPID int) (*Attributor, error) {
	root, err := openAt(nil, "/proc/"+strconv.Itoa(initPID)+"/root", unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("the cell's root: %w", err)
	}
	proc, err := openAt(root, "proc", unix.O_DIRECTORY, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_SYMLINKS)
	if err == nil {
		err = isProc(proc)
		if err != nil {
			_ = proc.Close()
		}
	}
	if err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("the cell's /proc: %w", err)
	}
	a := &Attributor{root: root, proc: proc}
	a.diag.file = s.diag
	return a, nil
}

func isProc(f *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return fmt.Errorf("file system: %w", err)
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return errors.New("not a proc file system")
	}
	return nil
}

// Close closes the cell's directories after the running lookups. Later ones
// fail with os.ErrClosed.
func (a *Attributor) Close() error {
	a.open.Lock()
	defer a.open.Unlock()
	a.closed = true
	return errors.Join(a.root.Close(), a.proc.Close())
}

// Of returns the process that opened an accepted connection: the one that was
// observed in connect(2), or, where connects are not observed, the one that
// holds the other end now.
func (a *Attributor) Of(c net.Conn) (Process, error) {
	if a.watched {
		return a.marks.of(c)
	}
	peer, err := addrPort(c.RemoteAddr())
	if err != nil {
		return Process{}, err
	}
	dst, err := addrPort(c.LocalAddr())
	if err != nil {
		return Process{}, err
	}
	return a.Lookup(peer, dst)
}

// Lookup returns the process that holds the socket that is bound to peer and
// connected to dst. It fails with [ErrGone] or a [sharedError] when there is not
// exactly one executable.
func (a *Attributor) Lookup(peer, dst netip.AddrPort) (Process, error) {
	return a.find(func() (uint32, error) { return a.diag.connection(peer, dst) })
}

// Asker returns the process that a DNS datagram came from. It finds processes
// that query [capture.Resolver4] or hold sockets that accept an answer from
// there. For others, which use another resolver, it often returns [ErrGone]. So
// use it for reporting, not for decisions.
func (a *Attributor) Asker(from netip.AddrPort) (Process, error) {
	from = netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port())
	resolver := capture.Resolver4
	if from.Addr().Is6() {
		resolver = capture.Resolver6
	}
	addr, err := netip.ParseAddr(resolver)
	if err != nil {
		return Process{}, fmt.Errorf("resolver: %w", err)
	}
	const dns = 53
	return a.find(func() (uint32, error) { return a.diag.receiver(from, netip.AddrPortFrom(addr, dns)) })
}

// Peer returns the process that opened a connection to a unix socket, as far as it can
// be found: it may have ended, and passed the connection on.
func (a *Attributor) Peer(c syscall.Conn) (Process, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Process{}, err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(failed, err); err != nil {
		return Process{}, fmt.Errorf("peer: %w", err)
	}
	a.open.RLock()
	defer a.open.RUnlock()
	if a.closed {
		return Process{}, os.ErrClosed
	}
	thread := int(peer.Pid)
	_, pid, err := Connect{Thread: thread}.process()
	if err != nil {
		return Process{}, ErrGone
	}
	exe, err := a.executable(nil, thread)
	if err != nil {
		return Process{}, fmt.Errorf("executable of process %d: %w", pid, err)
	}
	return exe.process(pid), nil
}

// find looks for the holder of a socket.
func (a *Attributor) find(socket func() (uint32, error)) (Process, error) {
	a.open.RLock()
	defer a.open.RUnlock()
	if a.closed {
		return Process{}, os.ErrClosed
	}
	// One scan can miss a process that inherits the socket while its parent
	// ends.
	for range 2 {
		inode, err := socket()
		if err != nil {
			return Process{}, err
		}
		if inode == 0 {
			break
		}
		p, err := a.holder(inode)
		if !errors.Is(err, ErrGone) {
			return p, err
		}
	}
	return Process{}, ErrGone
}

// holder scans the descriptors of all processes.
func (a *Attributor) holder(inode uint32) (Process, error) {
	return a.holders(uint64(inode), nil, 0)
}

// holders is holder for a socket of which one holder may be known. It skips
// processes that run the same executable as a known holder.
func (a *Attributor) holders(inode uint64, found *executable, pid int) (Process, error) {
	pids, err := a.processes()
	if err != nil {
		return Process{}, err
	}
	target := "socket:[" + strconv.FormatUint(inode, 10) + "]"
	for _, p := range pids {
		if found != nil && (p == pid || found.runs(a.proc, p)) {
			continue
		}
		held, err := a.holds(p, target)
		if err != nil {
			return Process{}, err
		}
		if !held {
			continue
		}
		exe, err := a.executable(a.proc, p)
		if hasVanished(err) {
			continue
		}
		if err != nil {
			return Process{}, fmt.Errorf("executable of process %d: %w", p, err)
		}
		switch {
		case found == nil:
			found, pid = exe, p
		case !found.same(exe):
			return Process{}, &sharedError{First: found.process(pid), Second: exe.process(p)}
		}
	}
	if found == nil {
		return Process{}, ErrGone
	}
	a.last.Store(int64(pid))
	return found.process(pid), nil
}
