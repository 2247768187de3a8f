package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"golang.org/x/sys/unix"
)

// maxMessage bounds a message: the kernel allows arguments and environment of
// some megabytes.
const maxMessage = 16 << 20

// maxReport bounds what the init says, which is little.
const maxReport = 1 << 20

// maxDescriptors is the kernel's limit for one message.
const maxDescriptors = 253

// Conn is one end of the control socket: messages, each after its length, each
// with descriptors that travel along.
type Conn struct {
	file *os.File
	raw  syscall.RawConn
	max  uint32 // bytes of a message that comes
	send sync.Mutex
	// sender is the process that sent the last message that was read, if the kernel
	// is asked to tell: see KnowSender.
	sender int
}

// NewConn takes over fd. A non-blocking one can be closed while it is read.
func NewConn(fd int) (*Conn, error) {
	f := os.NewFile(uintptr(fd), "control socket")
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return &Conn{file: f, raw: raw, max: maxMessage}, nil
}

// SocketPair returns the parent's end and the descriptor of the child's.
func SocketPair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	child := os.NewFile(uintptr(fds[1]), "init's control socket")
	c, err := NewParentConn(fds[0])
	if err != nil {
		_ = child.Close()
		return nil, nil, err
	}
	return c, child, nil
}

// NewParentConn takes over the parent's end of a pair. The other side says little.
func NewParentConn(fd int) (*Conn, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("control socket: %w", err)
	}
	c, err := NewConn(fd)
	if err != nil {
		return nil, err
	}
	c.max = maxReport
	return c, nil
}

// KnowSender makes the kernel tell who sends each message that comes: see Sender.
func (c *Conn) KnowSender() error {
	var failed error
	err := c.raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	})
	return errors.Join(err, failed)
}

// Sender returns the number of the process that sent the last message that was read.
// It is for the goroutine that reads.
func (c *Conn) Sender() int { return c.sender }

// SetReadDeadline ends a Read that has not returned by then.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.file.SetReadDeadline(t) }

// SetWriteDeadline ends a Write that has not returned by then.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.file.SetWriteDeadline(t) }

// Close ends the connection.
func (c *Conn) Close() error { return c.file.Close() }

// Write sends one message.
func (c *Conn) Write(m message, fds ...int) error {
	body := encode(m)
	if len(body) > maxMessage || len(fds) > maxDescriptors {
		return fmt.Errorf("message of %d bytes and %d descriptors: %w", len(body), len(fds), unix.EMSGSIZE)
	}
	frame := make([]byte, 4, 4+len(body))
	binary.LittleEndian.PutUint32(frame, uint32(len(body)))
	frame = append(frame, body...)
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	c.send.Lock()
	defer c.send.Unlock()
	for len(frame) > 0 {
		var n int
		var opErr error
		err := c.raw.Write(func(fd uintptr) bool {
			for {
				n, opErr = unix.SendmsgN(int(fd), frame, oob, nil, unix.MSG_NOSIGNAL)
				if opErr != unix.EINTR {
					return opErr != unix.EAGAIN
				}
			}
		})
		if err = errors.Join(err, opErr); err != nil {
			return fmt.Errorf("send message: %w", err)
		}
		frame, oob = frame[n:], nil
	}
	return nil
}

// Read takes one message into m and returns its descriptors, which the caller
// owns. io.EOF means that the other side is gone.
func (c *Conn) Read(m message) ([]int, error) {
	var head [4]byte
	fds, err := c.fill(head[:], true)
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > c.max {
		mountfd.CloseAll(fds)
		return nil, fmt.Errorf("message of %d bytes: %w", size, unix.EMSGSIZE)
	}
	body := make([]byte, size)
	if _, err := c.fill(body, false); err != nil {
		mountfd.CloseAll(fds)
		return nil, err
	}
	if err := decode(body, m); err != nil {
		mountfd.CloseAll(fds)
		return nil, fmt.Errorf("decode message: %w", err)
	}
	return fds, nil
}

// fill reads exactly len(p) bytes; descriptors come with the first of them.
func (c *Conn) fill(p []byte, rights bool) ([]int, error) {
	var oob []byte
	if rights {
		oob = make([]byte, unix.CmsgSpace(4*maxDescriptors)+unix.CmsgSpace(unix.SizeofUcred))
	}
	var fds []int
	for len(p) > 0 {
		var n, oobn, flags int
		var opErr error
		err := c.raw.Read(func(fd uintptr) bool {
			for {
				n, oobn, flags, _, opErr = unix.Recvmsg(int(fd), p, oob, unix.MSG_CMSG_CLOEXEC)
				if opErr != unix.EINTR {
					return opErr != unix.EAGAIN
				}
			}
		})
		err = errors.Join(err, opErr)
		if err == nil && oobn > 0 {
			var got []int
			got, err = c.parseRights(oob[:oobn])
			fds = append(fds, got...)
		}
		switch {
		case err == nil && rights && flags&unix.MSG_CTRUNC != 0:
			err = errors.New("descriptors were cut off")
		case err == nil && n == 0:
			err = io.EOF
		}
		if err != nil {
			mountfd.CloseAll(fds)
			// A connection is closed on this side when the cell is gone.
			if errors.Is(err, unix.ECONNRESET) || errors.Is(err, os.ErrClosed) {
				err = io.EOF
			}
			return nil, err
		}
		p = p[n:]
	}
	return fds, nil
}

func (c *Conn) parseRights(oob []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	var fds []int
	for i := range msgs {
		if who, err := unix.ParseUnixCredentials(&msgs[i]); err == nil {
			c.sender = int(who.Pid)
			continue
		}
		got, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		fds = append(fds, got...)
	}
	return fds, nil
}
