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

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/capture"
)

// ErrGone means that nobody holds the socket of a connection any more, or nobody
// whose descriptors can be looked at: its opener has ended, or has closed it.
var ErrGone = errors.New("the program that opened the connection cannot be found")

// SharedError means that different executables hold the socket of a connection,
// so that it cannot be said whose it is.
type SharedError struct{ First, Second Process }

func (e *SharedError) Error() string {
	return fmt.Sprintf("the connection is shared by different programs: %q and %q", e.First.Binary, e.Second.Binary)
}

// Process is who opened a connection.
type Process struct {
	// PID is its number in the cell.
	PID int
	// Binary is the path of its executable in the cell. Where the executable
	// has no name any more, it is what the kernel says instead: the old name or
	// "/memfd:NAME", with " (deleted)" after it.
	Binary string
	// Unnamed says that Binary names another file or none.
	Unnamed bool
	// Writable says that the executable is on a mount that the cell may write.
	Writable bool
}

// Trusted reports whether the executable is one that the cell cannot have made: only
// such a one may match a rule that names a binary.
func (p Process) Trusted() bool { return !p.Unnamed && !p.Writable }

// Attributor finds the processes of one pid namespace that hold sockets of one
// network namespace. It can be used by many goroutines.
type Attributor struct {
	diag diag
	// open is held for reading by whoever uses the directories, so that none is
	// closed, and its number given to another file, in the middle of it.
	open   sync.RWMutex
	closed bool
	// root and proc are the root and /proc of the namespace's first process.
	root, proc *os.File
	// last is the process that was found last, which is looked at first.
	last atomic.Int64
	// watched says that connects are seen; marks are what was seen.
	watched bool
	marks   marks
}

// NewAttributor returns one for the cell whose first process has the number
// initPID here; the caller keeps that process from ending meanwhile. The caller
// needs the right to look at the cell's processes, as who started them has.
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

// Close lets go of the cell's directories, after the questions that are being
// answered. Later ones fail with os.ErrClosed.
func (a *Attributor) Close() error {
	a.open.Lock()
	defer a.open.Unlock()
	a.closed = true
	return errors.Join(a.root.Close(), a.proc.Close())
}

// Of returns the process that opened an accepted connection: the one that was
// seen to connect it, or, where connects are not seen, the one that holds its
// other end now.
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
// connected to dst. It fails with [ErrGone] or a [SharedError] when there is not
// exactly one executable.
func (a *Attributor) Lookup(peer, dst netip.AddrPort) (Process, error) {
	return a.find(func() (uint32, error) { return a.diag.connection(peer, dst) })
}

// Asker returns the process that a DNS datagram came from. It knows those that
// ask the resolver of [capture.Resolver4], or who hold sockets that would take an
// answer from there; of others, that have a resolver of their own choice, it
// often does not, and says [ErrGone]. So it is good for telling, not for deciding.
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

// find looks for the holder of a socket.
func (a *Attributor) find(socket func() (uint32, error)) (Process, error) {
	a.open.RLock()
	defer a.open.RUnlock()
	if a.closed {
		return Process{}, os.ErrClosed
	}
	// A process that inherits the socket while its parent ends can slip through
	// one scan.
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

// holders is holder for a socket of which a holder may be known. Once there is
// one, processes that run the same executable need not be looked at.
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
		if vanished(err) {
			continue
		}
		if err != nil {
			return Process{}, fmt.Errorf("executable of process %d: %w", p, err)
		}
		switch {
		case found == nil:
			found, pid = exe, p
		case !found.same(exe):
			return Process{}, &SharedError{First: found.process(pid), Second: exe.process(p)}
		}
	}
	if found == nil {
		return Process{}, ErrGone
	}
	a.last.Store(int64(pid))
	return found.process(pid), nil
}
