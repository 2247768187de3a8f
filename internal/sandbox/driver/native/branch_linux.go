package native

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// template is a cell that can be branched.
//
// The kernel gives the user who made a user namespace all rights over it, and a
// process may join only what it has rights over. So the template's own user owns the
// namespaces of its branches. That is why the template is stopped but for the moments
// in which it makes a copy, and why no branch that still sees the host's files exists
// in such a moment.
type template struct {
	*Cell
	driver  *Driver
	spawner *spawner

	warming sync.Mutex // one caller waits for the warm process
	// mu is held for reading while the cell of a branch is built, and for writing
	// while the template runs.
	mu sync.RWMutex
	// warm is the process that is copied; nil before it is warm, and after it was lost.
	warm *warmProcess
	// still are the threads of its processes, all of which stand still. Copies that
	// were not admitted yet are among them.
	still []task
	// ready are first processes of branches to come.
	ready readyProcesses
	// orders are the copies that wait for the template to run.
	orders orderQueue
	// lost is why the template cannot be copied any more. None of its commands is left.
	lost error
	// frozen means that Freeze holds mu.
	frozen atomic.Bool

	// state are mounts of the cell's own.
	state [][]byte
	life  life
}

// warmProcess is the process that is copied.
type warmProcess struct {
	*line
	*knownProcess
	filters int // of system calls
}

var _ driver.Template = (*template)(nil)

// templateControls say what a template lacks, for its receipt.
const templateControls = "template: without Landlock, with the call setns, and denied calls are not reported; its branches have every control"

// startTemplate makes a cell that can be branched.
func (n *Driver) startTemplate(ctx context.Context, s driver.Spec) (*template, error) {
	p, err := newPlan(s)
	if err == nil {
		err = listsChildren()
	}
	if err == nil {
		err = n.comparesProcesses()
	}
	if err != nil {
		return nil, err
	}
	t := &template{driver: n, life: life{ended: make(chan struct{})}}
	t.ready.start, t.ready.changed = t.startReady, t.ready.mounts.haveChanged
	// They would count for the template's limits.
	t.ready.closed = s.Limits.PIDs > 0 || s.Limits.Memory > 0
	for _, o := range s.Mounts.Overlays {
		t.state = append(t.state, []byte(o.Target))
	}
	t.Cell, err = n.beginPlan(ctx, s, p, func() (proc *process, err error) {
		proc, t.spawner, err = n.startWithSpawner()
		return proc, err
	})
	if err != nil {
		return nil, err
	}
	t.helper, t.signals = t.spawner.self, t.signalCommand
	go func() {
		<-t.gone
		t.life.end()
	}()
	if err := t.awaitBuilt(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.controls.Degraded = append(t.controls.Degraded, templateControls)
	return t, nil
}

// AwaitWarm implements driver.Template.
func (t *template) AwaitWarm(ctx context.Context) error {
	t.warming.Lock()
	defer t.warming.Unlock()
	t.mu.RLock()
	held, lost := t.isHeld(), t.lost
	t.mu.RUnlock()
	if held {
		return notWarm(lost)
	}
	w, err := t.findWarm(ctx)
	if err != nil {
		return notWarm(err)
	}
	if err := t.becomeWarm(ctx, w); err != nil {
		w.close()
		return notWarm(err)
	}
	t.ready.open()
	return nil
}

// becomeWarm stops the template, whose warm process can be copied from now on.
func (t *template) becomeWarm(ctx context.Context, w *warmProcess) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.hold(ctx); err != nil {
		return err
	}
	t.warm = w
	return nil
}

// UncopiedProcesses implements driver.Template.
func (t *template) UncopiedProcesses() ([]driver.Process, error) {
	t.mu.RLock()
	w := t.warm
	t.mu.RUnlock()
	list, err := t.Processes()
	if err != nil || w == nil {
		return nil, err
	}
	parents, needed := map[int]int{}, map[int]bool{}
	warm := 0
	for _, p := range list {
		parents[p.PID] = p.PPID
		if p.HostPID == w.pid {
			warm = p.PID
		}
	}
	for at := warm; at != 0 && !needed[at]; at = parents[at] {
		needed[at] = true
	}
	return slices.DeleteFunc(list, func(p driver.Process) bool { return p.PID == 1 || needed[p.PID] }), nil
}

// isHeld reports whether the template was warm once: no command may run in it since
// then. The caller holds mu.
func (t *template) isHeld() bool { return t.warm != nil || t.lost != nil }

// notWarm returns why a template is not warm, or nil if there is no reason.
func notWarm(why error) error {
	if why == nil {
		return nil
	}
	return errors.Join(driver.ErrNotWarm, why)
}

// endWarm ends the connection to the warm process. The caller holds mu.
func (t *template) endWarm(why error) {
	if t.warm != nil {
		t.warm.close()
	}
	t.warm, t.lost = nil, why
	t.ready.close()
}

// lose ends the commands of a template that cannot be copied any more, or may not
// stand still: it owns the namespaces of its branches. The caller holds mu.
func (t *template) lose(ctx context.Context, why error) error {
	t.endWarm(why)
	err := t.killCommands(context.WithoutCancel(ctx))
	if err != nil && !errors.Is(err, errEnded) {
		t.kill() // and with it the branches, which were open to what is left
		return err
	}
	return nil
}

