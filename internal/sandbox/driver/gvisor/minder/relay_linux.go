package minder

import (
	"encoding/binary"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/frames"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
)

// relay stands between the host and the executor: it hands on orders and reports, and
// keeps the streams that the executor makes for commands. A guest without its host has
// no use, so every failure of the connection ends it.
type relay struct {
	host     *frames.Conn
	executor *protocol.Conn
	held     bool // nothing is said to the host; for the goroutine that reads frames

	mu       sync.Mutex
	commands map[uint32]*command
}

// command has the streams of a command that was started.
type command struct {
	senders  [frames.Streams]*frames.Sender
	outputs  [frames.Streams]*os.File
	input    *frames.Receiver
	terminal *os.File
}

// readReports hands on what the executor says.
func (r *relay) readReports() {
	for {
		var report protocol.Report
		fds, err := r.executor.Read(&report)
		if err != nil {
			fail(err)
		}
		var start func()
		if report.Kind == protocol.Started {
			start = r.connect(uint32(report.Exec), fds)
		} else {
			mountfd.CloseAll(fds)
		}
		r.send(frames.Frame{Kind: frames.Report, Data: protocol.Encode(&report)})
		if start != nil {
			start() // the host knows of the command before of its output
		}
	}
}

func (r *relay) send(f frames.Frame) {
	if err := r.host.Write(f); err != nil {
		fail(err)
	}
}

// connect takes over the descriptors of a command's streams, as the executor sends
// them: a terminal, or output, errors, and input if there is any.
func (r *relay) connect(id uint32, fds []int) (start func()) {
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		// One that stays blocking costs a thread.
		_ = unix.SetNonblock(fd, true)
		files[i] = os.NewFile(uintptr(fd), "stream")
	}
	c := &command{}
	var output sync.WaitGroup
	var copies []func()
	out := func(stream byte, file *os.File) {
		s := frames.NewSender(r.host, id, stream)
		c.senders[stream], c.outputs[stream] = s, file
		from := mountfd.Output(file)
		if file == c.terminal {
			from = terminal.Output(from)
		}
		copies = append(copies, func() { s.Copy(from) })
	}
	switch len(files) {
	case 1:
		c.terminal, c.input = files[0], frames.NewReceiver(r.host, id, frames.In)
		out(frames.Out, files[0])
	case 2, 3:
		out(frames.Out, files[0])
		out(frames.Err, files[1])
		if len(files) == 3 {
			c.input = frames.NewReceiver(r.host, id, frames.In)
		}
	}
	r.mu.Lock()
	r.commands[id] = c
	r.mu.Unlock()
	return func() {
		for i, copyOut := range copies {
			output.Go(func() {
				copyOut()
				if c.terminal == nil {
					_ = files[i].Close() // a command that writes on meets a broken pipe
				}
			})
		}
		go c.feed(files)
		go func() {
			output.Wait()
			r.remove(id, c)
		}()
	}
}

// feed writes a command's input.
func (c *command) feed(files []*os.File) {
	switch {
	case c.terminal != nil:
		terminal.Feed(c.terminal, func(w io.Writer) { _ = c.input.Copy(w) })
	case c.input != nil:
		_ = c.input.Copy(files[2]) // a command may leave its input unread
		_ = files[2].Close()
	}
}

// remove drops the streams of a command when all of its output was sent.
func (r *relay) remove(id uint32, c *command) {
	r.mu.Lock()
	delete(r.commands, id)
	r.mu.Unlock()
	if c.input != nil {
		c.input.End()
	}
	if c.terminal != nil {
		_ = c.terminal.Close()
	}
}

// readFrames does what the host says.
func (r *relay) readFrames() {
	for {
		f, err := r.host.Read()
		if err != nil || r.do(f) != nil {
			os.Exit(0) // the host is gone, or ends the guest
		}
	}
}

func (r *relay) do(f frames.Frame) error {
	switch {
	case f.Kind == frames.Order:
		var o protocol.Order
		if err := protocol.Decode(f.Data, &o); err != nil {
			return err
		}
		return r.executor.Write(&o)
	case f.Kind == frames.KillAll:
		_ = unix.Kill(-1, unix.SIGKILL) // none may be left
		return nil
	case f.Kind == frames.List:
		go r.send(frames.Frame{Kind: frames.List, ID: f.ID, Data: protocol.Encode(processes())})
		return nil
	case f.Kind == frames.Hold:
		r.held = true
		return r.host.WriteAndHold(frames.Frame{Kind: frames.Hold, ID: f.ID})
	case (f.Kind == frames.Release || f.Kind == frames.Renew) && r.held:
		if f.Kind == frames.Renew {
			r.renew()
		}
		r.held = false
		return r.host.Resume(frames.Frame{})
	case f.Kind == frames.Terminate:
		n, err := frames.ReadNumber(f.Data)
		if err == nil {
			go r.send(frames.Frame{Kind: frames.Terminate, ID: f.ID, Data: terminate(n)})
		}
		return err
	}
	return r.stream(f)
}

// renew lets the output of commands go on which the host of a saved guest had no room for.
func (r *relay) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.commands {
		for _, s := range c.senders {
			if s != nil {
				s.Renew()
			}
		}
	}
}

// stream does what is said about a stream. One of a command that has ended is not
// there any more.
func (r *relay) stream(f frames.Frame) error {
	r.mu.Lock()
	c := r.commands[f.ID]
	r.mu.Unlock()
	if c == nil {
		return nil
	}
	sender := c.senders[f.Stream]
	switch {
	case f.Kind == frames.Data && c.input != nil:
		return c.input.Put(f.Data)
	case f.Kind == frames.End && c.input != nil:
		c.input.End()
	case f.Kind == frames.Taken && sender != nil:
		n, err := frames.ReadNumber(f.Data)
		if err != nil {
			return err
		}
		return sender.Taken(n)
	case f.Kind == frames.Stop && sender != nil:
		sender.Stop()
	case f.Kind == frames.Rest && sender != nil:
		_ = c.outputs[f.Stream].SetReadDeadline(time.Unix(1, 0)) // one that has ended needs none
	case f.Kind == frames.Resize && c.terminal != nil && len(f.Data) == 4:
		c.resize(binary.LittleEndian.Uint16(f.Data), binary.LittleEndian.Uint16(f.Data[2:]))
	}
	return nil
}

func (c *command) resize(rows, cols uint16) {
	raw, err := c.terminal.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		// The terminal of a command that has ended has no size to change.
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}
