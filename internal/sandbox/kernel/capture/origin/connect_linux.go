package origin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
)

// Connect is a call of connect(2) whose thread is stopped before it begins.
type Connect struct {
	// Thread is the number of the calling thread here. It may be reused as soon
	// as Waiting returns false.
	Thread int
	// Descriptor and Address are the call's arguments: the socket, and where in
	// the caller's memory its destination is.
	Descriptor int
	Address    uint64
	// Waiting reports whether the thread still waits.
	Waiting func() bool
}

// errUnseen means that no process was observed connecting the socket of a
// connection, or that it was too long ago.
var errUnseen = errors.New("the program that opened the connection was not seen")

// Watch makes [Attributor.Connecting] the only source of information about
// programs. It is called before anything is connected, by a caller that may
// access the sockets of the cell's processes (pidfd_getfd(2)).
func (a *Attributor) Watch() { a.watched = true }

// Connecting finds out which program is about to connect a socket, and marks the
// socket. The accepted connection has the same mark; see [capture.Settings].
//
// The call itself continues unchanged. If the program puts another socket in
// the place of the descriptor meanwhile, that socket has no mark, or the mark
// of an earlier connect.
func (a *Attributor) Connecting(c Connect) {
	a.open.RLock()
	defer a.open.RUnlock()
	if !a.watched || a.closed {
		return
	}
	socket, err := c.borrow()
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(socket) }()
	if !connectionSocket(socket) || c.staysInside() {
		return
	}
	who, err := a.opener(c, socket)
	if !c.Waiting() {
		return
	}
	// A socket that cannot be marked counts as not observed.
	_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_MARK, int(a.marks.add(who, err)))
}

// pidfdThread is the kernel's PIDFD_THREAD, since Linux 6.9.
const pidfdThread = unix.O_EXCL

// borrow returns a descriptor of the caller's socket. The calling thread may
// have its own descriptor table; older kernels only give access to that of its
// process.
func (c Connect) borrow() (int, error) {
	pidfd, err := unix.PidfdOpen(c.Thread, pidfdThread)
	if errors.Is(err, unix.EINVAL) {
		var process int
		if process, _, err = c.process(); err == nil {
			pidfd, err = unix.PidfdOpen(process, 0)
		}
	}
	if err != nil {
		return -1, fmt.Errorf("process: %w", err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	if !c.Waiting() {
		return -1, unix.ESRCH
	}
	return unix.PidfdGetfd(pidfd, c.Descriptor, 0)
}

// connectionSocket reports whether a socket is a TCP socket.
func connectionSocket(fd int) bool {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil || domain != unix.AF_INET && domain != unix.AF_INET6 {
		return false
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && kind == unix.SOCK_STREAM
}

// staysInside reports whether the call seems to connect to the cell itself, so
// that its program is not needed.
func (c Connect) staysInside() bool {
	to, ok := c.destination()
	name := to.Addr().String()
	return ok && (inner(to.Addr()) || name == capture.Own4 || name == capture.Own6)
}

// inner reports whether an address is the cell itself in every network namespace.
func inner(a netip.Addr) bool { return a.IsLoopback() || a.IsUnspecified() }

// destination reads where the call connects to. The program can change it afterwards.
func (c Connect) destination() (netip.AddrPort, bool) {
	var b [unix.SizeofSockaddrInet6]byte
	n, err := unix.ProcessVMReadv(c.Thread, []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}},
		[]unix.RemoteIovec{{Base: uintptr(c.Address), Len: len(b)}}, 0)
	if err != nil || n < unix.SizeofSockaddrInet4 {
		return netip.AddrPort{}, false
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch family := binary.NativeEndian.Uint16(b[:]); {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:])), port), true
	case family == unix.AF_INET6 && n == len(b):
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:])).Unmap(), port), true
	}
	return netip.AddrPort{}, false
}

// OutsideAddress returns the address that the call connects to, if that is not the cell
// itself, and whether by UDP. It is good for telling, not for deciding.
func (c Connect) OutsideAddress() (to netip.AddrPort, udp, ok bool) {
	if to, ok = c.destination(); !ok || inner(to.Addr()) || to.Port() == 0 {
		return to, false, false // a program that looks for its own address connects to port 0
	}
	socket, err := c.borrow()
	if err != nil {
		return to, false, true
	}
	defer func() { _ = unix.Close(socket) }()
	kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	return to, err == nil && kind == unix.SOCK_DGRAM, true
}

// opener returns the calling process, or an error if processes of other
// executables hold the socket too.
func (a *Attributor) opener(c Connect, socket int) (Process, error) {
	_, pid, err := c.process()
	if err != nil {
		return Process{}, ErrGone
	}
	exe, err := a.executable(nil, c.Thread)
	if hasVanished(err) {
		return Process{}, ErrGone
	}
	if err != nil {
		return Process{}, fmt.Errorf("executable of process %d: %w", pid, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(socket, &st); err != nil {
		return Process{}, fmt.Errorf("socket: %w", err)
	}
	return a.holders(st.Ino, exe, pid)
}

// process returns the number of the caller's process here, and in the cell.
func (c Connect) process() (here, inside int, err error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(c.Thread) + "/status")
	if err != nil {
		return 0, 0, err
	}
	_, after, _ := bytes.Cut(status, []byte("\nNStgid:"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	ids := bytes.Fields(line)
	if len(ids) == 0 {
		return 0, 0, unix.ESRCH
	}
	here, err = strconv.Atoi(string(ids[0]))
	if err == nil {
		inside, err = strconv.Atoi(string(ids[len(ids)-1]))
	}
	return here, inside, err
}

// maxSeen is how many connects are remembered. The kernel lets about as many
// connections wait to be accepted.
const maxSeen = 4 << 10

// marks holds the observed processes by the mark of the socket.
type marks struct {
	mu   sync.Mutex
	last uint32
	seen map[uint32]seen
}

type seen struct {
	who Process
	err error
}

// add returns a new mark.
func (m *marks) add(who Process, err error) uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = map[uint32]seen{}
	}
	if m.last++; m.last == 0 {
		m.last++ // zero is the mark of an unmarked socket
	}
	delete(m.seen, m.last-maxSeen)
	m.seen[m.last] = seen{who, err}
	return m.last
}

// of returns the process that was observed connecting an accepted connection.
func (m *marks) of(c net.Conn) (Process, error) {
	mark, err := markOf(c)
	if err != nil {
		return Process{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.seen[mark]
	if !ok {
		return Process{}, errUnseen
	}
	return s.who, s.err
}

func markOf(c net.Conn) (uint32, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0, fmt.Errorf("%T is not an accepted connection", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("accepted connection: %w", err)
	}
	var mark int
	var failed error
	err = raw.Control(func(fd uintptr) { mark, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK) })
	if err = errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("mark: %w", err)
	}
	return uint32(mark), nil
}
