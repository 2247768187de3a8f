package native

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// Cell is a cell that exists: its first process runs, and commands may.
type Cell struct {
	*process
	id        protocol.Identity
	mountAPI  string
	degraded  []string // by the mounts that the parent made
	controls  driver.Controls
	limits    *limitedGroup
	examined  []driver.Check
	denied    func(driver.Denial)
	telling   sync.Mutex      // is held while denied is called
	serve     *driver.Network // nil: the cell has no network
	network   *network
	attempts  *driver.Attempts // nil if attempts are not recorded
	questions *questions
	borrow    func(pid int) error
	stepTimes func([]protocol.StepTime)
	// namespaces and rules, those of Landlock, are for a process that joins the
	// cell.
	namespaces, rules []int
	// copied is the copy of a template's process in the cell, while it has not ended.
	copied atomic.Pointer[knownProcess]
	// helper is a template's spawner, or nil.
	helper *knownProcess
	// copies are those of a template's process that have not ended, by their number
	// in the template.
	copies map[int]processCopy
	// warmSocket gets the connection to a command with Command.Warm.
	warmSocket chan int
	// signals, if it is set, sends the signals of commands.
	signals func(*execution, unix.Signal)
	// packages is called for package managers, and asked passes the reports about them; both
	// are nil without.
	packages *driver.Packages
	asked    chan protocol.Report

	// built gets the answer to the plan; it is closed when the init is gone.
	built chan answer

	closing sync.Once
	left    error // what could not be removed
	ended   func()

	mu       sync.Mutex
	dead     bool
	lastID   int
	commands map[int]*execution
}

// begin starts the first process and sends it its plan.
func (n *Driver) begin(ctx context.Context, s driver.Spec) (_ *Cell, err error) {
	p, err := newPlan(s)
	if err != nil {
		return nil, err
	}
	if proc := n.pool.takeReady(); proc != nil {
		return n.beginWith(ctx, s, p, func() (*process, error) { return proc, nil }, n.prepareHere)
	}
	return n.beginPlan(ctx, s, p, n.firstProcess)
}

// beginPlan sends the plan to the first process that first starts.
func (n *Driver) beginPlan(ctx context.Context, s driver.Spec, p *hostPlan, first func() (*process, error)) (_ *Cell, err error) {
	// To make a group waits while a process is moved into another one. The first
	// process makes what every cell has meanwhile.
	return n.beginWith(ctx, s, p, startAhead(first), n.prepare)
}

// beginWith sends the plan to the first process that starting waits for, and the mounts
// that prepare makes.
func (n *Driver) beginWith(ctx context.Context, s driver.Spec, p *hostPlan, starting func() (*process, error), prepare func(*hostPlan) func() (*attachedMounts, error)) (_ *Cell, err error) {
	p.Legacy, p.Without, p.StepTimes = n.opt.ForceLegacyMounts, n.opt.without, n.opt.stepTimes != nil
	limits, err := n.limit(&s)
	if err != nil {
		if proc, failed := starting(); failed == nil {
			proc.destroy()
			n.pool.refill()
		}
		return nil, fault.At("limits", err)
	}
	p.Guard.Processes, p.Guard.Limited = limits.processes, s.Limits.PIDs > 0
	if n.opt.Runtime {
		guardRuntime(&p.Guard)
	}
	prepared := prepare(p)
	proc, err := starting()
	if err != nil {
		if mounts, failed := prepared(); failed == nil {
			mounts.close()
		}
		return nil, errors.Join(err, limits.unlimit())
	}
	defer func() {
		if err != nil {
			proc.destroy()
			n.pool.refill()
			err = errors.Join(err, limits.unlimit())
		}
	}()
	var refused error
	if s.Started != nil {
		record, err := newRecord(proc.pid)
		if err == nil {
			err = s.Started(record)
		}
		refused = fault.At("record start", err)
	}
	if refused == nil {
		refused = proc.sendPlan(ctx, p, limits)
	}
	mounts, err := prepared()
	if err != nil {
		return nil, errors.Join(refused, err)
	}
	defer proc.spent.Go(mounts.close)
	if refused != nil {
		return nil, refused
	}
	if p.Follow {
		// An init that has failed meanwhile reports why: see awaitBuilt.
		if err := proc.conn.Write(&mounts.numbers, mounts.fds...); err != nil && !errors.Is(err, unix.EPIPE) {
			return nil, fault.At("send mounts", err)
		}
	}
	c := &Cell{
		process: proc, id: p.ID, mountAPI: mounts.mountAPI, degraded: mounts.degraded,
		built: make(chan answer, 1), commands: map[int]*execution{}, limits: limits, denied: s.Guard.Denied, stepTimes: n.opt.stepTimes, serve: s.Network, attempts: attemptsOf(&s, p), borrow: n.probes().Borrow,
		ended: n.pool.refillSoon, warmSocket: make(chan int, 1),
	}
	limits.watch(s.Limits.Hit)
	c.serveAsked(s.Packages)
	proc.spent.Go(c.listen)
	return c, nil
}

