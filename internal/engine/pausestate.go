package engine

import (
	"errors"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/moments"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// This file is about cells that are paused on disk: no process of them exists.

// pausedError reports whether an error is that of a paused cell.
func pausedError(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.CodePaused
}

// endPause ends the pause of a cell that is held. The caller stores the cell in the same
// transaction, and then calls dropPause.
func (s *heldCell) endPause(tx *store.Tx, op receipt.Op) error {
	p := s.Record.Paused
	s.Record.Paused = nil
	if err := tx.PutCell(s.Record); err != nil {
		return err
	}
	return s.e.Evidence.Change(tx, s.Record, s.Head, op, pauseDetails(p))
}

// dropPause removes what a cell was paused with. What cannot be removed now, gc removes.
func (e *Engine) dropPause(p *store.Pause) {
	if p == nil {
		return
	}
	if err := e.Images().Image(moments.PausedImage(p.RunID)).Remove(); err != nil {
		e.Logger.Warn("what a cell was paused with could not be removed", "run", p.RunID, "error", err)
	}
}

// checkPause drops a pause whose files could not be sealed: memory without its files is
// of no use.
func (r *run) checkPause() {
	if r.rec.Pause == nil || r.rec.Outcome == succeeded {
		return
	}
	r.rec.Pause = nil
	r.notes = append(r.notes, "the cell could not be paused, and has ended")
}

// recordPause makes the cell a paused one, if the run has ended with a pause.
func (r *run) recordPause(tx *store.Tx) error {
	p := r.rec.Pause
	r.Record.Paused = p
	if p == nil {
		return nil
	}
	return r.e.Evidence.Change(tx, r.Record, r.after, receipt.OpPause, pauseDetails(p))
}

// pauseDetails are the details of a statement about a pause.
func pauseDetails(p *store.Pause) map[string]string {
	d := map[string]string{"paused_run": p.RunID}
	if !p.FSOnly {
		d[statements.DetailMemory] = p.Image
	}
	return d
}

// pauseStatement returns a pause as a receipt has it.
func pauseStatement(p *store.Pause) *receipt.Pause {
	if p == nil {
		return nil
	}
	s := &receipt.Pause{RunID: p.RunID, At: p.At, FSOnly: p.FSOnly}
	if !p.FSOnly {
		s.Memory = strings.TrimPrefix(p.Image, "sha256:")
	}
	return s
}
