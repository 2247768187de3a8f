package wire

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

// Control holds a client's actions on a session besides reading and writing.
// The zero value does nothing.
type Control struct {
	// Resize changes the terminal's size; the last change applies.
	Resize <-chan api.WindowSize
	// Signals are sent to the command's process group.
	Signals <-chan int
	// Keyboard says whether the input of Attach reaches the command.
	Keyboard api.Keyboard
	// Started is called before any output is written, with the session at that
	// time.
	Started func(Session)
}

// Exec starts a command and waits until it ends. If ctx ends, the client leaves
// at once, which also ends the command unless it is detachable.
func (c *Client) Exec(ctx context.Context, cmd Command, streams Streams, ctl Control) (Exit, error) {
	w := newCommand(cmd)
	if _, err := w.command(); err != nil {
		return Exit{}, err
	}
	if !cmd.Stdin {
		streams.In = nil
	}
	return c.join(ctx, &request{Exec: w}, streams, ctl)
}

// Attach joins the session of a command, or returns how it ended. It begins
// with the last output of the command. size becomes the terminal's, unless it
// is zero.
func (c *Client) Attach(ctx context.Context, id string, size api.WindowSize, streams Streams, ctl Control) (Exit, error) {
	return c.join(ctx, &request{Attach: &attachRequest{Session: id, Size: size, Keyboard: ctl.Keyboard}}, streams, ctl)
}

func (c *Client) join(ctx context.Context, r *request, streams Streams, ctl Control) (Exit, error) {
	l, err := c.open(ctx, r)
	if err != nil {
		return Exit{}, err
	}
	defer l.close()
	payload, err := l.answer(execwire.Started)
	if err != nil {
		return Exit{}, lostError(ctx, err)
	}
	var st startAnswer
	if err := decode(payload, &st); err != nil {
		return Exit{}, err
	}
	if ctl.Started != nil {
		ctl.Started(st.Session.session())
	}
	v := &visit{line: l, window: st.Window, done: make(chan struct{})}
	v.grown = sync.NewCond(&v.mu)
	defer v.end()
	if streams.In != nil {
		go v.sendInput(streams.In)
	}
	if ctl.Resize != nil || ctl.Signals != nil {
		go v.sendControl(ctl)
	}
	exit, err := v.receive(streams)
	if err != nil && v.left() {
		return Exit{}, ErrDetached
	}
	return exit, lostError(ctx, err)
}

// visit is the attachment of one client to a session.
type visit struct {
	line *line
	done chan struct{}
	send sync.Mutex // frames are written whole

	mu       sync.Mutex
	grown    *sync.Cond
	window   int
	over     bool
	detached bool
}

// end stops the goroutines that send.
func (v *visit) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	v.grown.Broadcast()
	close(v.done)
}

func (v *visit) left() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.detached
}

// detachTimeout is the time limit for a server to notice that a client leaves.
const detachTimeout = 2 * time.Second

// detach leaves the session. It closes the client's side of the connection, and
// waits until the server has removed the client and closes its own side. So a
// list of sessions that is requested next no longer counts the client.
func (v *visit) detach() {
	v.mu.Lock()
	v.detached = true
	v.mu.Unlock()
	// If these fail, the connection is already gone.
	_ = v.line.conn.CloseWrite()
	_ = v.line.conn.SetReadDeadline(time.Now().Add(detachTimeout))
}

// write sends a frame. It ignores a failure: the reader gets it too, after an
// exit that may have come before.
func (v *visit) write(frame []byte) {
	v.send.Lock()
	defer v.send.Unlock()
	_, _ = v.line.conn.Write(frame)
}

// sendInput copies input as fast as the command reads it.
func (v *visit) sendInput(in io.Reader) {
	buf := make([]byte, execwire.MaxData)
	var frame []byte
	for {
		n, err := in.Read(buf)
		for p := buf[:n]; len(p) > 0; {
			part := v.reserve(len(p))
			if part == 0 {
				return
			}
			frame = appendFrame(frame[:0], execwire.Stdin, p[:part])
			v.write(frame)
			p = p[part:]
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrDetached):
			v.detach()
			return
		default:
			// An input that fails counts as ended.
			v.write(appendFrame(nil, execwire.StdinEnd, nil))
			return
		}
	}
}

// reserve waits for the window to open and takes up to n bytes of it; 0 means
// that the visit has ended.
func (v *visit) reserve(n int) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.window == 0 && !v.over {
		v.grown.Wait()
	}
	if v.over {
		return 0
	}
	n = min(n, v.window)
	v.window -= n
	return n
}

func (v *visit) grant(n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.window += n
	v.grown.Broadcast()
}

func (v *visit) sendControl(ctl Control) {
	for {
		select {
		case <-v.done:
			return
		case size, ok := <-ctl.Resize:
			if !ok {
				ctl.Resize = nil
				continue
			}
			v.write(message(nil, execwire.Resize, size))
		case signal, ok := <-ctl.Signals:
			if !ok {
				ctl.Signals = nil
				continue
			}
			v.write(message(nil, execwire.Signal, signalMessage{Signal: signal}))
		}
	}
}

// receive writes output until the exit arrives.
func (v *visit) receive(streams Streams) (Exit, error) {
	out, err := streams.Out, streams.Err
	for {
		k, payload, readErr := v.line.in.next()
		if readErr != nil {
			return Exit{}, readErr
		}
		switch k {
		case execwire.Stdout:
			out = v.print(out, payload, false)
		case execwire.Stderr:
			err = v.print(err, payload, true)
		case execwire.Window:
			var m windowMessage
			if err := decode(payload, &m); err != nil {
				return Exit{}, err
			}
			v.grant(m.Bytes)
		case execwire.Exit:
			var e Exit
			err := decode(payload, &e)
			return e, err
		case execwire.Error:
			return Exit{}, failure(payload)
		default:
			return Exit{}, protocolError("a frame of type %d inside a session", k)
		}
	}
}

// print writes output. If the writer fails it returns nil and closes the stream
// at the server, so that the command gets a broken pipe.
func (v *visit) print(w io.Writer, p []byte, stderr bool) io.Writer {
	if w == nil {
		return nil
	}
	if _, err := w.Write(p); err != nil {
		v.write(message(nil, execwire.OutputEnd, outputEndMessage{Stderr: stderr}))
		return nil
	}
	return w
}
