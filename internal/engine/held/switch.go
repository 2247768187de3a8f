package held

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Move makes to the cell's state, in this order: intent, live directory (for
// backends that have one), database. commit runs in the transaction that moves the
// head.
func (s *Cell) Move(ctx context.Context, to store.Checkpoint, commit func(*store.Tx) error) error {
	if s.Record.Paused != nil && to.ID != s.Record.Head {
		return s.refusePaused("")
	}
	from := s.Head
	live := s.Record.Live != "" && from.Layer != to.Layer
	op, sw := store.NewID("op"), switchIntent{From: from.Layer, To: to.Layer}
	// Settle only the switch. The run that is being concluded counts as unfinished,
	// too.
	undo := func(err error) error {
		return errors.Join(err, s.resumeSwitch(context.WithoutCancel(ctx), op, sw))
	}
	if live {
		if err := s.Home.Workspace.CheckSwitch(s.At, from.Layer, to.Layer); err != nil {
			return home.LongPath(s.Record, s.LiveError(err))
		}
		err := s.Home.Store.Update(func(tx *store.Tx) error { return tx.PutIntent(op, s.Record.ID, kindSwitch, sw) })
		if err != nil {
			return err
		}
		if err := s.Home.Workspace.Switch(ctx, s.At, from.Layer, to.Layer, op); err != nil {
			return undo(s.LiveError(err))
		}
	}
	err := s.Home.Store.Update(func(tx *store.Tx) error {
		if live {
			if err := tx.DropIntent(op); err != nil {
				return err
			}
		}
		if err := commit(tx); err != nil {
			return err
		}
		s.Record.Head = to.ID
		return tx.PutCell(s.Record)
	})
	if err != nil {
		s.Record.Head = from.ID
		if live {
			err = undo(err)
		}
		return err
	}
	s.Head = to
	if live {
		return s.Home.Workspace.ForgetSwitch(op)
	}
	return nil
}

// kindSwitch is the kind of the intent of a live directory that is being rewritten.
const kindSwitch = "switch"

// Switches returns the finisher of live directories that were being rewritten.
func Switches() Finisher {
	return Finisher{Kind: kindSwitch, Finish: finishSwitch, Needs: func(in store.Intent, needed Holdings) error {
		var sw switchIntent
		err := json.Unmarshal(in.Doc, &sw)
		needed.Layers[sw.From], needed.Layers[sw.To] = true, true
		return err
	}}
}

// finishSwitch restores the live directory to the state in the database: the head
// did not move, so the files must not either.
func finishSwitch(ctx context.Context, s *Cell, in store.Intent) error {
	var sw switchIntent
	if err := json.Unmarshal(in.Doc, &sw); err != nil {
		return err
	}
	return s.resumeSwitch(ctx, in.ID, sw)
}

// switchIntent records the two states between which a live directory is being
// rewritten.
type switchIntent struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Back reports whether the switch undoes another one that was not recorded.
	Back bool `json:"back,omitempty"`
}

func (s *Cell) resumeSwitch(ctx context.Context, op string, sw switchIntent) error {
	completed, err := s.Home.Workspace.ResumeSwitch(ctx, s.At, op)
	if errors.Is(err, apply.ErrTarget) {
		if s.Abandon {
			return s.endSwitch(op)
		}
		return s.MissingDir(s.Record.Live, err)
	}
	if err != nil {
		return err
	}
	if completed != sw.Back {
		back := switchIntent{From: sw.To, To: sw.From, Back: true}
		if sw.Back {
			back = sw
		}
		return s.switchBack(ctx, op, back)
	}
	return s.endSwitch(op)
}

// MissingDir refuses to continue without a directory in which an operation was
// interrupted: if its volume is only not mounted, the operation can be finished
// later.
func (s *Cell) MissingDir(dir string, err error) error {
	return &api.Error{
		Kind: api.Refused, Code: api.CodeWaits, Err: err,
		Message: fmt.Sprintf("cell %s waits for %s, where a change was interrupted: %v", s.Record.LastName, quote.Path(dir), err),
		Hint:    fmt.Sprintf("put the directory back at its place, or mount it; `forkcell rm --force %s` gives it up", s.Record.LastName),
	}
}

// switchBack replaces one intent by another and carries it out. If others have
// changed the same files since, all files stay as they are, and the next check of
// the directory seals them.
func (s *Cell) switchBack(ctx context.Context, old string, sw switchIntent) error {
	op := store.NewID("op")
	err := s.Home.Store.Update(func(tx *store.Tx) error {
		if err := tx.DropIntent(old); err != nil {
			return err
		}
		return tx.PutIntent(op, s.Record.ID, kindSwitch, sw)
	})
	if err != nil {
		return err
	}
	err = s.Home.Workspace.Switch(ctx, s.At, sw.From, sw.To, op)
	if _, newer := errors.AsType[*apply.ConflictError](err); newer && !errors.Is(err, apply.ErrUnfinished) {
		return s.endSwitch(op)
	}
	if err != nil {
		return s.LiveError(err)
	}
	return s.endSwitch(op)
}

// endSwitch removes the intent of a switch that the database has recorded.
func (s *Cell) endSwitch(op string) error {
	if err := s.Home.Store.Update(func(tx *store.Tx) error { return tx.DropIntent(op) }); err != nil {
		return err
	}
	return s.Home.Workspace.ForgetSwitch(op)
}
