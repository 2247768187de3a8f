package cell

import (
	"context"
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/apply"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
)

// moveHead makes to the cell's state and commits, in this order: intent, live
// directory (for backends that have one), database. commit runs in the same
// transaction as the move.
func (s *session) moveHead(ctx context.Context, to store.Checkpoint, commit func(*store.Tx) error) error {
	from := s.head
	live := s.cell.Live != "" && from.Layer != to.Layer
	op, sw := store.NewID("op"), switchIntent{From: from.Layer, To: to.Layer}
	// Of what is unfinished on this cell only the switch is ours to settle: the
	// run that is being concluded is unfinished, too.
	undo := func(err error) error {
		return errors.Join(err, s.resumeSwitch(context.WithoutCancel(ctx), op, sw))
	}
	if live {
		if err := s.e.ws.CheckSwitch(s.at, from.Layer, to.Layer); err != nil {
			return longPath(s.cell, s.liveError(err))
		}
		err := s.e.store.Update(func(tx *store.Tx) error { return tx.PutIntent(op, s.cell.ID, intentSwitch, sw) })
		if err != nil {
			return err
		}
		if err := s.e.ws.Switch(ctx, s.at, from.Layer, to.Layer, op); err != nil {
			return undo(s.liveError(err))
		}
	}
	err := s.e.store.Update(func(tx *store.Tx) error {
		if live {
			if err := tx.DropIntent(op); err != nil {
				return err
			}
		}
		if err := commit(tx); err != nil {
			return err
		}
		s.cell.Head = to.ID
		return tx.PutCell(s.cell)
	})
	if err != nil {
		s.cell.Head = from.ID
		if live {
			err = undo(err)
		}
		return err
	}
	s.head = to
	if live {
		return s.e.ws.ForgetSwitch(op)
	}
	return nil
}

// switchIntent says which state a live directory is being rewritten from and to.
type switchIntent struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Back says that the switch itself takes one back that was not recorded.
	Back bool `json:"back,omitempty"`
}

func (s *session) resumeSwitch(ctx context.Context, op string, sw switchIntent) error {
	completed, err := s.e.ws.ResumeSwitch(ctx, s.at, op)
	if errors.Is(err, apply.ErrTarget) {
		if s.abandon {
			return s.endSwitch(op)
		}
		return s.waitsFor(s.cell.Live, err)
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

// waitsFor refuses to go on without a directory in which something is half done:
// its volume may only not be mounted, and then nobody else would mend it.
func (s *session) waitsFor(dir string, err error) error {
	return &api.Error{
		Kind: api.Refused, Code: api.CodeWaits, Err: err,
		Message: fmt.Sprintf("cell %s waits for %s, where a change was interrupted: %v", s.cell.LastName, quote.Path(dir), err),
		Hint:    fmt.Sprintf("put the directory back at its place, or mount it; `forkcell rm --force %s` gives it up", s.cell.LastName),
	}
}

// switchBack replaces one intent by another and carries that out. Where somebody
// has changed the same files since, they stay as they are, all of them: the next
// look at the directory makes that a state.
func (s *session) switchBack(ctx context.Context, old string, sw switchIntent) error {
	op := store.NewID("op")
	err := s.e.store.Update(func(tx *store.Tx) error {
		if err := tx.DropIntent(old); err != nil {
			return err
		}
		return tx.PutIntent(op, s.cell.ID, intentSwitch, sw)
	})
	if err != nil {
		return err
	}
	err = s.e.ws.Switch(ctx, s.at, sw.From, sw.To, op)
	if _, newer := errors.AsType[*apply.ConflictError](err); newer && !errors.Is(err, apply.ErrUnfinished) {
		return s.endSwitch(op)
	}
	if err != nil {
		return s.liveError(err)
	}
	return s.endSwitch(op)
}

// endSwitch forgets a switch whose end the database knows.
func (s *session) endSwitch(op string) error {
	if err := s.e.store.Update(func(tx *store.Tx) error { return tx.DropIntent(op) }); err != nil {
		return err
	}
	return s.e.ws.ForgetSwitch(op)
}
