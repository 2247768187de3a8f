package execwire

import (
	"errors"
	"io"
	"math"
	"sync"
)

// Unlimited is the window of a caller whose host does not say what was read.
const Unlimited = -1

// Caller is the end of a stream that uses the command. Its methods may be called at the
// same time, but for Follow, which is called once.
type Caller struct {
	// Started, if set, is called with a frame that says that the command runs.
	Started func(Frame) error

	conn Conn
	done chan struct{} // closed when Follow has returned

	mu     sync.Mutex
	grown  *sync.Cond
	window int
	over   bool
}

// NewCaller returns the end of a caller that may send so many bytes of input before the
// host allows more.
func NewCaller(conn Conn, window int) *Caller {
	c := &Caller{conn: conn, window: window, done: make(chan struct{})}
	c.grown = sync.NewCond(&c.mu)
	return c
}

// Write sends input. It waits while the command does not read, and fails with
// io.ErrClosedPipe when the command has ended.
func (c *Caller) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := c.reserve(min(len(p), MaxData))
		if part == 0 {
			return n, io.ErrClosedPipe
		}
		if err := c.conn.Send(Frame{Kind: Stdin, Data: p[:part]}); err != nil {
			return n, err
		}
		n, p = n+part, p[part:]
	}
	return n, nil
}

// reserve waits for the window to open and takes up to n bytes of it; 0 means that the
// stream has ended.
func (c *Caller) reserve(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.window == 0 && !c.over {
		c.grown.Wait()
	}
	switch {
	case c.over:
		return 0
	case c.window == Unlimited:
		return n
	}
	n = min(n, c.window)
	c.window -= n
	return n
}

// grant adds to the window.
func (c *Caller) grant(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.window == Unlimited || n < 0 {
		return
	}
	c.window += min(n, math.MaxInt-c.window)
	c.grown.Broadcast()
}

func (c *Caller) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.grown.Broadcast()
	close(c.done)
}

// Feed sends input until it ends, which it tells the host. An input that fails counts as
// ended, but for ErrDetached, which is returned: the caller leaves. A failure to send is
// not: Follow gets it too, after an exit that may have come before.
func (c *Caller) Feed(in io.Reader) error {
	buf := make([]byte, MaxData)
	for {
		n, err := in.Read(buf)
		if _, lost := c.Write(buf[:n]); lost != nil {
			return nil
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrDetached):
			return err
		default:
			_ = c.conn.Send(Frame{Kind: StdinEnd})
			return nil
		}
	}
}

// Control sends a frame for each value of two channels, which may be nil, until the stream
// has ended.
func Control[A, B any](c *Caller, first <-chan A, frame func(A) Frame, second <-chan B, other func(B) Frame) {
	for {
		var f Frame
		select {
		case <-c.done:
			return
		case v, ok := <-first:
			if !ok {
				first = nil
				continue
			}
			f = frame(v)
		case v, ok := <-second:
			if !ok {
				second = nil
				continue
			}
			f = other(v)
		}
		_ = c.conn.Send(f) // Follow finds out
	}
}

// Follow passes what the command prints to output until the last frame, which it returns, or until the
// connection ends. An error of output ends it too.
func (c *Caller) Follow(output func(stderr bool, p []byte) error) (Frame, error) {
	defer c.end()
	for {
		f, err := c.conn.Receive()
		if err != nil {
			return Frame{}, err
		}
		switch f.Kind {
		case Stdout, Stderr:
			err = output(f.Kind == Stderr, f.Data)
		case Window:
			c.grant(f.Bytes)
		case Started:
			if c.Started != nil {
				err = c.Started(f)
			}
		case Exit, Result, Error:
			return f, nil
		case Unknown:
		default:
			err = misplaced(f.Kind)
		}
		if err != nil {
			return Frame{}, err
		}
	}
}

// Print returns a function for Follow that writes to both writers; nil discards. If one
// fails, the host closes the stream, so that the command gets a broken pipe.
func (c *Caller) Print(out, errs io.Writer) func(stderr bool, p []byte) error {
	writers := [2]io.Writer{out, errs}
	return func(stderr bool, p []byte) error {
		w := &writers[0]
		if stderr {
			w = &writers[1]
		}
		if *w == nil || len(p) == 0 {
			return nil
		}
		if _, err := (*w).Write(p); err != nil {
			*w = nil
			_ = c.conn.Send(Frame{Kind: OutputEnd, Stderr: stderr}) // Follow finds out
		}
		return nil
	}
}
