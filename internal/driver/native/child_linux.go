package native

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/driver/native/protocol"
)

// child is a cell with a copy of a template's process.
type child struct {
	*Cell
	template *template
	line     *line
	streams  *streams
	asking   sync.Mutex
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
const copyControls = "template-controlled: the copied process put its controls on itself, and all but Landlock were checked from outside; calls that it is denied are not reported"

// joinLimit bounds the time that a warm process has to make a copy.
const joinLimit = 10 * time.Second

// forkOrder tells a warm process to copy itself. Descriptors names those that come
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
	h, err := c.hand(b.Stdio)
	defer h.close()
	if err != nil {
		return err
	}
	allowed := h.inodes()
	j, err := c.template.copy(ctx, c.line, &forkOrder{
		Type: "fork", Number: b.Number, Workdir: b.Workdir, Env: variables(b.Env), Descriptors: h.names,
		Filter: filter.Bytes(), Listener: filter.Notifies(),
	}, h)
	if err != nil {
		return err
	}
	if err := c.admit(j, allowed); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	if err := c.line.say(said{Type: "go"}); err != nil {
		return err
	}
	_, err = c.line.await(ctx, "ready")
	return err
}

// handed are the descriptors that a copy gets.
type handed struct {
	names []string
	fds   []int
	made  []int // those of them that were made for it
}

// close closes what was made for the copy: it is the copy's only.
func (h *handed) close() {
	mountfd.CloseAll(h.made)
	h.made = nil
}

func (h *handed) add(name string, fd int) {
	h.names, h.fds = append(h.names, name), append(h.fds, fd)
}

// inodes returns those of the descriptors that the copy keeps.
func (h *handed) inodes() (list []uint64) {
	for _, fd := range h.made {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil { // else the copy is refused
			list = append(list, st.Ino)
		}
	}
	return list
}

// hand makes the streams and the line of the copy.
func (c *child) hand(stdio driver.Stdio) (h *handed, err error) {
	h = &handed{}
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
// cell. The copy is the template's child as the kernel sees it, so its end is told by
// the template's first process.
func (c *child) admit(j *joined, allowed []uint64) error {
	check := copyCheck{child: c, pid: j.pid, filters: j.filters, allowed: allowed}
	inside, err := check.run()
	if err != nil {
		err = fmt.Errorf("the copy is not confined: %w", err)
	}
	if err == nil && c.limits.group != nil {
		err = c.limits.group.Add(j.pid)
	}
	if err == nil {
		err = unix.Kill(j.pid, unix.SIGCONT) // it was stopped with the template
	}
	if err != nil {
		mountfd.CloseAll(j.listener)
		return err
	}
	c.copied, c.admitted = j.pid, true
	c.controls.Degraded = append(c.controls.Degraded, copyControls)
	begin := time.Now()
	c.template.admitted(inside, j.pid, func(status unix.WaitStatus, natural bool) {
		c.streams.finish(lingering)
		c.outcome = driver.Outcome{Controls: c.controls, CommandTook: time.Since(begin), Killed: !natural}
		settle(&c.outcome, natural, false, status)
		close(c.ended)
	})
	return c.serveCalls(j.listener)
}

// Ask implements driver.Child.
func (c *child) Ask(ctx context.Context, question []byte) ([]byte, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	text := protocol.Text(question)
	if err := c.line.conn.Write(&text); err != nil {
		return nil, fmt.Errorf("ask the copied process: %w", err)
	}
	s, err := c.line.hear(ctx)
	if err != nil {
		return nil, fmt.Errorf("answer of the copied process: %w", err)
	}
	mountfd.CloseAll(s.fds)
	return s.raw, nil
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
		c.streams.finish(lingering)
	}
	return errors.Join(err, c.template.left())
}
