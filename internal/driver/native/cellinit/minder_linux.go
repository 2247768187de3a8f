package cellinit

import (
	"errors"
	"os"
	"sync"

	"github.com/forkcell/forkcell/internal/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/driver/native/protocol"
	"golang.org/x/sys/unix"
)

// minder looks after the commands of a cell: it is the init once the cell is
// built. It forks on the main thread only, which carries the cell's limits.
type minder struct {
	c       *protocol.Conn
	orders  chan *protocol.Order
	without protocol.Without
	// template means that the parent wants to know of every process that ends.
	template bool

	// mu is held over a fork, so that no command can be reaped before its
	// number is known.
	mu       sync.Mutex
	commands map[int]command // by pid
	reaping  bool
}

// command is one that was executed and has not ended.
type command struct {
	id       int
	last     bool
	terminal int // kept open for it, or -1
}

func newMinder(c *protocol.Conn, off protocol.Without, template bool) *minder {
	return &minder{c: c, without: off, template: template, orders: make(chan *protocol.Order), commands: map[int]command{}}
}

// serve executes orders until the cell ends.
func (m *minder) serve() {
	go m.obey()
	for o := range m.orders {
		if o.Open != nil {
			m.report(o.Open.ID, m.open(o.Open))
			continue
		}
		err := m.start(o.Exec)
		m.report(o.Exec.ID, err)
		switch {
		case o.Exec.Last && err != nil:
			os.Exit(1)
		case o.Exec.Last:
			m.reap()
		}
	}
}

// report says why an order failed.
func (m *minder) report(id int, err error) {
	if err != nil {
		r := protocol.Failure(err)
		r.Exec = id
		_ = m.c.Write(r) // a parent that does not listen is gone
	}
}

// obey takes orders and ends the cell when the parent is gone.
func (m *minder) obey() {
	for {
		var o protocol.Order
		if _, err := m.c.Read(&o); err != nil {
			os.Exit(1)
		}
		if o.Exec != nil || o.Open != nil {
			m.orders <- &o
		}
		if o.Signal > 0 {
			m.signal(o.To, unix.Signal(o.Signal))
		}
	}
}

func (m *minder) signal(id int, sig unix.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for pid, c := range m.commands {
		if c.id == id {
			// A group that has ended needs no signal.
			_ = unix.Kill(-pid, sig)
		}
	}
}

// start executes one command and says so.
func (m *minder) start(o *protocol.ExecOrder) error {
	s, err := newCellStreams(o)
	if err != nil {
		return err
	}
	m.mu.Lock()
	pid, err := execute(o, s, m.without)
	if err != nil {
		m.mu.Unlock()
		mountfd.CloseAll(s.own)
		mountfd.CloseAll(s.parent)
		return err
	}
	m.commands[pid] = command{id: o.ID, last: o.Last, terminal: s.keep()}
	err = m.c.Write(&protocol.Report{Kind: protocol.Started, Exec: o.ID, PID: pid}, s.parent...)
	m.mu.Unlock()
	s.release()
	if !o.Last {
		m.reapAside()
	}
	return err
}

// reapAside reaps on another thread, as long as there is anything to reap.
func (m *minder) reapAside() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.reaping {
		m.reaping = true
		go m.reap()
	}
}

// reap collects processes of the cell until there are none, or until the
// command that ends the cell is among them.
func (m *minder) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			if m.childless() {
				return
			}
		case err != nil:
			os.Exit(1)
		case status.Exited() || status.Signaled():
			m.ended(pid, status)
		}
	}
}

// childless looks again while nothing can be forked.
func (m *minder) childless() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	m.reaping = !errors.Is(err, unix.ECHILD)
	return !m.reaping
}

func (m *minder) ended(pid int, status unix.WaitStatus) {
	m.mu.Lock()
	c, ok := m.commands[pid]
	delete(m.commands, pid)
	m.mu.Unlock()
	if !ok {
		if m.template {
			_ = m.c.Write(&protocol.Report{Kind: protocol.Reaped, PID: pid, Status: uint32(status)})
		}
		return
	}
	_ = m.c.Write(&protocol.Report{Kind: protocol.Exited, Exec: c.id, Status: uint32(status), Refused: refusedAttempts()})
	if c.last {
		os.Exit(0)
	}
	mountfd.CloseAll([]int{c.terminal})
}
