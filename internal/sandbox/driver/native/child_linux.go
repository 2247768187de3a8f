package native

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// child is a cell with a copy of a template's process.
type child struct {
	*Cell
	template *template
	line     *line
	streams  *streams
	asking   chan struct{} // has a value while a question is answered
	// ended is closed when the copy has ended; outcome is set then.
	ended    chan struct{}
	outcome  driver.Outcome
	admitted bool

	closeOnce sync.Once
	closed    error
}

var _ driver.Child = (*child)(nil)

// copyControls say what is particular to a branch, for its receipt. The template's
// own filter denies the same calls, and a denial goes before a report.
const copyControls = "template-controlled: the copied process put its controls on itself, and all but Landlock were checked from outside; the template can reach into it while another copy is made; calls that it is denied are not reported"

// joinLimit bounds the time that a warm process has to make a copy.
const joinLimit = 10 * time.Second

// forkOrder orders a warm process to copy itself. Descriptors names those that come
// along.
type forkOrder struct {
	Type        string            `json:"type"`
	Number      int               `json:"number"`
	Workdir     string            `json:"workdir"`
	Env         map[string]string `json:"env"`
	Descriptors []string          `json:"descriptors"`
	// Filter is the program of the copy's filter of system calls. Listener asks for
	// the descriptor by which the kernel reports calls.
	Filter   []byte `json:"filter"`
	Listener bool   `json:"listener"`
}

// join has the warm process make a copy of itself that joins this cell.
func (c *child) join(ctx context.Context, b driver.Branch, p *hostPlan) error {
	defer mountfd.CloseAll(c.namespaces)
	defer mountfd.CloseAll(c.rules)
	filter, err := cellinit.Filter(p.Guard)
	if err != nil {
		return err
	}
	h, err := c.makeStreams(b.Stdio)
	defer h.close()
	if err != nil {
		return err
	}
	allowed := h.files()
	j, err := c.template.copy(ctx, c.line, &forkOrder{
		Type: "fork", Number: b.Number, Workdir: b.Workdir, Env: variables(b.Env), Descriptors: h.names,
		Filter: filter.Bytes(), Listener: filter.Notifies(),
	}, h)
	if err != nil {
		return err
	}
	if err := c.admit(j, allowed, p.Guard); err != nil {
		if errors.Is(err, errForeignParent) || errors.Is(err, errShares) {
			err = errors.Join(err, c.template.giveUp(ctx, err))
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	if err := c.line.say(ctx, warmMessage{Type: "go"}); err != nil {
		return err
	}
	_, err = c.line.await(ctx, "ready")
	if _, ok := errors.AsType[*refusal](err); ok {
		err = fmt.Errorf("%w: %w", driver.ErrNotReady, err)
	}
	return err
}

// handedDescriptors are the descriptors that a copy gets.
type handedDescriptors struct {
	names []string
	fds   []int
	made  []int // those of them that were made for it
}

// close closes what was made for the copy: it is the copy's only.
func (h *handedDescriptors) close() {
	mountfd.CloseAll(h.made)
	h.made = nil
}

func (h *handedDescriptors) add(name string, fd int) {
	h.names, h.fds = append(h.names, name), append(h.fds, fd)
}

// files returns those that the copy keeps descriptors of.
func (h *handedDescriptors) files() (list []fileID) {
	for _, fd := range h.made {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil { // else the copy is refused
			list = append(list, fileID{st.Dev, st.Ino})
		}
	}
	return list
}

// makeStreams makes the streams and the line of the copy.
func (c *child) makeStreams(stdio driver.Stdio) (h *handedDescriptors, err error) {
	h = &handedDescriptors{}
	for i, name := range protocol.JoinOrder() {
		h.add(name, c.namespaces[i])
	}
	for _, fd := range c.rules {
		h.add("landlock", fd)
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return h, fmt.Errorf("socketpair: %w", err)
	}
	h.made = append(h.made, ends[1])
	h.add("control", ends[1])
	if c.line, err = newLine(ends[0]); err != nil {
		return h, err
	}
	var ours []int
	for _, name := range []string{"stdout", "stderr"} {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			mountfd.CloseAll(ours)
			return h, fmt.Errorf("pipe: %w", err)
		}
		ours, h.made = append(ours, pipe[0]), append(h.made, pipe[1])
		h.add(name, pipe[1])
		// The copy may open /dev/stdout. What it cannot open it can still use.
		if c.id.Root {
			_ = unix.Fchown(pipe[1], idBase+c.id.UID, idBase+c.id.GID)
		}
	}
	c.streams = connect(ours, stdio, false)
	return h, nil
}

// variables turns an environment into a map.
func variables(env []string) map[string]string {
	out := map[string]string{}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			out[name] = value
		}
	}
	return out
}

