package cell

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/forward"
	"github.com/forkcell/forkcell/internal/live"
	"github.com/forkcell/forkcell/internal/quote"
)

// ErrNoListener says that nothing listens on a port of a cell.
var ErrNoListener = errors.New("nothing listens on the port")

// Forward finds a live cell and returns a function that connects one stream with
// a port on the cell's loopback, until the listener closes it. The cell's end is
// a command in the cell, as that of a copy is, so it passes the same controls;
// each connection is an event of the run.
func (e *Engine) Forward(ctx context.Context, cell string, port int) (join func(context.Context, io.ReadWriter) error, err error) {
	client, err := e.dialLive(ctx, cell)
	if err != nil {
		return nil, err
	}
	if _, err := client.Processes(ctx); err != nil { // it must answer
		return nil, fromLive(cell, err)
	}
	cmd := live.Command{Args: []string{carrier, forward.Verb, strconv.Itoa(port)}, Stdin: true}
	return func(ctx context.Context, conn io.ReadWriter) error {
		complaints := &bounded{}
		exit, err := client.Exec(ctx, cmd, live.Streams{In: conn, Out: conn, Err: complaints}, live.Control{})
		switch {
		case err != nil:
			return execError(api.ExecRequest{Cell: cell, Args: cmd.Args}, err)
		case exit.Code == forward.NoListen:
			return ErrNoListener
		case exit.Code != forward.Done && !exit.Killed:
			return api.Failf(api.CodeForward, errors.New(quote.Line(strings.Join(complaints.lines(), "; "))), "port %d of %s", port, cell)
		}
		return nil
	}, nil
}

// forwarded returns the port that a command of a live cell connects the host
// with, or 0.
func forwarded(args []string) int {
	if len(args) != 3 || !slices.Equal(args[:2], []string{carrier, forward.Verb}) {
		return 0
	}
	port, err := strconv.ParseUint(args[2], 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

// noteForward writes the begin or the end of a forwarded connection down.
func (l *liveCell) noteForward(x *execution, step event.NetworkStep) {
	if port := forwarded(x.process.Args); port != 0 {
		subject := event.Subject{Process: x.process, Message: x.id + ": a connection of the host was forwarded to the cell"}
		l.r.happened(event.Network(subject, step, event.Connection{IP: "127.0.0.1", Port: port, Inbound: true}))
	}
}
