package transfer

import (
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
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func copyResult(req api.CopyRequest, in bool, t carry.Totals, notes []string) *api.CopyResult {
	r := &api.CopyResult{
		Cell: req.Cell, From: req.Cell + ":" + quote.UTF8(req.Path), To: quote.UTF8(req.Host),
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

// Received says what of a copy stream was written.
type Received struct {
	carry.Totals
	// Notes has a sentence for each attribute that was dropped.
	Notes      []string
	LeftBehind []api.PathNote
}

func copiedOut(req api.CopyRequest, t Received) *api.CopyResult {
	r := copyResult(req, false, t.Totals, t.Notes)
	r.LeftBehind = t.LeftBehind
	return r
}

// CopyOut copies from a cell to the host: the present files of a live cell, or the
// head of any other.
func (e *Exchange) CopyOut(ctx context.Context, req api.CopyRequest) (*api.CopyResult, error) {
	c, err := e.FindCell(req.Cell)
	if err == nil && c.Paused != nil {
		err = home.PausedCell(c.Name)
	}
	if err != nil {
		return nil, err
	}
	host, err := e.Caller.AbsPath(req.Host)
	if err != nil {
		return nil, err
	}
	to, err := OpenCopyTarget(req, host)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	req.Path = path.Clean(req.Path)
	if err := e.checkOutside(host); err != nil {
		return nil, err
	}
	if _, ok := e.Supervisor(c); !ok {
		// Only then does the head have what a killed supervisor's cell has written.
		if _, err := e.live.SettleDead(ctx, c); err != nil {
			return nil, err
		}
		if c, err = e.FindCell(req.Cell); err != nil {
			return nil, err
		}
		return e.copyState(ctx, c, req, to)
	}
	client, err := e.live.EnterLive(ctx, req.Cell)
	if err != nil {
		return nil, err
	}
	return copyLive(ctx, client, req, to)
}

// checkOutside refuses to write into the home.
func (e *Exchange) checkOutside(to string) error {
	real, err := fsx.RealPath(to)
	if err != nil {
		return api.Usagef("", "%s: %v", quote.Path(to), quote.Cause(err))
	}
	home, err := fsx.RealPath(e.Path)
	if err == nil && fsx.Within(real, home) {
		return api.Refusef(api.CodeOverlap, "choose another directory", "%s is in the state directory", quote.Path(to))
	}
	return err
}

// copyLive receives the files that the program in the cell sends.
func copyLive(ctx context.Context, client *supervise.Client, req api.CopyRequest, to *CopyTarget) (*api.CopyResult, error) {
	var t Received
	warnings, err := client.CopyOut(ctx, req.Path, home.CellHome, func(r io.Reader) (err error) {
		t, err = ReceiveCopy(ctx, r, req, to)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.Notes = append(warnings, t.Notes...)
	return copiedOut(req, t), nil
}

// ReceiveCopy writes the copy stream of a cell to its target.
func ReceiveCopy(ctx context.Context, r io.Reader, req api.CopyRequest, to *CopyTarget) (Received, error) {
	lost := newHostExport(false)
	lost.most = maxHeld // the stream may have any number
	t, err := receiveCopy(ctx, r, req, to, func(e carry.Entry) { lost.note(path.Join(req.Path, e.Path), lost.stateEntry(e)) })
	t.Notes = append(t.Notes, lost.notes()...)
	return t, err
}

// receiveCopy receives a copy. A copy with control files is refused, and names them.
func receiveCopy(ctx context.Context, r io.Reader, req api.CopyRequest, to *CopyTarget, received func(carry.Entry)) (Received, error) {
	gate, err := home.Gate(to.dir.Path(), req.AllowControl)
	if err != nil {
		return Received{}, err
	}
	s := &copyScreen{ctx: ctx, gate: gate, to: to, path: req.Path, received: received}
	totals, err := carry.Receive(ctx, r, to.dir, to.name, carry.Screen{Entry: s.entry, Whole: s.checkWritten})
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return Received{}, refused
	}
	if err != nil {
		return Received{}, copyError(req.Host, err)
	}
	t := Received{Totals: totals, LeftBehind: s.behind}
	t.Files, t.Links, t.Bytes = t.Files-s.removed.Files, t.Links-s.removed.Links, t.Bytes-s.removed.Bytes
	if s.moreBehind > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("left behind: %d more", s.moreBehind))
	}
	return t, nil
}

// copyScreen holds back the control files of a copy.
type copyScreen struct {
	ctx      context.Context //nolint:containedctx // lives as long as the one call
	gate     *outgoing.Gate
	to       *CopyTarget
	path     string // in the cell
	received func(carry.Entry)
	notDir   bool // the target is not a directory, and must be one
	held     []api.Obstacle
	more     int
	err      error
	// behind are the files that are left behind, removed those of them that were written
	// at first.
	behind     []api.PathNote
	moreBehind int
	removed    carry.Totals
}

// maxHeld bounds how many control files a refusal names, and how many entries are named that
// lose an attribute or are left behind: the stream may have any number.
const maxHeld = 10_000

func (s *copyScreen) entry(e carry.Entry) bool {
	if s.received != nil {
		s.received(e)
	}
	isDir := e.Type.IsDir()
	if e.Path != "" && isDir {
		return true // by itself it makes nothing run
	}
	if s.to.isDir && e.Path == "" && !isDir {
		s.notDir = true
		return false
	}
	verdict, err := s.judge(outgoing.Entry{Path: e.Path, Dir: isDir, File: e.Type.IsRegular()})
	s.err = errors.Join(s.err, err)
	return verdict == outgoing.Passes
}

// judge decides about an entry of the copy, and notes it if it is not written. A file that
// was asked for by its name is held back where others are left behind.
func (s *copyScreen) judge(e outgoing.Entry) (outgoing.Verdict, error) {
	p := e.Path
	e.Path = path.Join(s.to.name, p)
	verdict, what, err := s.gate.Judge(s.ctx, e)
	if verdict == outgoing.Behind && p == "" {
		verdict, what = outgoing.Held, home.LeftBehind(e.Path).Note
	}
	if verdict == outgoing.Behind && err == nil {
		s.leaveBehind(e.Path)
	}
	if err != nil || verdict != outgoing.Held {
		return verdict, err
	}
	if p != "" && s.gate.Allows(p, e.Dir) {
		return outgoing.Passes, nil
	}
	at := e.Path
	if len(s.held) == maxHeld {
		s.more++
	} else {
		s.held = append(s.held, api.Obstacle{Path: at, Reason: what})
	}
	return outgoing.Held, nil
}

func (s *copyScreen) leaveBehind(at string) {
	if len(s.behind) == maxHeld {
		s.moreBehind++
		return
	}
	s.behind = append(s.behind, home.LeftBehind(at))
}

// remove takes back what was written and is left behind.
func (s *copyScreen) remove(at *fsx.Step) error {
	if at.Info.IsRegular() {
		s.removed.Files, s.removed.Bytes = s.removed.Files+1, s.removed.Bytes+at.Info.Size
	} else {
		s.removed.Links++
	}
	return at.Dir().Remove(at.Name)
}

// checkWritten checks what was written: only then is it known which directories git takes
// for those of repositories.
func (s *copyScreen) checkWritten(dir *fsx.Dir, temp string) error {
	if s.err != nil {
		return s.err
	}
	if s.notDir {
		return api.Refusef(api.CodeCopy, "give the path of the file", "%s is not a directory", quote.Path(s.path))
	}
	before := outgoing.ViewOf(dir)
	s.gate.CompareRepositories(before, outgoing.Overlay(&outgoing.View{
		Names: func(at string) ([]string, error) {
			if at == "." {
				return []string{s.to.name}, nil
			}
			return before.Names(temp + strings.TrimPrefix(at, s.to.name))
		},
		Open: func(p string) (*os.File, error) { return dir.OpenFile(temp + strings.TrimPrefix(p, s.to.name)) },
	}, before))
	if err := s.noteHeldBack(dir, temp); err != nil {
		return err
	}
	err := home.HeldBack("control file", s.held, "copy the other paths one by one")
	if refused, ok := errors.AsType[*api.Error](err); ok && s.more > 0 {
		refused.Details = append(refused.Details, fmt.Sprintf("and %d more", s.more))
	}
	return err
}

// noteHeldBack notes what is held back of the files that are written.
func (s *copyScreen) noteHeldBack(dir *fsx.Dir, temp string) error {
	info, err := dir.Lstat(temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the one file of the copy is held back
	}
	if err != nil {
		return err
	}
	if len(s.held) == 0 || s.held[0].Path != s.to.name {
		if _, err := s.judge(outgoing.Entry{Dir: info.IsDir(), File: info.IsRegular()}); err != nil || !info.IsDir() {
			return err
		}
	}
	root, err := dir.OpenDir(temp)
	if err != nil {
		return err
	}
	defer root.Close()
	return fsx.Walk(s.ctx, root, fsx.Visitor{Enter: func(at *fsx.Step) (bool, error) {
		if at.Info.IsDir() {
			return true, nil
		}
		verdict, err := s.judge(outgoing.Entry{Path: at.Path(), File: at.Info.IsRegular()})
		if err == nil && verdict == outgoing.Behind {
			err = s.remove(at)
		}
		return true, err
	}})
}

// stateEntry returns an entry of a live cell as a state would have it. Files of the
// cell's user belong to the operator. Files of root in the cell have the id that
// the user has there.
func (o *hostExport) stateEntry(e carry.Entry) tree.Entry {
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
func (e *Exchange) CopyIn(ctx context.Context, req api.CopyRequest) (*api.CopyResult, error) {
	client, err := e.live.EnterLive(ctx, req.Cell)
	if err != nil {
		if no, ok := errors.AsType[*api.Error](err); ok && no.Code == api.CodeNotStarted {
			no.Hint += "; or copy it to the source directory and use `forkcell refresh " + req.Cell + "`"
		}
		return nil, err
	}
	host, err := e.Caller.AbsPath(req.Host)
	if err == nil {
		err = e.RefuseOverlap("cp from", host)
	}
	if err != nil {
		return nil, err
	}
	dir, name, err := carry.Source(host)
	if err != nil {
		return nil, api.Usagef("", "%s: %v", quote.Path(req.Host), quote.Cause(err))
	}
	defer dir.Close()
	var totals carry.Totals
	warnings, err := client.CopyIn(ctx, req.Path, filepath.Base(filepath.Clean(host)), func(w io.Writer) (err error) {
		if totals, err = carry.Send(ctx, w, dir, name, nil); err != nil {
			return api.Failf(api.CodeCopy, err, "read %s", quote.Path(req.Host))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return copyResult(req, true, totals, warnings), nil
}

func copyError(host string, err error) error {
	switch {
	case errors.Is(err, carry.ErrExists):
		return &api.Error{
			Kind: api.Refused, Code: api.CodeExists, Message: quote.Path(host) + ": " + err.Error(), Hint: "remove it first, or choose another name", Err: err,
		}
	case errors.Is(err, carry.ErrStream):
		return &api.Error{Kind: api.Failed, Code: api.CodeCopy, Message: "malformed copy stream from the cell: " + err.Error(), Err: err}
	}
	return api.Failf(api.CodeCopy, err, "write %s", quote.Path(host))
}
