package cell

import (
	"context"
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/tree"
	"github.com/forkcell/forkcell/internal/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// decision is what a person, or a flag, adds to a result.
type decision struct {
	Reason       string
	Automatic    bool
	Forced       bool
	Only, Except []string
}

// decideRun states a decision about a run and records it.
func (s *session) decideRun(tx *store.Tx, r store.Run, result string, head store.Checkpoint, d decision) (string, error) {
	id := store.NewID("dec")
	st, err := tx.StatementByID(r.ReceiptID)
	if err != nil {
		return "", fmt.Errorf("receipt of %s: %w", r.ID, err)
	}
	p := &receipt.Decision{
		DecisionID: id, ReceiptID: r.ReceiptID, ReceiptSHA256: st.Digest, RunID: r.ID, Result: receipt.Result(result),
		Automatic: d.Automatic, Forced: d.Forced, Reason: printable(d.Reason),
		HeadBefore: checkpointRef(s.head), HeadAfter: checkpointStatement(head, ""),
		Only: texts(d.Only), Except: texts(d.Except),
	}
	_, err = s.e.log(tx, store.Statement{ID: id, Kind: kindDecision, CellID: r.CellID, RunID: r.ID}, s.cell.Name, p)
	if err != nil {
		return "", err
	}
	// A fork settles nothing: the run may still be accepted or restored.
	if result != forked {
		r.Decision = result
		err = tx.PutRun(r)
	}
	return id, err
}

// printable is text that JSON can carry as it is.
func printable(s string) string {
	if pathBase64(s) == "" {
		return s
	}
	return quote.Line(s)
}

// Accept records that a run's result stands.
func (e *Engine) Accept(ctx context.Context, req AcceptRequest) (*AcceptResult, error) {
	s, err := e.hold(ctx, req.Cell, "accept", 0)
	if err != nil {
		return nil, err
	}
	defer s.release()
	res, err := s.accept(ctx, req)
	if err != nil || !req.Apply {
		return res, err
	}
	applied, err := s.apply(ctx, req.Applier)
	if err != nil {
		return res, err
	}
	res.Applied = applied
	return res, nil
}

func (s *session) accept(ctx context.Context, req AcceptRequest) (*AcceptResult, error) {
	r, err := s.acceptable(req)
	if err != nil {
		return nil, err
	}
	res := &AcceptResult{Cell: s.cell.Name, RunID: r.ID, Decision: accepted, CheckpointID: r.After, Also: []string{}}
	if r.Decision == accepted || r.Decision == partial {
		res.Decision, res.CheckpointID, res.Root = r.Decision, s.head.ID, s.head.Root()
		return res, nil
	}
	head := s.head
	d := decision{Reason: req.Reason, Forced: req.Force && r.Failed(), Only: req.Only, Except: req.Except}
	if len(req.Only)+len(req.Except) > 0 {
		if head, err = s.part(ctx, r, req); err != nil {
			return nil, err
		}
		res.Decision = partial
	}
	tip := head
	if res.Decision == accepted {
		if tip, err = s.checkpoint(r.After); err != nil {
			return nil, err
		}
	}
	err = s.moveHead(ctx, head, func(tx *store.Tx) error {
		if res.Decision == partial && head.ID != s.head.ID {
			if err := tx.PutCheckpoint(head); err != nil {
				return err
			}
		}
		var err error
		if res.DecisionID, err = s.decideRun(tx, r, res.Decision, head, d); err != nil {
			return err
		}
		also, err := s.acceptEarlier(tx, r, tip, head, false)
		res.Also = append(res.Also, also...)
		return err
	})
	if err != nil {
		return nil, err
	}
	res.CheckpointID, res.Root = tip.ID, tip.Root()
	return res, nil
}

func (s *session) checkpoint(id string) (c store.Checkpoint, err error) {
	err = s.e.store.View(func(tx *store.Tx) error {
		c, err = tx.Checkpoint(id)
		return err
	})
	return c, err
}

// acceptable finds the run and says why it cannot be accepted.
func (s *session) acceptable(req AcceptRequest) (store.Run, error) {
	var r, last store.Run
	var part bool
	err := s.e.store.View(func(tx *store.Tx) (err error) {
		if r, err = s.e.findRun(tx, s.cell, req.Run); err != nil {
			return err
		}
		if last, err = tx.LastRun(s.cell.ID); err != nil {
			return err
		}
		part, err = inLineage(tx, r.After, s.head.ID)
		return err
	})
	if err != nil {
		return r, err
	}
	selecting := len(req.Only)+len(req.Except) > 0
	switch {
	case r.Decision == accepted || r.Decision == partial:
		if selecting {
			return r, refused("decided", "restore it first", "run %s is %s already", r.ID, r.Decision)
		}
		return r, nil
	case !part || r.Decision == restored && r.After != r.Before && s.head.ID == r.Before:
		return r, refused("not_head", "`forkcell restore "+s.cell.Name+" "+r.After+"` brings it back first",
			"run %s is no part of the present state of %s", r.ID, s.cell.Name)
	case r.Failed() && !req.Force:
		return r, refused("failed_run", "`--force` accepts it all the same, `forkcell reject "+s.cell.Name+"` takes it back",
			"run %s did not succeed (%s, exit %d)", r.ID, r.Outcome, r.ExitCode)
	case selecting && (r.ID != last.ID || s.head.ID != r.After):
		return r, refused("not_last", "", "--only and --except need the last run, and %s is not", r.ID)
	}
	return r, nil
}

// part makes the state that has only the chosen changes of a run.
func (s *session) part(ctx context.Context, r store.Run, req AcceptRequest) (store.Checkpoint, error) {
	before, err := s.checkpoint(r.Before)
	if err != nil {
		return before, err
	}
	pick, err := leftout.NewSelector(req.Only, req.Except)
	if err != nil {
		return before, usage("patterns are gitignore-style", "bad pattern: %v", err)
	}
	from, to, err := s.e.trees(before, s.head, workspace.AreaWorkspace)
	if err != nil {
		return before, err
	}
	changes, err := tree.Diff(from, to, tree.DiffOptions{MTimes: true})
	if err != nil {
		return before, err
	}
	var edits []workspace.Edit
	chosen := 0
	for _, c := range changes {
		if !pick.Match(c.Path, isDirChange(c)) {
			continue
		}
		chosen++
		edits = append(edits, s.e.edit(s.cell, s.head, c))
	}
	if chosen == 0 {
		return before, refused("nothing", "`forkcell diff "+s.cell.Name+" --name-status` shows the changes",
			"no change of run %s matches the patterns", r.ID)
	}
	sealed, err := s.e.ws.Compose(ctx, s.at, before.Layer, store.NewID("op"), edits)
	if err != nil {
		return before, fmt.Errorf("compose the accepted part: %w", err)
	}
	if sealed.Unchanged {
		return before, nil
	}
	return s.e.newCheckpoint(s.cell, before.ID, "partial", "", sealed), nil
}

func isDirChange(c tree.Change) bool {
	e := c.New
	if e == nil {
		e = c.Old
	}
	return e.Kind == tree.KindDir
}

// edit is a change as the workspace composes it.
func (e *Engine) edit(c store.Cell, from store.Checkpoint, ch tree.Change) workspace.Edit {
	ed := workspace.Edit{Path: ch.Path, New: ch.New}
	if ch.New != nil && ch.New.Kind == tree.KindFile {
		ed.Open = e.opener(c, from, workspace.AreaWorkspace, ch.Path, *ch.New)
	}
	return ed
}

// Reject records that a run's result does not stand, and takes it back.
func (e *Engine) Reject(ctx context.Context, cell, run, reason string) (*MoveResult, error) {
	s, err := e.hold(ctx, cell, "reject", 0)
	if err != nil {
		return nil, err
	}
	defer s.release()
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	var r store.Run
	var part bool
	var to store.Checkpoint
	err = e.store.View(func(tx *store.Tx) (err error) {
		if r, err = e.findRun(tx, s.cell, run); err != nil {
			return err
		}
		if to, err = tx.Checkpoint(r.Before); err != nil {
			return err
		}
		part, err = inLineage(tx, r.After, s.head.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	if r.Decision == rejected {
		return nil, refused("decided", "", "run %s is rejected already", r.ID)
	}
	if !part || r.Decision == restored {
		// Its work is not in the present state: only the word is missing.
		to = s.head
	}
	return s.moveBack(ctx, to, &r, rejected, reason)
}

// Restore moves a cell to an earlier, or any, of its states.
func (e *Engine) Restore(ctx context.Context, req RestoreRequest) (*MoveResult, error) {
	if req.Checkpoint != "" && req.Run != "" {
		return nil, usage("give one of them", "a checkpoint and --run exclude each other")
	}
	s, err := e.hold(ctx, req.Cell, "restore", 0)
	if err != nil {
		return nil, err
	}
	defer s.release()
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	var to store.Checkpoint
	var first *store.Run
	err = e.store.View(func(tx *store.Tx) (err error) {
		if req.Checkpoint != "" {
			to, err = e.findCheckpoint(tx, s.cell, req.Checkpoint)
			return err
		}
		r, err := e.findRun(tx, s.cell, req.Run)
		if err != nil {
			return err
		}
		if !isUndone(r.Decision) {
			first = &r
		}
		to, err = tx.Checkpoint(r.Before)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.moveBack(ctx, to, first, restored, req.Reason)
}

// moveBack moves the head to a state and decides every run that is thereby
// undone. first, if given, gets the given result; the others are restored.
func (s *session) moveBack(ctx context.Context, to store.Checkpoint, first *store.Run, result, reason string) (*MoveResult, error) {
	if err := usable(to); err != nil {
		return nil, err
	}
	res := &MoveResult{
		Cell: s.cell.Name, CheckpointID: to.ID, Root: to.Root(), Left: s.head.ID, Decision: result,
		Also: []string{}, Notes: []string{},
	}
	undone, err := s.undone(to, first)
	if err != nil {
		return nil, err
	}
	if to.ID == s.head.ID && len(undone) == 0 {
		res.Notes = append(res.Notes, "it was there already")
		return res, nil
	}
	err = s.moveHead(ctx, to, func(tx *store.Tx) error {
		for i, r := range undone {
			word := restored
			if first != nil && r.ID == first.ID {
				word = result
			}
			id, err := s.decideRun(tx, r, word, to, decision{Reason: reason})
			if err != nil {
				return err
			}
			if i == 0 {
				res.DecisionID, res.RunID = id, r.ID
			} else {
				res.Also = append(res.Also, r.ID+" "+word)
			}
		}
		if len(undone) > 0 {
			return nil
		}
		s.cell.Head = to.ID
		return s.e.logChange(tx, s.cell, to, opRestore, map[string]string{"reason": printable(reason)})
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// undone lists the runs, newest first, whose work is in the present state and
// not in the one that is moved to.
func (s *session) undone(to store.Checkpoint, first *store.Run) ([]store.Run, error) {
	var out []store.Run
	err := s.e.store.View(func(tx *store.Tx) error {
		runs, err := tx.Runs(s.cell.ID)
		if err != nil {
			return err
		}
		here, err := lineageSet(tx, s.head.ID)
		if err != nil {
			return err
		}
		there, err := lineageSet(tx, to.ID)
		if err != nil {
			return err
		}
		if first != nil {
			out = append(out, *first)
		}
		for i := len(runs) - 1; i >= 0; i-- {
			r := runs[i]
			if r.State != "done" || first != nil && r.ID == first.ID || isUndone(r.Decision) {
				continue
			}
			if here[r.After] && !there[r.After] {
				out = append(out, r)
			}
		}
		return nil
	})
	return out, err
}

func isUndone(decision string) bool { return decision == restored || decision == rejected }

func lineageSet(tx *store.Tx, tip string) (map[string]bool, error) {
	line, err := tx.Lineage(tip)
	set := map[string]bool{}
	for _, c := range line {
		set[c.ID] = true
	}
	return set, err
}

// Checkpoint names the present state. Every run ends sealed, so an idle cell's
// state is a checkpoint already.
func (e *Engine) Checkpoint(ctx context.Context, cell, name string) (*CheckpointResult, error) {
	if name != "" {
		if err := checkName("checkpoint", name); err != nil {
			return nil, err
		}
	}
	s, err := e.hold(ctx, cell, "checkpoint", 0)
	if err != nil {
		return nil, err
	}
	defer s.release()
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	if name != "" {
		if err := e.store.Update(func(tx *store.Tx) error { return s.name(tx, name) }); err != nil {
			return nil, err
		}
	}
	return &CheckpointResult{Cell: cell, CheckpointID: s.head.ID, Root: s.head.Root(), MetaRoot: s.head.MetaRoot(), Name: name}, nil
}

// name gives the head a name; a name never moves silently from one state to
// another.
func (s *session) name(tx *store.Tx, name string) error {
	old, err := tx.Named(s.cell.ID, name)
	if err == nil && old.ID == s.head.ID {
		return nil
	}
	if err == nil {
		return refused("name_taken", "choose another name", "checkpoint name %s is in use for %s", name, old.ID)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err := tx.Name(s.cell.ID, name, s.head.ID); err != nil {
		return err
	}
	return s.e.logChange(tx, s.cell, s.head, opCheckpoint, map[string]string{"name": name})
}
