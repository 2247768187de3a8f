package gvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/frames"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// Cell is a cell with a guest.
type Cell struct {
	outer    driver.Cell // holds the runtime
	plan     *plan
	controls driver.Controls

	conn *frames.Conn
	// input and output are the driver's ends of the guest's standard streams.
	input  *io.PipeWriter
	output *io.PipeReader
	said   limitedText // by the runtime, on its standard error
	// built gets the guest's first report. ended is closed when the runtime has
	// ended, and done when nothing is read from it any more.
	built       chan protocol.Report
	ended, done chan struct{}

	saving    sync.Mutex // one at a time
	leftover  error      // why what was saved is still in the cell; saving guards it
	mu        sync.Mutex
	suspended bool  // and the connection is held
	lost      error // why nothing can be said to the guest any more
	lastID    uint32
	commands  map[uint32]*execution
	asked     map[uint32]chan []byte
	pause     pause
	drops     droppedOutput
}

var _ driver.Cell = (*Cell)(nil)

// newCell starts the runtime in a native cell.
func newCell(outer driver.Cell, p *plan) *Cell {
	stdin, input := io.Pipe()
	output, stdout := io.Pipe()
	c := &Cell{
		outer: outer, plan: p, controls: p.controls(outer.Controls()),
		conn: frames.New(output, input, frames.MaxToHost), input: input, output: output,
		said: limitedText{connect: p.connect}, built: make(chan protocol.Report, 1), ended: make(chan struct{}), done: make(chan struct{}),
		commands: map[uint32]*execution{}, asked: map[uint32]chan []byte{},
	}
	go func() {
		defer close(c.ended)
		// The runtime ends with the guest, or with the cell around it, and says on
		// its standard error why there is no guest.
		out, err := outer.Exec(context.Background(), p.runtime, driver.Stdio{In: stdin, Out: stdout, Err: &c.said})
		if err == nil {
			err = fmt.Errorf("exit code %d", out.Code)
		}
		c.said.end(err)
		_ = stdin.CloseWithError(driver.ErrEnded)
		_ = stdout.Close()
	}()
	go c.listen()
	return c
}

// boot greets the guest and waits for its answer.
func (c *Cell) boot(ctx context.Context) error {
	// A runtime that ends instead has said why.
	_ = c.conn.Write(frames.Frame{Kind: frames.Hello, Data: protocol.Encode(&c.plan.guest)})
	select {
	case r := <-c.built:
		if r.Kind != protocol.Built {
			return r.Err()
		}
		return nil
	case <-c.ended:
		return c.startError()
	case <-ctx.Done():
		return fault.At("start", ctx.Err())
	}
}

// listen does what the guest says, until it is gone.
func (c *Cell) listen() {
	defer close(c.done)
	for {
		f, err := c.conn.Read()
		if err == nil {
			err = c.heard(f)
		}
		if err != nil {
			c.failPending(err)
			if !errors.Is(err, io.EOF) {
				_ = c.outer.Close() // what does not keep the protocol is not to be trusted
			}
			return
		}
	}
}

func (c *Cell) heard(f frames.Frame) error {
	switch {
	case f.Kind == frames.Report:
		var r protocol.Report
		if err := protocol.Decode(f.Data, &r); err != nil {
			return err
		}
		return c.dispatchReport(r)
	case f.Kind == frames.List || f.Kind == frames.Terminate || f.Kind == frames.Hold:
		c.mu.Lock()
		answer := c.asked[f.ID]
		delete(c.asked, f.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- f.Data
		}
		return nil
	}
	c.mu.Lock()
	e := c.commands[f.ID]
	c.mu.Unlock()
	if e == nil {
		return c.handleUnattended(f)
	}
	return e.stream(f)
}

// dispatchReport passes a report to the command that it is about.
func (c *Cell) dispatchReport(r protocol.Report) error {
	if r.Exec == 0 {
		select {
		case c.built <- r:
			return nil
		default:
			return frames.ErrMalformed
		}
	}
	c.mu.Lock()
	e := c.commands[uint32(r.Exec)]
	c.mu.Unlock()
	if e == nil {
		return nil
	}
	select {
	case e.reports <- r:
		return nil
	default:
		return frames.ErrMalformed
	}
}

// failPending ends what waits for a guest that is gone.
func (c *Cell) failPending(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = err
	for _, e := range c.commands {
		e.lose()
	}
	clear(c.commands)
	for _, answer := range c.asked {
		close(answer)
	}
	clear(c.asked)
}

// Controls implements driver.Cell.
func (c *Cell) Controls() driver.Controls { return c.controls }

// Exec implements driver.Cell.
func (c *Cell) Exec(ctx context.Context, cmd driver.Command, stdio driver.Stdio) (driver.Outcome, error) {
	if err := cmd.Check(); err != nil {
		return driver.Outcome{}, err
	}
	e, err := c.order(cmd, stdio, false)
	if err != nil {
		return driver.Outcome{}, err
	}
	if err := e.awaitStarted(ctx); err != nil {
		return driver.Outcome{}, err
	}
	out := driver.Outcome{Controls: c.controls}
	e.serve(ctx, &out)
	return out, nil
}

// Processes implements driver.Cell. They have no number on the host.
func (c *Cell) Processes() ([]driver.Process, error) {
	data, err := c.ask(context.Background(), frames.List, nil, answerTime)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var seen protocol.GuestProcesses
	if err := protocol.Decode(data, &seen); err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	now := time.Now()
	list := make([]driver.Process, len(seen.List))
	for i, p := range seen.List {
		list[i] = driver.Process{
			PID: p.PID, PPID: p.PPID, SID: p.SID, UID: p.UID, State: p.State,
			Started: now.Add(-p.Age), CPU: p.CPU, RSS: p.RSS, Args: protocol.Strings(p.Args),
		}
	}
	return list, nil
}

// Terminate implements driver.Cell. It does not wait for a guest that is being saved: who
// stops a cell need not.
func (c *Cell) Terminate(limit time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+answerTime)
	defer cancel()
	data, err := c.ask(ctx, frames.Terminate, frames.Number(uint32(limit.Milliseconds())), limit+answerTime)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errSilent
	}
	if err != nil {
		return false, fmt.Errorf("terminate: %w", err)
	}
	return bytes.Equal(data, []byte{1}), nil
}

// Usage implements driver.Cell: the runtime's own share is counted, too.
func (c *Cell) Usage() driver.Usage { return c.outer.Usage() }

// countRefused counts what the guest has sent to where nothing is.
func (c *Cell) countRefused() int64 {
	if outer, ok := c.outer.(interface{ Refused() int64 }); ok {
		return outer.Refused()
	}
	return 0
}

// Freeze implements driver.Cell.
func (c *Cell) Freeze(ctx context.Context) error { return c.outer.Freeze(ctx) }

// Thaw implements driver.Cell.
func (c *Cell) Thaw() error { return c.outer.Thaw() }

// Gone implements driver.Cell. A guest that was killed leaves the cell around it, in which
// nothing else runs for long.
func (c *Cell) Gone() <-chan struct{} { return c.done }

// Close implements driver.Cell.
func (c *Cell) Close() error {
	err := c.outer.Close()
	<-c.ended
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.suspended {
		c.suspended = false
		_ = c.conn.Resume(frames.Frame{}) // who wants to say something learns that the guest is gone
	}
	return err
}

// startError is why the runtime has ended before the guest could be used.
func (c *Cell) startError() error {
	cause := fault.CauseCell
	if c.outer.Usage().OOMKills > 0 {
		cause = fault.CauseMemory
	}
	return fault.Wrap("gvisor", cause, c.said.err())
}
