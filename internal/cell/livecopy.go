package cell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/carry"
	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/live"
	"github.com/forkcell/forkcell/internal/mount"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/tree"
)

// A copy's end in a live cell is the program itself, shown there read-only and
// executed like any command: as the sandbox user, under every control of the
// cell. So it reaches nothing that the cell's commands do not, by whatever links
// lie in its way; and what it says is believed as little as they are.
const (
	carrier     = "forkcell-carry"
	carrierFile = "/run/forkcell/carry"
)

// IsCarrier tells from its arguments that the program was executed in a cell as
// the end of a copy; the arguments of carry.Main follow the first.
func IsCarrier(args []string) bool { return len(args) > 0 && args[0] == carrierFile }

// showCarrier makes this program's own file appear in the cell. One that was
// removed since it was started cannot be shown, and then nothing can be copied.
func (r *run) showCarrier() {
	self, err := os.Executable()
	if err == nil {
		_, err = os.Stat(self)
	}
	if err == nil {
		r.spec.Mounts.Binds = append(r.spec.Mounts.Binds, mount.Bind{Target: carrierFile, Source: self, ReadOnly: true})
	}
}

// maxComplaint bounds what is kept of a copy's error output.
const maxComplaint = 16 << 10

func copyResult(req api.CopyRequest, in bool, t carry.Totals, notes []string) *api.CopyResult {
	r := &api.CopyResult{
		Cell: req.Cell, From: req.Cell + ":" + printable(req.Path), To: printable(req.Host),
		Files: t.Files, Dirs: t.Dirs, Links: t.Links, Bytes: t.Bytes, Notes: append([]string{}, notes...),
	}
	if in {
		r.From, r.To = r.To, r.From
	}
	for _, name := range t.Skipped {
		r.Notes = append(r.Notes, quote.Path(name)+" is not a file, directory or symbolic link: left out")
	}
	return r
}

// CopyOut copies from a cell to the host: what a live cell has now, or the head
// of one that is not live.
func (e *Engine) CopyOut(ctx context.Context, req api.CopyRequest) (*api.CopyResult, error) {
	c, err := e.findCell(req.Cell)
	if err != nil {
		return nil, err
	}
	req.Path = path.Clean(req.Path)
	base := path.Base(path.Join(c.MountAt, req.Path))
	if path.IsAbs(req.Path) {
		base = path.Base(req.Path)
	}
	if base == "/" {
		base = c.Name
	}
	dir, name, err := carry.Place(e.caller.path(req.Host), base)
	if err != nil {
		return nil, api.Usagef("", "%s: %v", quote.Path(req.Host), err)
	}
	defer dir.Close()
	if err := e.outside(e.caller.path(req.Host)); err != nil {
		return nil, err
	}
	if _, ok := e.supervisor(c); !ok {
		// What a killed supervisor's cell has written is in the head only then.
		if _, err := e.settleDead(ctx, c); err != nil {
			return nil, err
		}
		if c, err = e.findCell(req.Cell); err != nil {
			return nil, err
		}
		return e.copyState(ctx, c, req, dir, name)
	}
	client, err := e.dialLive(ctx, req.Cell)
	if err != nil {
		return nil, err
	}
	return copyLive(ctx, client, req, dir, name)
}

// outside refuses to write into the home.
func (e *Engine) outside(to string) error {
	real, err := realPath(to)
	if err != nil {
		return api.Usagef("", "%s: %v", quote.Path(to), err)
	}
	home, err := realPath(e.home)
	if err == nil && within(real, home) {
		return api.Refusef(api.CodeOverlap, "choose another directory", "%s is in the state directory", quote.Path(to))
	}
	return err
}

// half is what one side of a copy did.
type half struct {
	totals carry.Totals
	err    error
}

// copyLive lets the cell's end send, and receives.
func copyLive(ctx context.Context, client *live.Client, req api.CopyRequest, dir *fsx.Dir, name string) (*api.CopyResult, error) {
	from, to := io.Pipe()
	received := make(chan half, 1)
	lost := newOutward(false)
	go func() {
		t, err := carry.Receive(ctx, from, dir, name, func(e carry.Entry) { lost.note(path.Join(req.Path, e.Path), lost.toldEntry(e)) })
		_ = from.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // more has no place to go
		received <- half{t, err}
	}()
	complaints := &bounded{}
	cmd := live.Command{Args: []string{carrier, "send", req.Path, homePath}}
	exit, err := client.Exec(ctx, cmd, live.Streams{Out: to, Err: complaints}, live.Control{})
	_ = to.Close()
	got := <-received
	switch {
	case err != nil:
		return nil, execError(api.ExecRequest{Cell: req.Cell, Args: cmd.Args}, err)
	case exit.Code != carry.Done && !errors.Is(got.err, carry.ErrExists):
		return nil, copyError(req, exit.Code, complaints)
	case got.err != nil:
		return nil, hostError(req.Host, got.err)
	}
	return copyResult(req, false, got.totals, append(complaints.lines(), lost.notes()...)), nil
}

