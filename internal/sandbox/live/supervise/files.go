package supervise

import (
	"context"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/incell/files"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

// Files lets the program in the cell carry out an operation on files: see the package
// files for its arguments, what it reads and what it writes. in may be nil.
func (c *Client) Files(ctx context.Context, in io.Reader, out io.Writer, operation string, args ...string) error {
	complaints := &boundedBuffer{}
	cmd := wire.Command{Args: append([]string{carrier, files.Verb, operation}, args...), Stdin: in != nil}
	exit, err := c.line.Exec(ctx, cmd, wire.Streams{In: in, Out: out, Err: complaints}, wire.Control{})
	switch {
	case err != nil:
		return execError(c.cell, cmd.Args, err)
	case exit.Code != files.Done:
		return c.filesError(args[0], exit.Code, complaints)
	}
	return nil
}

// filesError returns the failure of the program in the cell, which printed the
// reason.
func (c *Client) filesError(path string, code int, complaints *boundedBuffer) error {
	e := &api.Error{Kind: api.Refused, Code: api.CodeCopy, Message: c.complaint(path, complaints)}
	switch code {
	case files.NotFound:
		e.Kind, e.Code = api.NotFound, api.CodeNotFound
	case files.Exists:
		e.Code, e.Hint = api.CodeExists, "remove it first, or choose another name"
	case files.NotFile:
		e.Code = api.CodeNotFile
	case files.TooMany:
		e.Code, e.Hint = api.CodeTooLarge, "ask for a part of it"
	case files.Full:
		e.Kind, e.Code = api.Failed, api.CodeDiskFull
	}
	return e
}
