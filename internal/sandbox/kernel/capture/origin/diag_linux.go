package origin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// The kernel's struct inet_diag_req_v2 and struct inet_diag_msg, after a netlink
// header: where the identity of the socket begins in each, and where the inode
// is.
const (
	diagRequestID   = unix.SizeofNlMsghdr + 8
	diagRequestSize = diagRequestID + diagIDSize
	diagAnswerID    = unix.SizeofNlMsghdr + 4
	diagInode       = diagAnswerID + diagIDSize + 16
	diagAnswerSize  = diagInode + 4

	// struct inet_diag_sockid: ports, addresses, interface and a cookie.
	diagIDSize   = 48
	diagAddrs    = 4
	diagFlow     = 36 // ports and addresses
	diagNoCookie = 40
)

var errDiag = errors.New("malformed answer about a socket")

// diag asks the kernel about sockets of the namespace in which its own socket
// was made.
type diag struct {
	mu   sync.Mutex
	file *os.File
	seq  uint32
	buf  [8 << 10]byte
}

// connection returns the inode of the TCP socket that is bound to local and
// connected to remote, 0 if there is none or no process holds it.
func (d *diag) connection(local, remote netip.AddrPort) (uint32, error) {
	req := diagRequest(unix.IPPROTO_TCP, local, remote)
	return d.inode(req, req[diagRequestID:][:diagFlow])
}

// receiver returns the inode of the UDP socket that receives what remote sends
// to local, 0 if there is none.
func (d *diag) receiver(local, remote netip.AddrPort) (uint32, error) {
	// For UDP the kernel expects the two ends swapped; in its answer they are
	// as for TCP, and the addresses often unspecified.
	return d.inode(diagRequest(unix.IPPROTO_UDP, remote, local), binary.BigEndian.AppendUint16(nil, local.Port()))
}

// inode sends a request. The identity in the answer must begin as given.
func (d *diag) inode(req, identity []byte) (uint32, error) {
	raw, err := d.file.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("socket diagnosis: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seq++
	binary.NativeEndian.PutUint32(req[8:], d.seq)
	var inode uint32
	var opErr error
	// The kernel answers before the request returns, so there is no wait.
	err = raw.Control(func(fd uintptr) { inode, opErr = d.ask(int(fd), req, identity) })
	if err = errors.Join(err, opErr); err != nil {
		return 0, fmt.Errorf("socket diagnosis: %w", err)
	}
	return inode, nil
}

func (d *diag) ask(fd int, req, identity []byte) (uint32, error) {
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	for {
		n, _, err := unix.Recvfrom(fd, d.buf[:], unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		b := d.buf[:n]
		if n >= unix.SizeofNlMsghdr && binary.NativeEndian.Uint32(b[8:]) != d.seq {
			continue // the answer to an earlier, failed request
		}
		return diagAnswer(b, identity)
	}
}

func diagRequest(protocol byte, local, remote netip.AddrPort) []byte {
	b := make([]byte, diagRequestSize)
	binary.NativeEndian.PutUint32(b, diagRequestSize)
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	b[16] = unix.AF_INET6
	if local.Addr().Is4() {
		b[16] = unix.AF_INET
	}
	b[17] = protocol
	binary.NativeEndian.PutUint32(b[20:], ^uint32(0)) // any state
	id := b[diagRequestID:]
	binary.BigEndian.PutUint16(id, local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[diagAddrs:], local.Addr().AsSlice())
	copy(id[diagAddrs+16:], remote.Addr().AsSlice())
	binary.NativeEndian.PutUint64(id[diagNoCookie:], ^uint64(0))
	return b
}

// diagAnswer reads the inode out of the answer about a socket whose identity
// begins as given.
func diagAnswer(b, identity []byte) (uint32, error) {
	if len(b) < unix.SizeofNlMsghdr+4 || int(binary.NativeEndian.Uint32(b)) > len(b) {
		return 0, errDiag
	}
	switch binary.NativeEndian.Uint16(b[4:]) {
	case unix.NLMSG_ERROR:
		switch errno := unix.Errno(-int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:]))); errno {
		case unix.ENOENT:
			return 0, nil
		case 0:
			return 0, errDiag
		default:
			return 0, errno
		}
	case unix.SOCK_DIAG_BY_FAMILY:
		if len(b) < diagAnswerSize {
			return 0, errDiag
		}
		id := b[diagAnswerID:diagAnswerSize]
		if !bytes.HasPrefix(id, identity) && !bytes.HasPrefix(unmapIdentity(id), identity) {
			return 0, nil // a listener that would take such a connection
		}
		return binary.NativeEndian.Uint32(b[diagInode:]), nil
	}
	return 0, errDiag
}

// unmapIdentity converts the identity of an IPv6 socket that uses IPv4, as Java's
// do, to IPv4: the kernel finds it by its IPv4 addresses and then returns the
// mapped ones.
func unmapIdentity(id []byte) []byte {
	id = bytes.Clone(id[:diagFlow])
	for i := diagAddrs; i < diagFlow; i += 16 {
		addr := netip.AddrFrom16([16]byte(id[i:]))
		if !addr.Is4In6() {
			return nil
		}
		clear(id[i:][:16])
		copy(id[i:], addr.Unmap().AsSlice())
	}
	return id
}