// startAhead starts a first process, and returns a function that waits for it.
func startAhead(first func() (*process, error)) func() (*process, error) {
	var proc *process
	done := make(chan error, 1)
	go func() {
		p, err := first()
		proc = p
		done <- err
	}()
	return func() (*process, error) {
		err := <-done
		return proc, err
	}
}

// sendPlan puts the process under its limits and sends it the plan.
func (p *process) sendPlan(ctx context.Context, plan *hostPlan, limits *limitedGroup) error {
	if err := ctx.Err(); err != nil {
		return fault.At("start", err)
	}
	if limits.group != nil {
		if err := limits.group.Add(p.pid); err != nil {
			return fault.At("limits", err)
		}
	}
	var files []int
	if plan.Capture {
		fd, err := plan.pack()
		if err != nil {
			return fault.At("files", err)
		}
		defer unix.Close(fd)
		plan.FilesFD, files = 1, []int{fd}
	}
	return fault.At("send plan", p.conn.Write(&plan.Plan, files...))
}

// listen hands the init's reports to whom they are about, until it is gone.
func (c *Cell) listen() {
	for {
		var r protocol.Report
		fds, err := c.conn.Read(&r)
		if err != nil {
			c.failPending(err)
			return
		}
		if c.passedOn(&r, fds) {
			continue
		}
		if r.Exec == 0 {
			c.built <- answer{Report: r, fds: fds}
			continue
		}
		c.mu.Lock()
		e := c.commands[r.Exec]
		if r.Kind != protocol.Started {
			delete(c.commands, r.Exec)
		}
		c.mu.Unlock()
		if e == nil {
			mountfd.CloseAll(fds)
			continue
		}
		e.reports <- answer{Report: r, fds: fds}
	}
}

// passedOn reports whether a report is about no command of the parent. It is then dealt
// with.
func (c *Cell) passedOn(r *protocol.Report, fds []int) bool {
	switch r.Kind {
	case protocol.Reaped:
		c.reportReaped(r.PID, unix.WaitStatus(r.Status))
	case protocol.Asked, protocol.Ended:
		mountfd.CloseAll(fds)
		c.hearAsked(r)
	default:
		return false
	}
	return true
}

// failPending ends pending commands when the init disconnects.
func (c *Cell) failPending(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	close(c.built)
	if c.asked != nil {
		close(c.asked)
	}
	for _, e := range c.commands {
		e.lost = err
		close(e.reports)
	}
	clear(c.commands)
	for _, k := range c.copies {
		go k.ended(0, false)
	}
	clear(c.copies)
}

// awaitBuilt waits for the answer to the plan.
func (c *Cell) awaitBuilt(ctx context.Context) error {
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	r, ok := <-c.built
	switch {
	case ctx.Err() != nil:
		mountfd.CloseAll(r.fds)
		return fault.At("start", ctx.Err())
	case !ok:
		return c.diedError()
	case r.Kind != protocol.Built:
		mountfd.CloseAll(r.fds)
		return r.Err()
	}
	if c.stepTimes != nil {
		c.stepTimes(r.StepTimes)
	}
	heard, sockets := splitLast(r.fds, r.Captured)
	if r.Rules {
		heard, c.rules = splitLast(heard, 1)
	}
	if r.Join {
		heard, c.namespaces = splitLast(heard, len(protocol.JoinOrder()))
	}
	if err := c.serveNetwork(sockets, len(heard) > 0); err != nil {
		mountfd.CloseAll(heard)
		return fault.Wrap("network", fault.CauseNetwork, err)
	}
	if err := c.serveCalls(heard); err != nil {
		return fault.At("seccomp", err)
	}
	if r.MountAPI != "" {
		c.mountAPI = r.MountAPI
	}
	for _, f := range r.Examined {
		c.examined = append(c.examined, examined(f))
	}
	r.Degraded = slices.Concat(r.Degraded, c.degraded, c.limits.degraded)
	c.controls = controls(c.id, c.mountAPI, c.limits.summary, r.Report)
	if c.packages != nil {
		c.controls.Capabilities += packageCapabilities
	}
	if c.serve != nil {
		c.controls.Network = describeNetwork
		if c.serve.Socket != "" {
			c.controls.Network += "; the host answers at the socket " + c.serve.Socket
		}
	}
	return nil
}

