package capture

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// UnansweredSocket returns a socket for the network namespace of the calling thread, which
// has loopback only. It receives the kernel's own messages that a datagram to port 53
// came to where no program listens. Each holds the datagram. Without a name server,
// programs ask 127.0.0.1, so these are the names that they wanted.
//
// The socket sends nothing and takes no port: in the namespace everything is as
// without it. The thread needs CAP_NET_RAW in the user namespace that owns the
// network. [Question] reads the messages.
func UnansweredSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_ICMP)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	program := questions()
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("filter: %w", err)
	}
	return fd, nil
}

// Where things are in a message: IP header, ICMP header, and the datagram with its own
// headers. The kernel's messages within a namespace have no options.
const (
	plainHeader  = 0x45 // IPv4 with a header of 20 bytes
	atICMP       = 20
	atInner      = atICMP + 8
	atInnerKind  = atInner + 9
	atInnerPort  = atInner + 20 + 2
	atInnerQuery = atInner + 20 + 8
)

// questions is the filter of the socket: destination unreachable, port unreachable,
// about UDP to port 53.
func questions() []unix.SockFilter {
	const (
		half = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		one  = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		is   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K
	)
	return []unix.SockFilter{
		{Code: one, K: 0},
		{Code: is, K: plainHeader, Jf: 9},
		{Code: half, K: atICMP},
		{Code: is, K: 3<<8 | 3, Jf: 7},
		{Code: one, K: atInner},
		{Code: is, K: plainHeader, Jf: 5},
		{Code: one, K: atInnerKind},
		{Code: is, K: unix.IPPROTO_UDP, Jf: 3},
		{Code: half, K: atInnerPort},
		{Code: is, K: 53, Jf: 1},
		{Code: ret, K: 0xffff},
		{Code: ret, K: 0},
	}
}

// Question returns the DNS query in a message of the socket; nil if there is none.
func Question(message []byte) []byte {
	if len(message) <= atInnerQuery || message[0] != plainHeader || message[atInner] != plainHeader ||
		message[atInnerKind] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(message[atInnerPort:]) != 53 {
		return nil
	}
	return message[atInnerQuery:]
}