// admit looks at a copy before it may go on, and puts it under the limits of its
// cell. The template stands still from the look until the copy goes on: it could let
// the copy run, and give it something, after that was looked for.
func (c *child) admit(j *joinedCopy, allowed []fileID, limits protocol.Guard) error {
	c.template.mu.RLock()
	defer c.template.mu.RUnlock()
	k, err := openProcess(j.pid)
	if err == nil {
		err = c.examine(k, j, allowed, limits)
	}
	if err == nil {
		err = c.release(k, j)
	}
	if err != nil {
		k.close()
		mountfd.CloseAll(j.listener)
		return err
	}
	return c.serveCalls(j.listener)
}

// examine checks a copy and limits it.
func (c *child) examine(k *knownProcess, j *joinedCopy, allowed []fileID, limits protocol.Guard) (err error) {
	check := copyCheck{child: c, pid: k.pid, filters: j.filters, allowed: allowed}
	if j.inside, err = check.run(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrNotConfined, err)
	}
	if c.limits.group != nil {
		if err := c.limits.group.Add(k.pid); err != nil {
			return err
		}
	}
	if err := limitResources(k.pid, limits); err != nil {
		return fmt.Errorf("resource limits of the copy: %w", err)
	}
	// All this was done to the number of a process that has not ended.
	if !k.isAlive() {
		return fmt.Errorf("the copy has ended: %w", unix.ESRCH)
	}
	return nil
}

// release lets a copy go on. It is the template's child as the kernel sees it, so its
// end is reported by the template's first process, and the template must not be
// stopped between the two steps: the copy would be stopped with it. The caller holds
// the template's mu.
func (c *child) release(k *knownProcess, j *joinedCopy) error {
	t := c.template
	begin := time.Now()
	c.controls.Degraded = append(c.controls.Degraded, copyControls)
	c.controls.Sockets = j.closed.String()
	err := t.register(j.inside, processCopy{k, func(status unix.WaitStatus, natural bool) {
		c.copied.Store(nil)
		k.close()
		c.streams.finish(driver.Lingering)
		c.outcome = driver.Outcome{Controls: c.controls, CommandTook: time.Since(begin), Killed: !natural}
		c.outcome.Settle(natural, false, status)
		close(c.ended)
	}})
	if err != nil {
		return err
	}
	c.admitted = true
	c.copied.Store(k)
	return k.signal(unix.SIGCONT)
}

// limitResources puts those limits of a cell on a copy that no control group holds. A
// lower limit of the template stays.
func limitResources(pid int, g protocol.Guard) error {
	for which, limit := range map[int]int64{unix.RLIMIT_NOFILE: g.OpenFiles, unix.RLIMIT_NPROC: g.Processes} {
		if limit <= 0 {
			continue
		}
		var now unix.Rlimit
		if err := unix.Prlimit(pid, which, nil, &now); err != nil {
			return err
		}
		now.Max = min(now.Max, uint64(limit))
		now.Cur = now.Max
		if err := unix.Prlimit(pid, which, &now, nil); err != nil {
			return err
		}
	}
	return nil
}

// Ask implements driver.Child.
func (c *child) Ask(ctx context.Context, question []byte) ([]byte, error) {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// The line stays usable: the answer is read, also if its caller has given up.
	patient := context.WithoutCancel(ctx)
	if err := c.line.write(patient, question); err != nil {
		return nil, fmt.Errorf("ask the copied process: %w", err)
	}
	answered, interrupted := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		c.interrupt(answered)
	})
	s, err := c.line.hear(patient)
	close(answered)
	if !stop() {
		<-interrupted // a signal must not come to the next question
	}
	if err != nil {
		return nil, fmt.Errorf("answer of the copied process: %w", err)
	}
	mountfd.CloseAll(s.fds)
	return s.raw, nil
}

// interruptInterval is the time between interrupts of code that goes on.
const interruptInterval = time.Second

// interrupt interrupts code until it has ended. One signal is not enough: a process that
// has not begun with the code ignores it.
func (c *child) interrupt(answered <-chan struct{}) {
	again := time.NewTicker(interruptInterval)
	defer again.Stop()
	for {
		if k := c.copied.Load(); k != nil {
			_ = k.signal(unix.SIGINT) // one that has ended needs none
		}
		select {
		case <-answered:
			return
		case <-again.C:
		}
	}
}

// CopyEnded implements driver.Child.
func (c *child) CopyEnded() <-chan struct{} { return c.ended }

// CopyOutcome implements driver.Child.
func (c *child) CopyOutcome() driver.Outcome {
	<-c.ended
	return c.outcome
}

// Close ends the branch.
func (c *child) Close() error {
	c.closeOnce.Do(func() { c.closed = c.close() })
	return c.closed
}

func (c *child) close() error {
	err := c.Cell.Close()
	if c.line != nil {
		c.line.close()
	}
	switch {
	case c.admitted:
		<-c.ended
	case c.streams != nil:
		c.streams.finish(driver.Lingering)
	}
	return errors.Join(err, c.template.branchEnded())
}
