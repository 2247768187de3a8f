package fsx

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// The caller and its elevated reader exchange packets over a socket pair. A
// request carries one descriptor, that of the directory in which name is; an
// answer carries one when something was opened. Both ends are this program, but
// each checks what it gets: a mistake must not become a wrong file.

const (
	opHello = iota + 1 // answers nothing
	opOpen             // name beneath the descriptor, nothing followed
	opRoot             // a trusted path, links followed; a directory
	opXattr            // attribute attr of name, or the list of names
)

// maxMessage holds the largest attribute (64 KiB) and its frame.
const maxMessage = 72 << 10

// errBroken means that the other end is gone or sent a malformed message.
var errBroken = errors.New("the elevated reader's connection is broken")

type request struct {
	op    byte
	flags uint32
	name  string
	attr  string
}

func (q request) encode() []byte {
	b := make([]byte, 0, 9+len(q.name)+len(q.attr))
	b = append(b, q.op)
	b = binary.LittleEndian.AppendUint32(b, q.flags)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(q.name)))
	b = append(b, q.name...)
	return append(b, q.attr...)
}

func decodeRequest(b []byte) (request, error) {
	if len(b) < 9 {
		return request{}, errBroken
	}
	n := binary.LittleEndian.Uint32(b[5:])
	rest := b[9:]
	if uint64(n) > uint64(len(rest)) {
		return request{}, errBroken
	}
	return request{
		op: b[0], flags: binary.LittleEndian.Uint32(b[1:]),
		name: string(rest[:n]), attr: string(rest[n:]),
	}, nil
}

func encodeAnswer(errno unix.Errno, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(payload)), uint32(errno))
	return append(b, payload...)
}

func decodeAnswer(b []byte) (unix.Errno, []byte, error) {
	if len(b) < 4 {
		return 0, nil, errBroken
	}
	return unix.Errno(binary.LittleEndian.Uint32(b)), b[4:], nil
}

// receive reads one packet and at most one descriptor; -1 for none.
func receive(sock int, buf []byte) (msg []byte, fd int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*4))
	var n, oobn, flags int
	err = retry(func() (err error) {
		n, oobn, flags, _, err = unix.Recvmsg(sock, buf, oob, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil || n == 0 {
		return nil, -1, errors.Join(errBroken, err)
	}
	fds, err := rightsIn(oob[:oobn])
	if err != nil || len(fds) > 1 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		for _, f := range fds {
			_ = unix.Close(f)
		}
		return nil, -1, errors.Join(errBroken, err)
	}
	if len(fds) == 0 {
		return buf[:n], -1, nil
	}
	return buf[:n], fds[0], nil
}

func rightsIn(oob []byte) (fds []int, err error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return fds, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}