// toldEntry is something in a live cell as a state would have it: what belongs to
// the cell's user is the operator's, and what is root's in the cell has the id that
// the user has there.
func (o *outward) toldEntry(e carry.Entry) tree.Entry {
	out := tree.Entry{Kind: tree.KindFile, Mode: e.Mode, UID: o.self.UID, GID: o.self.GID, Xattrs: e.Xattrs}
	switch {
	case e.Type.IsDir():
		out.Kind = tree.KindDir
	case e.Type&fs.ModeSymlink != 0:
		out.Kind = tree.KindSymlink
	}
	if e.Owner != nil {
		out.UID, out.GID = e.Owner.UID, e.Owner.GID
		if out.UID == 0 {
			out.UID = e.Own.UID
		}
		if out.GID == 0 {
			out.GID = e.Own.GID
		}
	}
	return out
}

// CopyIn copies from the host into a live cell.
func (e *Engine) CopyIn(ctx context.Context, req api.CopyRequest) (*api.CopyResult, error) {
	client, err := e.dialLive(ctx, req.Cell)
	if err != nil {
		if no, ok := errors.AsType[*api.Error](err); ok && no.Code == api.CodeNotStarted {
			no.Hint += "; or copy it to the source directory and use `forkcell refresh " + req.Cell + "`"
		}
		return nil, err
	}
	abs := filepath.Clean(e.caller.path(req.Host))
	if err := e.apart("cp from", abs); err != nil {
		return nil, err
	}
	dir, name, err := carry.Source(e.caller.path(req.Host))
	if err == nil {
		defer dir.Close()
		_, err = dir.Lstat(name)
	}
	if err != nil {
		return nil, api.Usagef("", "%s: %v", quote.Path(req.Host), err)
	}
	from, to := io.Pipe()
	sent := make(chan half, 1)
	go func() {
		t, err := carry.Send(ctx, to, dir, name, nil)
		_ = to.CloseWithError(err) // without an error, this is the end of the stream
		sent <- half{t, err}
	}()
	complaints := &bounded{}
	cmd := live.Command{Args: []string{carrier, "receive", req.Path, filepath.Base(abs)}, Stdin: true}
	exit, err := client.Exec(ctx, cmd, live.Streams{In: from, Err: complaints}, live.Control{})
	_ = from.CloseWithError(io.ErrClosedPipe)
	got := <-sent
	switch {
	case err != nil:
		return nil, execError(api.ExecRequest{Cell: req.Cell, Args: cmd.Args}, err)
	case got.err != nil && !errors.Is(got.err, io.ErrClosedPipe):
		return nil, api.Failf(api.CodeCopy, got.err, "read %s", quote.Path(req.Host))
	case exit.Code != carry.Done:
		return nil, copyError(req, exit.Code, complaints)
	}
	return copyResult(req, true, got.totals, complaints.lines()), nil
}

// copyError is a failure of the end in the cell, which said why.
func copyError(req api.CopyRequest, code int, complaints *bounded) error {
	why := quote.Line(strings.Join(complaints.lines(), "; "))
	message := fmt.Sprintf("%s:%s: %s", req.Cell, quote.Path(req.Path), why)
	switch code {
	case carry.NotFound:
		return &api.Error{Kind: api.NotFound, Code: api.CodeNotFound, Message: message}
	case carry.Exists:
		return &api.Error{Kind: api.Refused, Code: api.CodeExists, Message: message, Hint: "remove it first, or choose another name"}
	}
	return &api.Error{Kind: api.Failed, Code: api.CodeCopy, Message: message}
}

func hostError(host string, err error) error {
	switch {
	case errors.Is(err, carry.ErrExists):
		return &api.Error{
			Kind: api.Refused, Code: api.CodeExists, Message: quote.Path(host) + ": " + err.Error(), Hint: "remove it first, or choose another name", Err: err,
		}
	case errors.Is(err, carry.ErrStream):
		return &api.Error{Kind: api.Failed, Code: api.CodeCopy, Message: "what came from the cell cannot be believed: " + err.Error(), Err: err}
	}
	return api.Failf(api.CodeCopy, err, "write %s", quote.Path(host))
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ buf bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.buf.Write(p[:min(len(p), maxComplaint-b.buf.Len())])
	return len(p), nil
}

func (b *bounded) lines() []string {
	text := strings.TrimSpace(b.buf.String())
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return lines
}
