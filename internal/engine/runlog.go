package engine

import (
	"context"
	"errors"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/history"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// RunLog writes the stored output of a run, of stderr or else of stdout. With follow
// it goes on until the run has ended. The output of a running run is readable in the
// process that carries it out, and that of a live cell everywhere. The first write is
// empty: there is such output.
func (e *Engine) RunLog(ctx context.Context, id string, stderr, follow bool, w io.Writer) error {
	if out := e.shared.outputs.find(id); out != nil {
		return out.copy(ctx, stderr, follow, w)
	}
	var r store.Run
	var c store.Cell
	err := e.View(func(tx *store.Tx) (err error) {
		if r, err = tx.Run(id); err == nil {
			c, err = tx.CellByID(r.CellID)
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return api.Missing("run", id, "`forkcell log CELL` shows them")
	}
	if err != nil {
		return err
	}
	if r.State != "done" {
		return e.liveLog(ctx, c, id, stderr, follow, w)
	}
	f, err := e.OpenOutput(r, stderr)
	if err != nil {
		return err
	}
	_, _ = w.Write(nil)
	_, err = io.Copy(w, f)
	if err = errors.Join(err, f.Close()); errors.Is(err, store.ErrDigest) {
		return api.Refusef(api.CodeDamaged, "`forkcell receipt verify --all` names what is damaged", "the stored output %s of %s was changed", history.OutputDigest(r, stderr), r.ID)
	}
	return err
}

// liveLog writes the output of a run that is under way in another process.
func (e *Engine) liveLog(ctx context.Context, c store.Cell, id string, stderr, follow bool, w io.Writer) error {
	out, errs := w, io.Discard
	if stderr {
		out, errs = errs, out
	}
	if info := e.LiveInfo(ctx, c, false); info != nil && info.RunID == id {
		_, _ = w.Write(nil)
		_, err := e.FollowLogs(ctx, c.Name, id, follow, out, errs)
		return err
	}
	return &api.Error{
		Kind: api.Busy, Code: api.CodeBusy, Message: "another process carries out " + id, Hint: "its output can be read when it has ended",
	}
}
