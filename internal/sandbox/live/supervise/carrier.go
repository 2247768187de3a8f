package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/sandbox/incell/forward"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// A copy's end in a live cell is the program itself, shown there read-only and
// executed like any command: as the sandbox user, under every control of the cell. So
// it reaches nothing that the cell's commands do not, by whatever links lie in its
// way; and its output is trusted as little as theirs.
const carrier = "forkcell-carry"

// CarrierFile is where the program appears in a live cell.
const CarrierFile = "/run/forkcell/carry"

// IsCarrier reports whether a program with these arguments was executed in a cell as
// the end of a copy or of a forwarded port.
func IsCarrier(args []string) bool { return len(args) > 0 && args[0] == CarrierFile }

// ErrNoListener is the error when nothing listens on a port of a cell.
var ErrNoListener = errors.New("nothing listens on the port")

// CopyOut lets the cell's end send a path of the cell. receive reads the stream; its
// error is returned as it is. home is the home directory in the cell. The warnings are
// lines of the cell's end.
func (c *Client) CopyOut(ctx context.Context, path, home string, receive func(io.Reader) error) (warnings []string, err error) {
	from, to := io.Pipe()
	received := make(chan error, 1)
	go func() {
		err := receive(from)
		_ = from.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // no more is read
		received <- err
	}()
	complaints := &boundedBuffer{}
	cmd := wire.Command{Args: []string{carrier, "send", path, home}}
	exit, err := c.line.Exec(ctx, cmd, wire.Streams{Out: to, Err: complaints}, wire.Control{})
	_ = to.Close()
	receiveErr := <-received
	switch {
	case err != nil:
		return nil, execError(c.cell, cmd.Args, err)
	case exit.Code != carry.Done && !errors.Is(receiveErr, carry.ErrExists):
		return nil, c.copyError(path, exit.Code, complaints)
	}
	return complaints.lines(), receiveErr
}

// CopyIn lets the cell's end receive under a path of the cell, with a name if the
// path is a directory. send writes the stream; its error is returned as it is.
func (c *Client) CopyIn(ctx context.Context, path, name string, send func(io.Writer) error) (warnings []string, err error) {
	from, to := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := send(to)
		_ = to.CloseWithError(err) // without an error, this is the end of the stream
		sent <- err
	}()
	complaints := &boundedBuffer{}
	cmd := wire.Command{Args: []string{carrier, "receive", path, name}, Stdin: true}
	exit, err := c.line.Exec(ctx, cmd, wire.Streams{In: from, Err: complaints}, wire.Control{})
	_ = from.CloseWithError(io.ErrClosedPipe)
	sendErr := <-sent
	switch {
	case err != nil:
		return nil, execError(c.cell, cmd.Args, err)
	case sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe):
		return nil, sendErr
	case exit.Code != carry.Done:
		return nil, c.copyError(path, exit.Code, complaints)
	}
	return complaints.lines(), nil
}

// complaint returns the reason that the end in the cell printed, with the path that was
// asked for. It has the path as the system calls got it: that is not said again.
func (c *Client) complaint(path string, complaints *boundedBuffer) string {
	why := strings.Join(complaints.lines(), "; ")
	_, rest, _ := strings.Cut(why, " ") // after the name of the call
	for _, p := range []string{path, "./" + path} {
		if cause, ok := strings.CutPrefix(rest, p+": "); ok {
			why = cause
		}
	}
	return fmt.Sprintf("%s:%s: %s", c.cell, quote.Path(path), quote.Line(why))
}

// copyError returns the failure of the end in the cell, which printed the reason.
func (c *Client) copyError(path string, code int, complaints *boundedBuffer) error {
	message := c.complaint(path, complaints)
	switch code {
	case carry.NotFound:
		return &api.Error{Kind: api.NotFound, Code: api.CodeNotFound, Message: message}
	case carry.Exists:
		return &api.Error{Kind: api.Refused, Code: api.CodeExists, Message: message, Hint: "remove it first, or choose another name"}
	}
	return &api.Error{Kind: api.Failed, Code: api.CodeCopy, Message: message}
}

// Forward returns a function that connects one stream with a port on the cell's
// loopback, until the listener closes it. The cell's end is a command in the cell, as
// that of a copy is, so it passes the same controls; each connection is an event of
// the run.
func (c *Client) Forward(ctx context.Context, port int) (join func(context.Context, io.ReadWriter) error, err error) {
	state, err := c.State(ctx)
	switch {
	case err != nil:
		return nil, err
	case state.Template:
		return nil, api.TemplateError(c.cell)
	}
	cmd := wire.Command{Args: []string{carrier, forward.Verb, strconv.Itoa(port)}, Stdin: true}
	return func(ctx context.Context, conn io.ReadWriter) error {
		complaints := &boundedBuffer{}
		exit, err := c.line.Exec(ctx, cmd, wire.Streams{In: conn, Out: conn, Err: complaints}, wire.Control{})
		switch {
		case err != nil:
			return execError(c.cell, cmd.Args, err)
		case exit.Code == forward.NoListen:
			return ErrNoListener
		case exit.Code != forward.Done && !exit.Killed:
			return api.Failf(api.CodeForward, errors.New(quote.Line(strings.Join(complaints.lines(), "; "))), "port %d of %s", port, c.cell)
		}
		return nil
	}, nil
}

// forwarded returns the port that a command of a live cell connects the host with,
// or 0.
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

// maxErrorOutput bounds what is kept of the error output of the cell's end.
const maxErrorOutput = 16 << 10

// boundedBuffer keeps the beginning of what is written to it.
type boundedBuffer struct{ buf bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.buf.Write(p[:min(len(p), maxErrorOutput-b.buf.Len())])
	return len(p), nil
}

func (b *boundedBuffer) lines() []string {
	text := strings.TrimSpace(b.buf.String())
	if text == "" {
		return nil
	}
	return texts(strings.Split(text, "\n"))
}