// giveUp is lose for a caller who does not hold mu.
func (t *template) giveUp(ctx context.Context, why error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lose(ctx, why)
}

// findWarm waits for the warm process.
func (t *template) findWarm(ctx context.Context) (*warmProcess, error) {
	var l *line
	var err error
	select {
	case fd := <-t.warmSocket:
		l, err = newLine(fd)
	case <-ctx.Done():
		err = ctx.Err()
	case <-t.gone:
		err = errEnded
	}
	if err != nil {
		return nil, err
	}
	w := &warmProcess{line: l}
	s, err := l.await(ctx, "warm")
	if err == nil {
		mountfd.CloseAll(s.fds)
		w.knownProcess, err = openProcess(s.sender)
	}
	if err == nil {
		w.filters, err = filtersOf(w.pid)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

var errEnded = errors.New("the template has ended")

func (w *warmProcess) close() {
	w.line.close()
	w.knownProcess.close()
}

// moveInterval is the time between moves that keep a lock of the kernel quick.
const moveInterval = 2 * time.Millisecond

// Expect implements driver.Template. The first process that is moved into a control
// group, and the first group that is made, wait until every processor has done
// something else. Those that follow within some milliseconds do not. So a process that
// is in its group is moved there again and again, until the branches are made.
func (t *template) Expect() (made func()) {
	t.ready.expect()
	group := t.limits.group
	if group == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		again := time.NewTicker(moveInterval)
		defer again.Stop()
		for t.isAlive() && group.Touch(t.pid) == nil {
			select {
			case <-done:
				return
			case <-again.C:
			}
		}
	}()
	return func() { close(done) }
}

// Branch implements driver.Template.
func (t *template) Branch(ctx context.Context, b driver.Branch) (driver.Child, error) {
	t.ready.begin()
	defer t.ready.finish()
	c, p, err := t.newChild(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := c.join(ctx, b, p); err != nil {
		return nil, errors.Join(fault.At("branch", err), c.Close())
	}
	return c, nil
}

// newChild makes a branch without its copy.
func (t *template) newChild(ctx context.Context, b driver.Branch) (*child, *hostPlan, error) {
	if b.AsRoot {
		return nil, nil, &driver.UnenforceableError{
			Control: "--as-root", Reason: "the process of a branch is the template's user", Remedy: "leave it out, or start a cell of its own",
		}
	}
	p, err := newPlan(b.Spec)
	if err != nil {
		return nil, nil, err
	}
	p.Guard.Join = true
	if err := t.life.begin(); err != nil {
		return nil, nil, fault.At("branch", err)
	}
	c := &child{template: t, ended: make(chan struct{}), asking: make(chan struct{}, 1)}
	if c.Cell, err = t.build(ctx, b.Spec, p); err != nil {
		return nil, nil, errors.Join(err, t.branchEnded())
	}
	return c, p, nil
}

// branchEnded is called when a branch has ended.
func (t *template) branchEnded() error {
	if t.life.finish() {
		return t.destroyAll()
	}
	return nil
}

// build makes the cell of a branch, in which no command runs yet.
func (t *template) build(ctx context.Context, s driver.Spec, p *hostPlan) (*Cell, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.warm == nil {
		return nil, errors.Join(driver.ErrNotWarm, t.lost)
	}
	cell, err := t.driver.beginPlan(ctx, s, p, t.firstOfBranch)
	if err != nil {
		return nil, err
	}
	err = cell.awaitBuilt(ctx)
	if err == nil && len(cell.namespaces) != len(protocol.JoinOrder()) {
		err = fault.At("branch", fmt.Errorf("the init sent %d namespaces", len(cell.namespaces)))
	}
	if err != nil {
		return nil, errors.Join(err, cell.Close())
	}
	return cell, nil
}

// processCopy is a copy of a template's process.
type processCopy struct {
	*knownProcess
	ended func(status unix.WaitStatus, natural bool)
}

// register makes a copy one that does not stop with the template, and whose end the
// template's first process reports. inside is its number in the template.
func (c *Cell) register(inside int, k processCopy) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return errEnded
	}
	// The end of one that was reaped has been reported already. That of another one
	// is reported when the lock is free.
	if err := k.signal(0); err != nil {
		return fmt.Errorf("the copy has ended: %w", err)
	}
	if c.copies == nil {
		c.copies = map[int]processCopy{}
	}
	c.copies[inside] = k
	return nil
}

// reportReaped says that a process without a parent has ended.
func (c *Cell) reportReaped(inside int, status unix.WaitStatus) {
	c.mu.Lock()
	k, ok := c.copies[inside]
	delete(c.copies, inside)
	c.mu.Unlock()
	if ok {
		go k.ended(status, true)
	}
}

// isCopy reports whether a process on the host is a registered copy.
func (c *Cell) isCopy(pid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.copies {
		if k.is(pid) {
			return true
		}
	}
	return false
}

// filtersOf counts the filters of system calls that a process has; 0 on a kernel that
// does not tell.
func filtersOf(pid int) (int, error) {
	data, err := readProc(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(line, "Seccomp_filters:"); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, nil
}
