package statements

import (
	"context"
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/storage/store"
)

// Recover makes the database again from the signed log and the layers. What does
// not verify is left out and named; the old database is set aside, not deleted.
// Log and old database confirm each other: what only one of them knows is
// kept, and the error names it, unless acceptLoss is set. Then a signed statement
// says what is lost. The caller holds the home exclusively, and no process is at
// work on a cell.
func (l *Log) Recover(ctx context.Context, acceptLoss bool) (*api.RecoverResult, error) {
	res := &api.RecoverResult{Problems: []string{}, Kept: []string{}, Notes: []string{}}
	seqs, tail, err := l.store.SeqsOnDisk()
	if err != nil {
		return nil, err
	}
	b, err := l.newRebuild(res, seqs)
	if err != nil {
		return nil, err
	}
	b.tail, b.accept = tail, acceptLoss
	if res.OldDatabase, err = l.store.ResetDatabase(); err != nil {
		return nil, fmt.Errorf("set the old database aside: %w", err)
	}
	b.readWitness()
	if err := l.store.Update(func(tx *store.Tx) error { return b.restore(ctx, tx) }); err != nil {
		// Only the old database shows what the log lacks.
		return nil, errors.Join(fmt.Errorf("rebuild the database: %w", err), l.store.TakeBackDatabase(res.OldDatabase))
	}
	if err := l.store.NameHome(b.home); err != nil {
		return nil, fmt.Errorf("write home.json: %w", err)
	}
	return res, errors.Join(b.setAsideUnfinished(), b.lossError())
}

// readWitness reads the old database, if it can be read.
func (b *rebuild) readWitness() {
	if b.res.OldDatabase == "" {
		return
	}
	old, err := b.log.store.ReadAside(b.res.OldDatabase)
	if err != nil || len(old.Statements) == 0 {
		return // it is damaged
	}
	b.old = old
	for _, c := range old.Checkpoints {
		b.freed[c.ID] = c.Freed
	}
}

// restore fills an empty database: from the log, and with what only the old
// database knows.
func (b *rebuild) restore(ctx context.Context, tx *store.Tx) error {
	if err := b.replay(tx); err != nil {
		return err
	}
	if err := b.describeLayers(ctx, tx); err != nil {
		return err
	}
	compare := b.unknownLayers
	if b.old != nil {
		compare = b.keepWitnessed
	}
	if err := compare(tx); err != nil {
		return err
	}
	if err := b.count(tx); err != nil {
		return err
	}
	b.report()
	if !b.accept {
		return nil
	}
	return b.stateLoss(tx)
}

// count counts the cells, and names the states whose layers are gone.
func (b *rebuild) count(tx *store.Tx) error {
	cells, err := tx.Cells(true)
	if err != nil {
		return err
	}
	heads := map[string]string{}
	for _, c := range cells {
		if c.Name == "" {
			b.res.RemovedCells++
			continue
		}
		b.res.Cells++
		heads[c.Head] = c.Name
	}
	all, err := tx.Checkpoints("")
	gone := 0
	for _, c := range all {
		switch {
		case !c.Freed || b.freed[c.ID]:
		case heads[c.ID] != "":
			b.problem("checkpoint %s, the state of %s: its layer %s is gone", c.ID, heads[c.ID], c.Layer)
		case b.old != nil:
			b.problem("checkpoint %s: its layer %s is gone", c.ID, c.Layer)
		default:
			gone++
		}
	}
	if b.noOutput > 0 {
		b.res.Notes = append(b.res.Notes, api.Counted(b.noOutput, "run")+" without stored output: gc has freed it, or it is lost")
	}
	if gone > 0 {
		b.res.Notes = append(b.res.Notes, fmt.Sprintf("%s without layers: gc has freed them, or they are lost", api.Counted(gone, "checkpoint")))
	}
	return err
}

// setAsideUnfinished sets aside the work that no record is left of, and names it.
func (b *rebuild) setAsideUnfinished() error {
	kept, err := b.log.store.SetAsidePending(func(op string) bool { return b.begun[op] })
	for _, k := range kept {
		b.res.Problems = append(b.res.Problems, "unfinished work was kept in "+k)
	}
	if err != nil {
		return err
	}
	journals, err := b.log.layers.UnendedJournals()
	for _, j := range journals {
		if !b.begun[j] {
			b.res.Problems = append(b.res.Problems, "a directory may be half written: what it held before is in applies/"+j)
		}
	}
	return err
}
