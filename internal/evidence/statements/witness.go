package statements

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// The kinds of things that gc leaves alone until the operator accepts their loss.
const (
	keptCheckpoint = "checkpoint"
	keptLayer      = "layer"
)

// witness compares the database before a recovery with the log. What only one of
// them knows is kept, or, where the loss is accepted, noted as lost.
type witness struct {
	b    *rebuild
	tx   *store.Tx
	last int64 // the newest statement that the old database knows

	cells map[string]bool // cells with statements that only the old database knows
	runs  map[string]bool
	newer map[string]bool // cells whose newest statement is such a one
	ahead map[string]bool // cells with statements that the old database came too early for
}

// keepWitnessed compares a rebuilt database with the old one.
func (b *rebuild) keepWitnessed(tx *store.Tx) error {
	w := &witness{
		b: b, tx: tx, cells: map[string]bool{}, runs: map[string]bool{}, newer: map[string]bool{}, ahead: map[string]bool{},
	}
	for _, step := range []func() error{w.statements, w.cellRows, w.checkpoints, w.runRows, w.takeRest, w.onlyInLog, w.keptBefore} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (b *rebuild) keep(tx *store.Tx, k store.KeptRecord, format string, args ...any) error {
	b.res.Kept = append(b.res.Kept, fmt.Sprintf(format, args...))
	if k.ID == "" {
		return nil
	}
	return tx.Keep(k)
}

func (w *witness) statements() error {
	for _, st := range w.b.old.Statements {
		w.last = max(w.last, st.Seq)
	}
	known, err := w.tx.Statements("")
	if err != nil {
		return err
	}
	last, end := map[string]int64{}, int64(0)
	for _, st := range known {
		last[st.CellID], end = st.Seq, st.Seq
		w.ahead[st.CellID] = st.Seq > w.last
	}
	if end > w.last {
		w.b.res.Notes = append(w.b.res.Notes, fmt.Sprintf("the old database ended at statement %d; the log had the others up to %d", w.last, end))
	}
	for _, st := range w.b.old.Statements {
		if w.b.taken[st.Seq] {
			continue
		}
		w.b.partial, w.b.lost[st.Seq], w.b.digests[st.Seq] = true, true, st.Digest
		w.cells[st.CellID], w.runs[st.RunID] = true, true
		w.newer[st.CellID] = w.newer[st.CellID] || st.Seq > last[st.CellID]
		if w.b.accept {
			continue
		}
		// Its number stays taken, and what follows is chained to it.
		w.b.taken[st.Seq] = true
		if err := w.tx.IndexStatement(st); err != nil {
			return err
		}
		if err := w.b.keep(w.tx, store.KeptRecord{}, "statement %d (%s) is lost; the database has its record", st.Seq, st.Kind); err != nil {
			return err
		}
	}
	delete(w.runs, "")
	return nil
}

func (w *witness) cellRows() error {
	for _, c := range w.b.old.Cells {
		_, err := w.tx.CellByID(c.ID)
		missing := errors.Is(err, store.ErrNotFound)
		if err != nil && !missing {
			return err
		}
		if !missing && !w.newer[c.ID] {
			continue
		}
		if missing && !w.cells[c.ID] {
			w.b.problem("the old database has a cell %s that no statement mentions; it is left out", c.ID)
			continue
		}
		if w.b.accept {
			if missing {
				w.b.lostCells = append(w.b.lostCells, c.ID)
			}
			continue
		}
		if err := w.tx.PutCell(c); errors.Is(err, store.ErrTaken) {
			w.b.problem("cell %s: %v", c.ID, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (w *witness) checkpoints() error {
	for _, c := range w.b.old.Checkpoints {
		_, err := w.tx.Checkpoint(c.ID)
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if !w.cells[c.CellID] {
			w.b.problem("the old database has a checkpoint %s that no statement mentions; it is left out", c.ID)
			continue
		}
		if w.b.accept {
			w.giveUp(c)
			continue
		}
		if err := w.tx.PutCheckpoint(c); err != nil {
			return err
		}
		if c.Freed {
			continue
		}
		if err := w.b.keep(w.tx, store.KeptRecord{Kind: keptCheckpoint, ID: c.ID}, "checkpoint %s: its statement is lost; the database has its record", c.ID); err != nil {
			return err
		}
	}
	return nil
}

// giveUp notes a state as lost, and its layer if nothing else is in it.
func (w *witness) giveUp(c store.Checkpoint) {
	if c.Freed {
		return
	}
	w.b.lostStates = append(w.b.lostStates, c.ID)
	if !w.b.named[c.Layer] {
		w.b.lostLayers = append(w.b.lostLayers, c.Layer)
	}
}

func (w *witness) runRows() error {
	for _, r := range w.b.old.Runs {
		_, err := w.tx.Run(r.ID)
		missing := errors.Is(err, store.ErrNotFound)
		if err != nil && !missing {
			return err
		}
		begun := missing && r.State == "running"
		if begun && w.b.accept {
			if begun, err = w.canContinue(r); err != nil {
				return err
			}
		}
		switch {
		case begun, w.runs[r.ID] && !w.b.accept:
			if err := w.tx.PutRun(r); err != nil {
				return err
			}
			w.b.begun[r.ID] = begun
		case missing && (w.runs[r.ID] || r.State == "running"):
			w.b.lostRuns = append(w.b.lostRuns, r.ID)
		case missing:
			w.b.problem("the old database has a run %s that no statement mentions; it is left out", r.ID)
		}
	}
	return nil
}

// canContinue reports whether an unfinished run still has its cell and the state that
// it began with.
func (w *witness) canContinue(r store.Run) (bool, error) {
	_, noCell := w.tx.CellByID(r.CellID)
	_, noState := w.tx.Checkpoint(r.Before)
	for _, err := range []error{noCell, noState} {
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// takeRest takes names, applies and what was under way.
func (w *witness) takeRest() error {
	for _, l := range w.b.old.Labels {
		if w.cells[l.CellID] && !w.b.accept {
			if err := w.tx.Name(l.CellID, l.Name, l.Checkpoint); err != nil {
				return err
			}
		}
	}
	for _, a := range w.b.old.Applies {
		if w.cells[a.CellID] && !w.b.accept {
			if err := w.tx.PutApply(a); err != nil {
				return err
			}
		}
	}
	for _, in := range w.b.old.Intents {
		_, err := w.tx.CellByID(in.CellID)
		gone := errors.Is(err, store.ErrNotFound)
		if err != nil && !gone {
			return err
		}
		// A cell goes on only when its intents are settled. So one with newer
		// statements has none of that time.
		if w.ahead[in.CellID] || gone && in.Kind != store.IntentInit && in.Kind != store.IntentRace {
			continue
		}
		if err := w.tx.PutIntent(in.ID, in.CellID, in.Kind, in.Doc); err != nil {
			return err
		}
		w.b.begun[in.ID] = true
	}
	return nil
}

// onlyInLog keeps the states that the old database did not have, though it knew
// the statements that give them. One that ended earlier, because its newest pages
// are lost, lacks nothing that the log does not have.
func (w *witness) onlyInLog() error {
	had := map[string]bool{}
	for _, c := range w.b.old.Checkpoints {
		had[c.ID] = true
	}
	now, err := w.tx.Checkpoints("")
	if err != nil || w.b.accept {
		return err
	}
	for _, c := range now {
		if had[c.ID] || c.Freed || w.b.seen[c.ID] > w.last {
			continue
		}
		if err := w.b.keep(w.tx, store.KeptRecord{Kind: keptCheckpoint, ID: c.ID}, "checkpoint %s was missing in the database; the log has it", c.ID); err != nil {
			return err
		}
	}
	return nil
}

// keptBefore keeps what an earlier recovery kept, unless its loss was accepted.
func (w *witness) keptBefore() error {
	if w.b.accept {
		return nil
	}
	now, err := w.tx.KeptRecords()
	if err != nil {
		return err
	}
	for _, k := range w.b.old.Kept {
		if slices.Contains(now, k) {
			continue
		}
		if k.Kind == keptLayer {
			if _, there := w.b.layers[k.ID]; there && !w.b.named[k.ID] {
				w.b.partial = true
				err = w.b.keep(w.tx, k, "layer %s is in no statement, and an earlier recovery kept it", k.ID)
			}
		} else if c, missing := w.tx.Checkpoint(k.ID); missing == nil && !c.Freed {
			err = w.b.keep(w.tx, k, "checkpoint %s was kept by an earlier recovery", k.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unknownLayers keeps the layers that the log does not name, in a recovery without
// an old database: nothing says what they are.
func (b *rebuild) unknownLayers(tx *store.Tx) error {
	for _, layer := range slices.Sorted(maps.Keys(b.layers)) {
		known := slices.ContainsFunc(b.losses, func(l *receipt.Loss) bool { return slices.Contains(l.Layers, layer) })
		if b.named[layer] || known {
			continue
		}
		if b.accept {
			b.lostLayers = append(b.lostLayers, layer)
			continue
		}
		b.partial = true
		if err := b.keep(tx, store.KeptRecord{Kind: keptLayer, ID: layer}, "layer %s is in no statement, and the database is lost", layer); err != nil {
			return err
		}
	}
	return nil
}

// lossError returns the error of a recovery that found things known to one side
// only, or nil.
func (b *rebuild) lossError() error {
	if len(b.res.Kept) == 0 {
		return nil
	}
	e := &api.Error{
		Kind: api.Refused, Code: api.CodeLoss, Details: b.res.Kept,
		Message: "the database is rebuilt; known to only one of log and database, and kept: " + api.Counted(len(b.res.Kept), "thing"),
		Hint:    "the log has all of it; `forkcell recover --accept-loss` lets gc free what nothing needs",
	}
	if b.partial {
		e.Hint = "put the missing files of log/ back and recover again, or give them up with `forkcell recover --accept-loss`"
	}
	return e
}

// KeptRecords lists what gc leaves alone until the operator accepts a loss.
func (l *Log) KeptRecords(tx *store.Tx) (states, layers map[string]bool, err error) {
	states, layers = map[string]bool{}, map[string]bool{}
	things, err := tx.KeptRecords()
	for _, k := range things {
		if k.Kind == keptCheckpoint {
			states[k.ID] = true
			continue
		}
		chain, err := l.layers.Chain(k.ID)
		if err != nil {
			chain = []string{k.ID}
		}
		for _, l := range chain {
			layers[l] = true
		}
	}
	return states, layers, err
}

// RefuseLostRows finds layers that the log gives to a checkpoint which the
// database lacks: gc would take them for garbage.
func (l *Log) RefuseLostRows(tx *store.Tx) error {
	chks, err := tx.Checkpoints("")
	if err != nil {
		return err
	}
	have, layers := map[string]bool{}, map[string]bool{}
	for _, c := range chks {
		have[c.ID], layers[c.Layer] = true, true
	}
	infos, _, err := l.layers.LayerInfos()
	if err != nil || !slices.ContainsFunc(infos, func(i workspace.Info) bool { return !layers[i.Layer] }) {
		return err
	}
	seqs, _, err := l.store.SeqsOnDisk()
	if err != nil {
		return err
	}
	signed, err := l.replay(seqs, nil)
	if err != nil {
		return err
	}
	for _, r := range signed.rows {
		if r.Table == "checkpoints" && r.Columns["freed"] != "1" && !have[r.Key] {
			return api.Refusef(api.CodeLostRows, "`forkcell recover` puts it back", "the database lacks checkpoint %s, which the log has; nothing was freed", r.Key)
		}
	}
	return nil
}
