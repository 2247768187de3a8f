package engine

import (
	"context"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/aside"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// kindRewound is the kind of a state that was made from that of a turn, without the
// control files that the session had made.
const kindRewound = "rewound"

// Rewind takes a cell back to the state after a turn. A live cell is stopped first:
// its run ends with a receipt. What the cell leaves is kept until gc. The cell is not
// started again.
func (e *Engine) Rewind(ctx context.Context, req api.RewindRequest) (*api.RewindResult, error) {
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return nil, err
	}
	known, err := e.turnsOf(c)
	if err != nil {
		return nil, err
	}
	turn, err := known.find(c.Name, req.To)
	if err != nil {
		return nil, err
	}
	// What would be refused is refused before anything is stopped.
	if err := e.mayRewind(c, turn); err != nil {
		return nil, err
	}
	res := &api.RewindResult{Cell: c.Name, Turn: req.To}
	if e, res.Stopped, err = e.stopFirst(ctx, c.Name, api.EndedByRewind); err != nil {
		return nil, err
	}
	failpoint.Hit("rewind.stopped")
	s, err := e.hold(ctx, c.Name, "rewind", forceWait)
	if err != nil {
		return res, err
	}
	defer s.Release()
	to, err := s.rewoundState(ctx, known.begin, turn, res)
	if err != nil {
		return res, err
	}
	failpoint.Hit("rewind.composed")
	moved, err := s.moveBack(ctx, to, nil, restored, req.Reason)
	if err != nil {
		return res, err
	}
	failpoint.Hit("rewind.moved")
	res.CheckpointID, res.Root, res.Left = moved.CheckpointID, moved.Root, moved.Left
	return res, nil
}

// mayRewind refuses a turn whose state was freed, and a caller who may not leave
// accepted work.
func (e *Engine) mayRewind(c store.Cell, turn api.TurnInfo) error {
	s := e.notHeld(c, store.Checkpoint{})
	var to store.Checkpoint
	err := e.Store.View(func(tx *store.Tx) (err error) {
		if s.Head, err = tx.Checkpoint(c.Head); err != nil {
			return err
		}
		to, err = tx.Checkpoint(turn.CheckpointID)
		return err
	})
	if err != nil {
		return err
	}
	_, err = s.mayMoveBack(to, nil)
	return err
}

// rewoundState returns the state of a turn, without the control files that were made since
// the session began. A new state is recorded, as one captured in the run of the turn.
func (s *heldCell) rewoundState(ctx context.Context, begin string, turn api.TurnInfo, res *api.RewindResult) (store.Checkpoint, error) {
	var first, to store.Checkpoint
	var held *aside.Rules
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		if to, err = tx.Checkpoint(turn.CheckpointID); err != nil {
			return err
		}
		if first, err = tx.Checkpoint(begin); err != nil {
			return err
		}
		held, err = s.e.shared.masks.Of(tx, s.Record)
		return err
	})
	if err != nil || held == nil || first.ID == to.ID {
		return to, err
	}
	if err := home.CheckUsable(to); err != nil {
		return to, err
	}
	edits, err := s.withoutAside(first, to, held)
	if err != nil || len(edits) == 0 {
		return to, err
	}
	for _, ed := range edits {
		res.SetAside = append(res.SetAside, quote.UTF8(ed.Path))
	}
	next, err := s.Derive(ctx, to, kindRewound, edits)
	if err != nil || next.ID == to.ID {
		return to, err
	}
	return next, s.e.Store.Update(func(tx *store.Tx) error {
		if err := tx.PutCheckpoint(next); err != nil {
			return err
		}
		return s.e.Evidence.Change(tx, s.Record, next, receipt.OpCheckpoint, map[string]string{statements.DetailLive: turn.RunID})
	})
}

// withoutAside returns the edits that take the changes of control files back.
func (s *heldCell) withoutAside(from, to store.Checkpoint, held *aside.Rules) ([]workspace.Edit, error) {
	a, b, err := s.e.Trees(from, to, workspace.AreaWorkspace)
	if err != nil {
		return nil, err
	}
	changes, err := tree.Diff(a, b, tree.DiffOptions{})
	if err != nil {
		return nil, home.LongPath(s.Record, err)
	}
	var edits []workspace.Edit
	removed := "\x00"
	for _, ch := range changes {
		if aside, _ := held.Has(ch.Path, home.IsDirChange(ch)); !aside || strings.HasPrefix(ch.Path, removed+"/") {
			continue
		}
		if ch.Old == nil {
			removed = ch.Path
		} else if missing, err := s.parentMissing(b, ch.Path); err != nil || missing {
			if err != nil {
				return nil, err
			}
			continue // a directory above it was removed, too: that is the session's work
		}
		edits = append(edits, s.e.Edit(s.Record, from, tree.Change{Path: ch.Path, Old: ch.New, New: ch.Old}))
	}
	return edits, nil
}

// parentMissing reports whether the directory of a path is not in a tree.
func (s *heldCell) parentMissing(t *tree.Tree, p string) (bool, error) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return false, nil
	}
	e, ok, err := t.Lookup(p[:i])
	return !ok || e.Kind != tree.KindDir, err
}
