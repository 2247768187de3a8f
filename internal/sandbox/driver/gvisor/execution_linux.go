package gvisor

import (
	"context"
	"encoding/binary"
	"io"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/frames"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// execution is a command that was ordered.
type execution struct {
	cell    *Cell
	id      uint32
	command driver.Command
	stdio   driver.Stdio
	last    bool // the cell ends with it
	ordered time.Time
	sent    chan error // gets how sending the order went
	// reports gets what the guest says about the command. It is closed when the guest
	// is gone.
	reports chan protocol.Report
	output  [2]*frames.Receiver // standard output, and errors unless there is a terminal
	input   *frames.Sender
	copied  sync.WaitGroup
}

// order asks the guest for a command and does not wait. A guest that does not read holds
// the goroutine that asks until the cell ends.
func (c *Cell) order(cmd driver.Command, stdio driver.Stdio, last bool) (*execution, error) {
	e := &execution{
		cell: c, command: cmd, stdio: stdio, last: last, ordered: time.Now(),
		sent: make(chan error, 1), reports: make(chan protocol.Report, 2),
	}
	c.mu.Lock()
	if c.lost != nil {
		c.mu.Unlock()
		return nil, fault.At("gvisor", driver.ErrEnded)
	}
	c.lastID++
	e.id = c.lastID
	e.output[0] = frames.NewReceiver(c.conn, e.id, frames.Out)
	if !cmd.TTY {
		e.output[1] = frames.NewReceiver(c.conn, e.id, frames.Err)
	}
	e.input = frames.NewSender(c.conn, e.id, frames.In)
	c.commands[e.id] = e
	c.mu.Unlock()
	order := &protocol.Order{Exec: &protocol.ExecOrder{
		ID: int(e.id), Args: protocol.Bytes(cmd.Args), Env: protocol.Bytes(cmd.Env), Workdir: []byte(cmd.Workdir),
		TTY: cmd.TTY, Rows: cmd.Size.Rows, Cols: cmd.Size.Cols, Stdin: stdio.In != nil,
	}}
	go func() { e.sent <- c.say(order) }()
	return e, nil
}

func (c *Cell) say(o *protocol.Order) error {
	return c.conn.Write(frames.Frame{Kind: frames.Order, Data: protocol.Encode(o)})
}

// remove takes the command off the list: what the guest still says about it is ignored.
func (e *execution) remove() {
	e.cell.mu.Lock()
	defer e.cell.mu.Unlock()
	delete(e.cell.commands, e.id)
}

// lose ends the command's streams and reports: the guest is gone.
func (e *execution) lose() {
	e.eachOutput((*frames.Receiver).End)
	e.input.Stop()
	close(e.reports)
}

// stream does what the guest says about a stream.
func (e *execution) stream(f frames.Frame) error {
	var receiver *frames.Receiver
	if f.Stream < frames.In {
		receiver = e.output[f.Stream]
	}
	switch {
	case f.Kind == frames.Data && receiver != nil:
		return receiver.Put(f.Data)
	case f.Kind == frames.End && receiver != nil:
		receiver.End()
		return nil
	case f.Kind == frames.Taken && f.Stream == frames.In:
		n, err := frames.ReadNumber(f.Data)
		if err != nil {
			return err
		}
		return e.input.Taken(n)
	case f.Kind == frames.Stop && f.Stream == frames.In:
		e.input.Stop()
		return nil
	}
	return frames.ErrMalformed
}

// awaitStarted waits until the command has been executed, at most for a time.
func (e *execution) awaitStarted(ctx context.Context) error {
	late := time.NewTimer(answerTime)
	defer late.Stop()
	for {
		select {
		case err := <-e.sent:
			if err != nil {
				e.remove()
				return fault.At("send command", err)
			}
		case r, ok := <-e.reports:
			return e.handleStart(ctx, r, ok)
		case <-ctx.Done():
			go e.abandon()
			return fault.At("start", ctx.Err())
		case <-late.C:
			if more := e.cell.moreTime(answerTime); more > 0 {
				late.Reset(more)
				continue
			}
			go e.abandon()
			return fault.At("start", errSilent)
		}
	}
}

// handleStart handles the first report about the command.
func (e *execution) handleStart(ctx context.Context, r protocol.Report, ok bool) error {
	switch {
	case ctx.Err() != nil && e.last:
		e.remove()
		return fault.At("start", ctx.Err())
	case !ok:
		return fault.At("gvisor", driver.ErrEnded)
	case r.Kind != protocol.Started:
		e.remove()
		return r.Err()
	}
	if e.command.Executed != nil {
		e.command.Executed(r.PID)
	}
	return nil
}

// abandon ends a command whose caller has given up, should the guest start it after
// all.
func (e *execution) abandon() {
	e.eachOutput((*frames.Receiver).End)
	for r := range e.reports {
		if r.Kind != protocol.Started {
			break
		}
		e.signal(unix.SIGKILL)
		e.tellOutputs(frames.Stop)
	}
	e.remove()
}

// kill ends the command: with the whole cell, or only its process group. When the channel
// is ready, nothing more is expected from the guest.
func (e *execution) kill() <-chan time.Time {
	if e.last {
		_ = e.cell.outer.Close() // closing the cell returns the error
		return nil
	}
	go e.signal(unix.SIGKILL)
	return time.After(answerTime)
}

func (e *execution) signal(sig unix.Signal) {
	// A cell that is gone needs no signal.
	_ = e.cell.say(&protocol.Order{Signal: int(sig), To: int(e.id)})
}

// serve serves the command while it runs, and fills in its outcome.
func (e *execution) serve(ctx context.Context, out *driver.Outcome) {
	begin := time.Now()
	e.connect()
	var limit <-chan time.Time
	if e.command.Timeout > 0 {
		t := time.NewTimer(e.command.Timeout)
		defer t.Stop()
		limit = t.C
	}
	ended := make(chan struct{})
	defer close(ended)
	go e.forward(ended)
	cancelled := ctx.Done()
	var silent <-chan time.Time // the guest does not say that a killed command has ended
	for {
		select {
		case <-limit:
			out.TimedOut, limit = true, nil
			silent = e.kill()
		case <-cancelled:
			out.Killed, cancelled = true, nil
			silent = e.kill()
		case <-silent:
			out.CommandTook = time.Since(begin)
			e.finish()
			out.Settle(false, e.last, 0)
			return
		case r, natural := <-e.reports:
			out.CommandTook = time.Since(begin)
			if natural {
				out.CommandTook = r.CommandTook(time.Since(e.ordered))
			}
			e.finish()
			out.Settle(natural, e.last, unix.WaitStatus(r.Status))
			return
		}
	}
}

// forward hands signals and sizes of the terminal to the guest, until the command has
// ended. A guest that does not read holds it, and those that follow wait with the caller.
func (e *execution) forward(ended <-chan struct{}) {
	signals, resize := e.stdio.Signals, e.stdio.Resize
	for {
		select {
		case <-ended:
			return
		case sig, open := <-signals:
			if !open {
				signals = nil
			} else if no, ok := sig.(syscall.Signal); ok {
				e.signal(no)
			}
		case size, open := <-resize:
			if !open {
				resize = nil
			} else {
				e.resize(size)
			}
		}
	}
}

// connect starts copying between the caller and the guest.
func (e *execution) connect() {
	writers := []io.Writer{e.stdio.Out, e.stdio.Err}
	for i, r := range e.output {
		if r == nil {
			continue
		}
		to := writers[i]
		if to == nil {
			to = io.Discard
		}
		if e.command.TTY {
			to = &persistent{to: to}
		}
		e.copied.Go(func() { _ = r.Copy(to) }) // a writer that fails has told its owner
	}
	switch {
	case e.stdio.In != nil:
		go e.input.Copy(e.stdio.In)
	case e.command.TTY:
		go e.input.Copy(eof{})
	}
}

// eof is an input without contents.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// persistent takes everything, also when its writer has failed: the output of a
// terminal is read in any case.
type persistent struct {
	to     io.Writer
	failed bool
}

func (p *persistent) Write(b []byte) (int, error) {
	if !p.failed {
		_, err := p.to.Write(b)
		p.failed = err != nil
	}
	return len(b), nil
}

func (e *execution) resize(size driver.WindowSize) {
	data := binary.LittleEndian.AppendUint16(nil, size.Rows)
	data = binary.LittleEndian.AppendUint16(data, size.Cols)
	// The terminal of a cell that has ended has no size to change.
	_ = e.cell.conn.Write(frames.Frame{Kind: frames.Resize, ID: e.id, Data: data})
}

// restBytes is more than a guest can still have of a stream when it has been asked for
// the rest of it.
const restBytes = frames.Window + mountfd.MostHeld

// finish waits until everything that the command has written is copied. With the last
// command the guest's other processes are ended, so that there is an end to it;
// otherwise, after a time, the guest is asked for what the streams hold.
func (e *execution) finish() {
	e.input.Stop()
	done := make(chan struct{})
	go func() { e.copied.Wait(); close(done) }()
	if e.last {
		go func() { _ = e.cell.conn.Write(frames.Frame{Kind: frames.KillAll}) }()
	} else {
		t := time.NewTimer(driver.Lingering)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
			go e.tellOutputs(frames.Rest) // processes that write on meet a broken pipe then
		}
	}
	e.rest(done)
	e.remove()
}

