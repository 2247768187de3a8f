package cell

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/workspace"
)

// The kinds of things that gc leaves alone until the operator accepts their loss.
const (
	keptCheckpoint = "checkpoint"
	keptLayer      = "layer"
)

// witness compares the database before a recovery with the log. What only one of
// them knows is kept.
type witness struct {
	b    *rebuild
	tx   *store.Tx
	old  *store.Witness
	lost map[int64]store.Statement // statements that only the database knows

	cells map[string]bool // cells with such statements
	runs  map[string]bool
	newer map[string]bool // cells whose newest statement is such a one
}

// keepWitnessed adds to a rebuilt database what only the old one knows.
func (b *rebuild) keepWitnessed(tx *store.Tx, old *store.Witness) error {
	w := &witness{
		b: b, tx: tx, old: old, lost: map[int64]store.Statement{},
		cells: map[string]bool{}, runs: map[string]bool{}, newer: map[string]bool{},
	}
	for _, step := range []func() error{w.statements, w.cellRows, w.checkpoints, w.runRows, w.rest, w.onlyInLog} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (w *witness) kept(k store.Kept, format string, args ...any) error {
	w.b.res.Kept = append(w.b.res.Kept, fmt.Sprintf(format, args...))
	if k.ID == "" {
		return nil
	}
	return w.tx.Keep(k)
}

func (w *witness) statements() error {
	known, err := w.tx.Statements("")
	if err != nil {
		return err
	}
	have, last := map[int64]bool{}, map[string]int64{}
	for _, st := range known {
		have[st.Seq], last[st.CellID] = true, st.Seq
	}
	for _, st := range w.old.Statements {
		if have[st.Seq] {
			continue
		}
		w.lost[st.Seq], w.cells[st.CellID], w.runs[st.RunID] = st, true, true
		w.newer[st.CellID] = w.newer[st.CellID] || st.Seq > last[st.CellID]
		// Its number stays taken, and what follows is chained to it.
		if err := w.tx.IndexStatement(st); err != nil {
			return err
		}
		if err := w.kept(store.Kept{}, "statement %d (%s) is lost; the database has its record", st.Seq, st.Kind); err != nil {
			return err
		}
	}
	delete(w.runs, "")
	return nil
}

func (w *witness) cellRows() error {
	for _, c := range w.old.Cells {
		_, err := w.tx.CellByID(c.ID)
		missing := errors.Is(err, store.ErrNotFound)
		if err != nil && !missing {
			return err
		}
		if !missing && !w.newer[c.ID] {
			continue
		}
		if missing && !w.cells[c.ID] {
			w.b.problem("the old database has a cell %s that no statement is about; it is left out", c.ID)
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
	for _, c := range w.old.Checkpoints {
		_, err := w.tx.Checkpoint(c.ID)
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if !w.cells[c.CellID] {
			w.b.problem("the old database has a checkpoint %s that no statement is about; it is left out", c.ID)
			continue
		}
		if err := w.tx.PutCheckpoint(c); err != nil {
			return err
		}
		if c.Freed {
			continue
		}
		if err := w.kept(store.Kept{Kind: keptCheckpoint, ID: c.ID}, "checkpoint %s: its statement is lost; the database has its record", c.ID); err != nil {
			return err
		}
	}
	return nil
}

func (w *witness) runRows() error {
	for _, r := range w.old.Runs {
		_, err := w.tx.Run(r.ID)
		missing := errors.Is(err, store.ErrNotFound)
		switch {
		case err != nil && !missing:
			return err
		case w.runs[r.ID], missing && r.State == "running":
			if err := w.tx.PutRun(r); err != nil {
				return err
			}
			w.b.begun[r.ID] = r.State == "running"
		case missing:
			w.b.problem("the old database has a run %s that no statement is about; it is left out", r.ID)
		}
	}
	return nil
}

// rest takes names, applies and what was under way.
func (w *witness) rest() error {
	for _, l := range w.old.Labels {
		if w.cells[l.CellID] {
			if err := w.tx.Name(l.CellID, l.Name, l.Checkpoint); err != nil {
				return err
			}
		}
	}
	for _, a := range w.old.Applies {
		if w.cells[a.CellID] {
			if err := w.tx.PutApply(a); err != nil {
				return err
			}
		}
	}
	for _, in := range w.old.Intents {
		if err := w.tx.PutIntent(in.ID, in.CellID, in.Kind, in.Doc); err != nil {
			return err
		}
		w.b.begun[in.ID] = true
	}
	return nil
}

// onlyInLog keeps the states that the old database did not have.
func (w *witness) onlyInLog() error {
	had := map[string]bool{}
	for _, c := range w.old.Checkpoints {
		had[c.ID] = true
	}
	now, err := w.tx.Checkpoints("")
	if err != nil {
		return err
	}
	for _, c := range now {
		if had[c.ID] || c.Freed {
			continue
		}
		if err := w.kept(store.Kept{Kind: keptCheckpoint, ID: c.ID}, "checkpoint %s was missing in the database; the log has it", c.ID); err != nil {
			return err
		}
	}
	return nil
}

// keepUnknownLayers keeps the layers that the log does not name. It is for a
// recovery without an old database: nobody can tell what they are.
func (b *rebuild) keepUnknownLayers(tx *store.Tx) error {
	for _, layer := range slices.Sorted(maps.Keys(b.layers)) {
		if b.named[layer] {
			continue
		}
		b.res.Kept = append(b.res.Kept, fmt.Sprintf("layer %s is in no statement, and the database is lost", layer))
		if err := tx.Keep(store.Kept{Kind: keptLayer, ID: layer}); err != nil {
			return err
		}
	}
	return nil
}

// lossError says after a recovery that something is known to one side only.
func lossError(res *RecoverResult) error {
	if len(res.Kept) == 0 {
		return nil
	}
	return &Error{
		Kind: Refused, Code: "loss", Details: res.Kept,
		Message: "the database is rebuilt; known to only one of log and database, and kept: " + counted(len(res.Kept), "thing"),
		Hint:    "put the missing files of log/ back and run `forkcell recover` again, or give them up with `forkcell recover --accept-loss`",
	}
}

// keptByLoss lists what gc leaves alone until the operator accepts a loss.
func (e *Engine) keptByLoss(tx *store.Tx) (states, layers map[string]bool, err error) {
	states, layers = map[string]bool{}, map[string]bool{}
	things, err := tx.KeptThings()
	for _, k := range things {
		if k.Kind == keptCheckpoint {
			states[k.ID] = true
			continue
		}
		chain, err := e.ws.Chain(k.ID)
		if err != nil {
			chain = []string{k.ID}
		}
		for _, l := range chain {
			layers[l] = true
		}
	}
	return states, layers, err
}

// refuseLostRows finds layers that the log gives to a checkpoint which the
// database lacks: gc would take them for garbage.
func (e *Engine) refuseLostRows(tx *store.Tx) error {
	chks, err := tx.Checkpoints("")
	if err != nil {
		return err
	}
	have, layers := map[string]bool{}, map[string]bool{}
	for _, c := range chks {
		have[c.ID], layers[c.Layer] = true, true
	}
	infos, _, err := e.ws.LayerInfos()
	if err != nil || !slices.ContainsFunc(infos, func(i workspace.Info) bool { return !layers[i.Layer] }) {
		return err
	}
	seqs, _, err := e.store.SeqsOnDisk()
	if err != nil {
		return err
	}
	signed, err := e.replayed(seqs)
	if err != nil {
		return err
	}
	for _, r := range signed {
		if r.Table == "checkpoints" && r.Columns["freed"] != "1" && !have[r.Key] {
			return refused("lost_rows", "`forkcell recover` puts it back", "the database lacks checkpoint %s, which the log has; nothing was freed", r.Key)
		}
	}
	return nil
}