// diedError is the error of a cell whose first process is gone. It needs threads, which
// a limit of processes may refuse to it.
func (c *Cell) diedError() error {
	cause := fault.CauseCell
	if c.limits.processes > 0 || c.limits.usage().PIDsHits > 0 {
		cause = fault.CauseProcesses
	}
	return fault.Wrap("init", cause, errors.New("the cell's first process died"))
}

// Controls returns what holds the cell's commands.
func (c *Cell) Controls() driver.Controls { return c.controls }

// PID is the cell's first process, on the host.
func (c *Cell) PID() int { return c.pid }

// Gone is closed when no process of the cell exists any more.
func (c *Cell) Gone() <-chan struct{} { return c.gone }

// Close kills whatever runs in the cell and returns when nothing of it is left.
func (c *Cell) Close() error {
	c.closing.Do(func() {
		c.destroy()
		c.network.close()
		c.questions.close()
		c.left = c.limits.unlimit()
		c.ended()
	})
	return c.left
}

// Exec executes one command and returns when it has ended. An error means that
// it was not executed. Cancelling ctx, or the command's time-out, kills its
// process group; the cell lives on.
func (c *Cell) Exec(ctx context.Context, cmd driver.Command, stdio driver.Stdio) (driver.Outcome, error) {
	e, err := c.begin(ctx, cmd, stdio)
	if err != nil {
		return driver.Outcome{}, err
	}
	out := driver.Outcome{Controls: c.controls}
	e.serve(ctx, stdio, &out)
	return out, nil
}

// begin executes a command, which is then to be attended.
func (c *Cell) begin(ctx context.Context, cmd driver.Command, stdio driver.Stdio) (*execution, error) {
	e, err := c.order(cmd, stdio.In != nil, false)
	if err != nil {
		return nil, err
	}
	return e, e.awaitStarted(ctx)
}

// answer is a report with the descriptors that came with it.
type answer struct {
	protocol.Report
	fds []int
}

// order asks the init for a command and does not wait.
func (c *Cell) order(cmd driver.Command, stdin, last bool) (*execution, error) {
	o, err := newOrder(&cmd, stdin)
	if err != nil {
		return nil, err
	}
	o.Last = last
	e := &execution{cell: c, command: cmd, last: last, ordered: time.Now(), reports: make(chan answer, 2)}
	return e, c.send(e, func(id int) *protocol.Order {
		o.ID = id
		return &protocol.Order{Exec: o}
	})
}

// send gives an order its number and sends it. Its reports go to e.
func (c *Cell) send(e *execution, order func(id int) *protocol.Order) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return fault.At("init", driver.ErrEnded)
	}
	c.lastID++
	e.id = c.lastID
	if err := c.conn.Write(order(e.id)); err != nil {
		return fault.At("send command", err)
	}
	c.commands[e.id] = e
	return nil
}

// Open implements driver.Opener. The first process opens the file, which is no more
// to be trusted than the cell's commands: the descriptor can be one of anything that
// they can open.
func (c *Cell) Open(path string) (*os.File, error) {
	e := &execution{cell: c, reports: make(chan answer, 2)}
	err := c.send(e, func(id int) *protocol.Order {
		return &protocol.Order{Open: &protocol.OpenOrder{ID: id, Path: []byte(path)}}
	})
	if err != nil {
		return nil, err
	}
	a, ok := <-e.reports
	switch {
	case !ok:
		return nil, c.diedError()
	case a.Kind != protocol.Opened || len(a.fds) != 1:
		mountfd.CloseAll(a.fds)
		return nil, a.Err()
	}
	return os.NewFile(uintptr(a.fds[0]), path), nil
}

// splitLast takes the last n of the descriptors apart.
func splitLast(fds []int, n int) (rest, last []int) {
	n = min(max(n, 0), len(fds))
	return fds[:len(fds)-n], fds[len(fds)-n:]
}
