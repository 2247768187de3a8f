package cellinit

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"golang.org/x/sys/unix"
)

// executor executes the commands of a cell and reaps them: it is the init once the
// cell is built. It forks on the main thread only, which carries the cell's limits.
type executor struct {
	c       *protocol.Conn
	orders  chan *protocol.Order
	reading sync.Once // starts what reads orders in the background
	without protocol.Without
	// template means that the parent wants to know of every process that ends.
	template bool
	// broker executes package managers; nil without them.
	broker *broker

	// mu is held over a fork, so that no command can be reaped before its
	// number is known.
	mu       sync.Mutex
	commands map[int]command // by pid
	reaping  bool
}

// command is one that was executed and has not ended.
type command struct {
	id       int
	began    time.Time
	last     bool
	terminal int // kept open for it, or -1
	// done gets the wait status of a package manager, of which the parent hears
	// otherwise.
	done chan unix.WaitStatus
}

func newExecutor(c *protocol.Conn, off protocol.Without, template bool, b *broker) *executor {
	e := &executor{c: c, without: off, template: template, orders: make(chan *protocol.Order), commands: map[int]command{}, broker: b}
	if b != nil {
		b.executor, b.answers = e, make(chan protocol.Answer, 1)
	}
	return e
}

// serve executes orders until the cell ends.
func (e *executor) serve() {
	if e.broker != nil {
		moreThreads()
		go e.broker.serve()
	}
	// The order of a run is there already. It is not read by another thread, which would
	// have to be started before the command.
	o := e.readOrder()
	if o.Exec == nil || !o.Exec.Last {
		moreThreads()
	}
	e.do(o)
	for o := range e.orders {
		e.do(o)
	}
}

// do carries out an order. From the first one on, another thread reads the next ones.
func (e *executor) do(o *protocol.Order) {
	defer e.reading.Do(e.readInBackground)
	if o.Open != nil {
		e.report(o.Open.ID, e.open(o.Open))
		return
	}
	err := e.start(o.Exec)
	e.report(o.Exec.ID, err)
	switch {
	case o.Exec.Last && err != nil:
		os.Exit(1)
	case o.Exec.Last:
		e.reading.Do(e.readInBackground)
		e.reap()
	}
}

// running is how many threads run at the same time in a cell that carries out more
// than one order: a command that starts must not wait for the thread that reads the
// next order, or for the one that reaps. The init of a run without a limit of processes
// has one, as it was started.
const running = 2

// moreThreads is for an init, which is started with one. The first process of a guest,
// which also carries streams, may have more already, and keeps them.
func moreThreads() {
	if runtime.GOMAXPROCS(0) < running {
		runtime.GOMAXPROCS(running)
	}
}

// keepThreads makes the runtime start all threads that it will need, while there is
// room for them; it keeps those that have nothing to do. Later the commands of the
// cell may have used up its limit of processes, and a runtime that cannot start a
// thread ends this process, and with it the cell.
func keepThreads(broker bool) {
	waiting := 2 // one reads orders and one reaps
	if broker {
		waiting += 2 // one accepts connections, one watches the present one
	}
	runtime.GOMAXPROCS(running)
	var started, done sync.WaitGroup
	end := make(chan struct{})
	for range running + waiting {
		started.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started.Done()
			<-end
		})
	}
	started.Wait()
	close(end)
	done.Wait()
}

// report says why an order failed.
func (e *executor) report(id int, err error) {
	if err != nil {
		r := protocol.Failure(err)
		r.Exec = id
		_ = e.c.Write(r) // a parent that does not listen is gone
	}
}

func (e *executor) readInBackground() {
	go func() {
		for {
			e.orders <- e.readOrder()
		}
	}()
}

// readOrder receives orders until there is one for the main thread. It ends the cell
// when the parent is gone.
func (e *executor) readOrder() *protocol.Order {
	for {
		var o protocol.Order
		if _, err := e.c.Read(&o); err != nil {
			os.Exit(1)
		}
		if o.Signal > 0 {
			e.signal(o.To, unix.Signal(o.Signal))
		}
		if o.Answer != nil && e.broker != nil {
			e.broker.answers <- *o.Answer
		}
		if o.Exec != nil || o.Open != nil {
			return &o
		}
	}
}

// terminate asks a package manager to end, if it has not.
func (e *executor) terminate(pid int, done chan unix.WaitStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, ok := e.commands[pid]; ok && c.done == done {
		_ = unix.Kill(-pid, unix.SIGTERM)
	}
}

func (e *executor) signal(id int, sig unix.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for pid, c := range e.commands {
		if c.id == id && c.done == nil {
			// A group that has ended needs no signal.
			_ = unix.Kill(-pid, sig)
		}
	}
}

// start executes one command and says so.
func (e *executor) start(o *protocol.ExecOrder) error {
	s, err := newCellStreams(o)
	if err != nil {
		return err
	}
	e.mu.Lock()
	pid, began, err := execute(o, s, e.without)
	if err != nil {
		e.mu.Unlock()
		mountfd.CloseAll(s.own)
		mountfd.CloseAll(s.parent)
		return err
	}
	e.commands[pid] = command{id: o.ID, began: began, last: o.Last, terminal: s.keep()}
	err = e.c.Write(&protocol.Report{Kind: protocol.Started, Exec: o.ID, PID: pid}, s.parent...)
	e.mu.Unlock()
	s.release()
	if !o.Last {
		e.reapInBackground()
	}
	return err
}

// reapInBackground reaps on another thread, as long as there is anything to reap.
func (e *executor) reapInBackground() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.reaping {
		e.reaping = true
		go e.reap()
	}
}

// reap collects processes of the cell until there are none, or until the
// command that ends the cell is among them.
func (e *executor) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			if e.noChildren() {
				return
			}
		case err != nil:
			os.Exit(1)
		case status.Exited() || status.Signaled():
			e.ended(pid, status)
		}
	}
}

// noChildren reports whether there is nothing to reap. It looks while nothing can
// be forked.
func (e *executor) noChildren() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	e.reaping = !errors.Is(err, unix.ECHILD)
	return !e.reaping
}

func (e *executor) ended(pid int, status unix.WaitStatus) {
	now := time.Now()
	e.mu.Lock()
	c, ok := e.commands[pid]
	delete(e.commands, pid)
	e.mu.Unlock()
	if !ok {
		if e.template {
			_ = e.c.Write(&protocol.Report{Kind: protocol.Reaped, PID: pid, Status: uint32(status)})
		}
		return
	}
	if c.done != nil {
		c.done <- status
		return
	}
	report := &protocol.Report{Kind: protocol.Exited, Exec: c.id, Status: uint32(status), Took: now.Sub(c.began)}
	if c.last {
		report.Refused = refusedAttempts() // only a run says so
	}
	_ = e.c.Write(report)
	if c.last {
		os.Exit(0)
	}
	mountfd.CloseAll([]int{c.terminal})
}
