package wire

import (
	"context"
	"sync/atomic"
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
	caller := execwire.NewCaller(l, st.Window)
	var left atomic.Bool
	if streams.In != nil {
		go func() {
			if caller.Feed(streams.In) != nil {
				left.Store(true)
				l.leave()
			}
		}()
	}
	if ctl.Resize != nil || ctl.Signals != nil {
		go execwire.Control(caller, ctl.Resize, sizeFrame, ctl.Signals, signalFrame)
	}
	last, err := caller.Follow(caller.Print(streams.Out, streams.Err))
	var exit Exit
	switch {
	case err != nil:
	case last.Kind == execwire.Exit:
		err = decode(last.Data, &exit)
	case last.Kind == execwire.Error:
		err = failure(last.Data)
	default:
		err = protocolError("a frame of type %d inside a session", last.Kind)
	}
	if err != nil && left.Load() {
		return Exit{}, ErrDetached
	}
	return exit, lostError(ctx, err)
}

func sizeFrame(size api.WindowSize) execwire.Frame {
	return execwire.Frame{Kind: execwire.Resize, Size: size}
}

func signalFrame(n int) execwire.Frame {
	return execwire.Frame{Kind: execwire.Signal, Signal: signalName(n)}
}

// detachTimeout is the time limit for a server to notice that a client leaves.
const detachTimeout = 2 * time.Second

// leave leaves a session. It closes the client's side of the connection, and waits until
// the server has removed the client and closes its own side. So a list of sessions that is
// requested next no longer counts the client.
func (l *line) leave() {
	// If these fail, the connection is already gone.
	_ = l.CloseWrite()
	_ = l.SetReadDeadline(time.Now().Add(detachTimeout))
}
