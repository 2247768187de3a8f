package engine

import (
	"context"
	"errors"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// lastWork is the work that nothing but a cell has: no source, and no other cell.
type lastWork struct {
	undecided []home.Work
	// accepted is the newest accepted state, and source the one that the source is known to
	// have had, if they differ. The zero source is not known.
	accepted, source store.Checkpoint
}

func (w lastWork) losesAccepted() bool { return w.accepted.ID != "" }

func (w lastWork) none() bool { return len(w.undecided) == 0 && !w.losesAccepted() }

// lastWork finds the work that would go with a cell. applied, if it is not "", is the state
// that a directory has which the home does not know.
func (e *Engine) lastWork(tx *store.Tx, c store.Cell, applied string) (lastWork, error) {
	var w lastWork
	head, err := tx.Checkpoint(c.Head)
	if err != nil {
		return w, err
	}
	_, work, err := home.UndecidedWork(tx, c, head.ID)
	if err != nil {
		return w, err
	}
	for _, u := range work {
		elsewhere, err := hasElsewhere(tx, c, u.After())
		if err != nil {
			return w, err
		}
		if !elsewhere {
			w.undecided = append(w.undecided, u)
		}
	}
	known := store.Checkpoint{}
	if applied != "" {
		if known, err = e.FindCheckpoint(tx, c, applied); err != nil {
			return w, err
		}
	}
	if w.accepted, w.source, err = e.unappliedWork(tx, c, head); err != nil || applied == "" || w.accepted.ID == "" {
		return w, err
	}
	w.source = known
	if w.source.Root() == w.accepted.Root() {
		w.accepted = store.Checkpoint{}
	}
	return w, nil
}

// unappliedWork returns the newest accepted state of a cell and that of its source, if work is
// between them that no other cell has.
func (e *Engine) unappliedWork(tx *store.Tx, c store.Cell, head store.Checkpoint) (accepted, source store.Checkpoint, err error) {
	none := store.Checkpoint{}
	if c.Live == c.Source && c.Live != "" {
		return none, none, nil // the cell works in its source
	}
	state, _, err := home.NewestAccepted(tx, c, head)
	if err != nil {
		return none, none, err
	}
	if elsewhere, err := hasElsewhere(tx, c, state); err != nil || elsewhere {
		return none, none, err
	}
	base, err := home.BaseState(tx, c, state)
	if api.CodeOf(err) == api.CodeStateLost {
		return state, none, nil // what the source has is not known
	}
	if err != nil || state.Root() == base.Root() {
		return none, none, err
	}
	return state, base, nil
}

// hasElsewhere reports whether the cell that a state was made in is another one, which
// exists and still contains the state.
func hasElsewhere(tx *store.Tx, c store.Cell, state store.Checkpoint) (bool, error) {
	if state.CellID == c.ID {
		return false, nil
	}
	other, err := tx.CellByID(state.CellID)
	if errors.Is(err, store.ErrNotFound) || err == nil && other.Name == "" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	line, err := home.LineageOf(tx, other.Head)
	return line[state.ID], err
}

func (e *Engine) viewLastWork(c store.Cell, applied string) (w lastWork, err error) {
	err = e.Store.View(func(tx *store.Tx) error {
		w, err = e.lastWork(tx, c, applied)
		return err
	})
	return w, err
}

// mayRemove refuses to remove a cell with work that would go with it: without force, and
// that which was accepted for a caller who may not decide.
func (e *Engine) mayRemove(ctx context.Context, c store.Cell, req api.RemoveRequest) error {
	if e.Caller.CannotDecide {
		w, err := e.viewLastWork(c, "") // what the caller says has been applied decides nothing
		if err == nil && w.losesAccepted() {
			err = e.Caller.MayDecide("removing cell " + c.Name + ", whose accepted work its source does not have,")
		}
		if err == nil && req.Now && !w.none() {
			err = e.Caller.MayDecide("removing cell " + c.Name + " with its undecided work at once")
		}
		if err != nil {
			return err
		}
	}
	if req.Force && req.Applied == "" {
		return nil
	}
	w, err := e.viewLastWork(c, req.Applied)
	if err != nil || req.Force || w.none() {
		return err
	}
	return e.refuseLastWork(ctx, c, w)
}

// refuseLastWork returns the error for a cell that is not removed because of work that would
// go with it.
func (e *Engine) refuseLastWork(ctx context.Context, c store.Cell, w lastWork) error {
	var has, next []string
	runs, captured := 0, 0
	for _, u := range w.undecided {
		if u.Run != nil {
			runs++
		} else {
			captured++
		}
	}
	if runs > 0 {
		has = append(has, api.Counted(runs, "undecided run"))
	}
	if captured > 0 {
		has = append(has, api.Counted(captured, "undecided captured state"))
	}
	if len(has) > 0 {
		next = append(next, "`forkcell diff "+c.Name+"` shows it")
	}
	if w.losesAccepted() {
		text := "accepted work that its source does not have"
		if n, err := e.ChangedBetween(ctx, c, w.source, w.accepted); err == nil && n > 0 {
			text += " (" + api.Counted(n, "change") + ")"
		}
		has = append(has, text)
		if c.SourceKind == "dir" {
			next = append(next, "`forkcell apply "+c.Name+"` writes what is accepted")
		} else {
			next = append(next, "`forkcell export "+c.Name+"` writes the files of the cell elsewhere")
		}
	}
	next = append(next, "`forkcell rm --force "+c.Name+"` removes the cell all the same")
	return api.Refusef(api.CodeHasWork, strings.Join(next, "; "), "cell %s has %s", c.Name, strings.Join(has, " and "))
}

// keptWork returns the reason why a cell whose time is up is not removed; nil if it is.
// A timer decides nothing.
func (e *Engine) keptWork(ctx context.Context, c store.Cell) error {
	w, err := e.viewLastWork(c, "")
	if err != nil || w.none() {
		return err
	}
	return e.refuseLastWork(ctx, c, w)
}
