package native

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture/origin"
)

// questions reads the names that a cell without a network asks for in vain.
type questions struct {
	file *os.File
	told func(query []byte)
	done chan struct{}
	buf  []byte
}

// hearQuestions reads from the socket that the init has sent. fds is empty where the
// kernel refused it, and the cell has no network, so nothing is missing for it.
func (c *Cell) hearQuestions(fds []int) error {
	if c.attempts == nil && len(fds) > 0 || len(fds) > 1 {
		mountfd.CloseAll(fds)
		return errors.New("the init sent unexpected sockets")
	}
	if len(fds) == 0 {
		return nil
	}
	q := &questions{file: os.NewFile(uintptr(fds[0]), "unanswered questions"), told: c.attempts.Question, done: make(chan struct{}), buf: make([]byte, 2<<10)}
	c.questions = q
	go q.serve()
	return nil
}

// attemptsOf returns what hears of the attempts of a cell; nil if its first process is
// not asked to report them.
func attemptsOf(s *driver.Spec, p *hostPlan) *driver.Attempts {
	if !p.Guard.Attempts {
		return nil
	}
	return s.Attempts
}

// serve reads until close, and then what has arrived before it.
func (q *questions) serve() {
	defer close(q.done)
	raw, err := q.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool { q.drain(int(fd)); return false }) // ends with the deadline
	_ = raw.Control(func(fd uintptr) { q.drain(int(fd)) })
}

// drain reads what is there. The socket's buffer bounds what a cell leaves behind.
func (q *questions) drain(fd int) {
	for {
		n, _, err := unix.Recvfrom(fd, q.buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		if query := capture.Question(q.buf[:n]); query != nil {
			q.told(query)
		}
	}
}

// close returns when every question of a cell that is gone was told.
func (q *questions) close() {
	if q == nil {
		return
	}
	_ = q.file.SetReadDeadline(time.Unix(1, 0))
	<-q.done
	_ = q.file.Close()
}

// hearConnect reports that a program of a cell without a network connects to an address
// outside of it.
func (c *Cell) hearConnect(call origin.Connect) {
	to, udp, ok := call.OutsideAddress()
	if !ok {
		return
	}
	pid, binary := whoCalled(call.Thread)
	if !call.Waiting() {
		return // what was read may be another process's
	}
	c.telling.Lock()
	defer c.telling.Unlock()
	c.attempts.Connect(driver.Program{PID: pid, Binary: binary}, to, udp)
}