// rest waits for what the streams hold: as long as the caller takes, but not as long as
// the guest likes, which may not answer, not read, or send without end.
func (e *execution) rest(done <-chan struct{}) {
	again := time.NewTicker(answerTime / 2)
	defer again.Stop()
	for ended := false; ; {
		select {
		case <-done:
			return
		case <-again.C:
		}
		if e.cell.moreTime(answerTime) <= 0 { // it is not being saved
			e.eachOutput(func(r *frames.Receiver) { r.GiveUp(answerTime) })
		}
		switch {
		case e.isBehind():
			e.eachOutput(func(r *frames.Receiver) { r.Limit(restBytes) })
		case ended:
			return // only the guest is waited for: it does not read
		default:
			e.eachOutput((*frames.Receiver).End)
			go e.tellOutputs(frames.Stop)
			ended = true
		}
	}
}

// eachOutput does something with each stream of output.
func (e *execution) eachOutput(do func(*frames.Receiver)) {
	for _, r := range e.output {
		if r != nil {
			do(r)
		}
	}
}

// isBehind reports whether there is output that the caller has not read.
func (e *execution) isBehind() (behind bool) {
	e.eachOutput(func(r *frames.Receiver) { behind = behind || r.Buffered() > 0 })
	return behind
}

// tellOutputs says something about each stream of output.
func (e *execution) tellOutputs(k frames.Kind) {
	for i, r := range e.output {
		if r != nil {
			// A guest that is gone has ended its streams.
			_ = e.cell.conn.Write(frames.Frame{Kind: k, ID: e.id, Stream: byte(i)})
		}
	}
}
