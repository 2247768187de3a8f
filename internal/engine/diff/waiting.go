package diff

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// compareUndecided compares the state before all undecided work with the state after it: what an
// acceptance takes. It reports whether there is such work.
func (d *comparison) compareUndecided(ctx context.Context) (found bool, err error) {
	var line []store.Checkpoint
	var list []home.Work
	err = d.e.View(func(tx *store.Tx) error {
		before, work, err := d.findWork(tx)
		if err != nil || len(work) == 0 {
			return err
		}
		found = true
		d.from, d.to = before, work[len(work)-1].After()
		later := d.to.ID != d.cell.Head
		if later { // what came since, decided work or the source, stands on top
			if d.to, err = tx.Checkpoint(d.cell.Head); err != nil {
				return err
			}
		}
		d.show(work, 0)
		err = d.sourceSince(tx, before)
		if err != nil || !later && d.from.ID != before.ID || work[0].States[0].Parent != before.ID {
			return err
		}
		line, err = tx.Lineage(d.to.ID)
		if at := slices.IndexFunc(line, func(c store.Checkpoint) bool { return c.ID == before.ID }); at >= 0 {
			line, list = line[:at+1], work
		}
		return err
	})
	if err != nil || len(list) == 0 {
		return found, err
	}
	return true, d.onlyWork(ctx, line, list)
}

// onlyWork leaves out the paths that only other states than those of the undecided work
// changed. The last state of the line is the one before that work.
func (d *comparison) onlyWork(ctx context.Context, line []store.Checkpoint, work []home.Work) error {
	made, others := map[string]bool{}, false
	for _, w := range work {
		for _, state := range w.States {
			made[state.ID] = true
		}
	}
	between := line[:len(line)-1]
	for _, state := range between {
		others = others || !made[state.ID]
	}
	if !others {
		return nil
	}
	d.only = map[string]bool{}
	for i, state := range between {
		if !made[state.ID] {
			continue
		}
		if err := d.e.AddChanged(ctx, d.cell, line[i+1], state, d.only); err != nil {
			return err
		}
	}
	return nil
}

// findWork returns the undecided work that the head contains, and the state before it.
func (d *comparison) findWork(tx *store.Tx) (before store.Checkpoint, work []home.Work, err error) {
	if d.work == nil {
		d.before, d.work, err = d.e.cells.UndecidedWork(tx, d.cell, d.cell.Head)
	}
	return d.before, d.work, err
}

// sourceSince compares with the state of the source that a refresh brought in after the
// undecided work began: what came from the source is no part of the work. The state
// before must be applied.
func (d *comparison) sourceSince(tx *store.Tx, before store.Checkpoint) error {
	old, err := d.appliedState(tx, before)
	if err != nil || old.ID == "" || old.Root() != before.Root() {
		return err
	}
	now, err := d.appliedState(tx, d.to)
	if err == nil && now.ID != "" && !now.Freed {
		d.from = now
	}
	return err
}

// appliedState returns the state of the source that a state builds on, as apply compares them,
// or none if nothing can be applied.
func (d *comparison) appliedState(tx *store.Tx, state store.Checkpoint) (store.Checkpoint, error) {
	if d.cell.Live != "" || d.cell.Source == "" {
		return store.Checkpoint{}, nil
	}
	c, err := home.BaseState(tx, d.cell, state)
	if api.CodeOf(err) == api.CodeStateLost {
		return store.Checkpoint{}, nil
	}
	return c, err
}

// show notes the undecided work whose changes the comparison shows: that from a number on.
func (d *comparison) show(work []home.Work, from int) {
	d.waits = true
	for i, w := range work {
		if i >= from {
			d.runs = append(d.runs, w.ID)
			continue
		}
		d.earlier = append(d.earlier, earlierWork(w))
	}
}

// waiting finds the undecided work whose changes the comparison shows, and that which both
// states have.
func (d *comparison) waiting(ctx context.Context) error {
	err := d.e.View(func(tx *store.Tx) error {
		before, work, err := d.findWork(tx)
		if err != nil || len(work) == 0 {
			return err
		}
		if !d.waits {
			if err := d.shownWork(tx, work); err != nil || !d.waits {
				return err
			}
		}
		if d.req.Run != "" || d.req.SinceApply {
			return nil
		}
		d.begin = before
		d.source, err = d.appliedState(tx, before)
		return err
	})
	if err != nil || d.source.ID == "" || d.source.Root() == d.begin.Root() || d.source.Freed || d.begin.Freed {
		return err
	}
	d.unapplied, err = d.e.ChangedBetween(ctx, d.cell, d.source, d.begin)
	return err
}

// shownWork finds the part of the undecided work that a comparison shows. The end of the
// comparison is the present state, or one that the work made.
func (d *comparison) shownWork(tx *store.Tx, work []home.Work) error {
	made := func(w home.Work) bool {
		return slices.ContainsFunc(w.States, func(c store.Checkpoint) bool { return c.ID == d.to.ID })
	}
	if last := slices.IndexFunc(work, made); last >= 0 {
		work = work[:last+1]
	} else if d.to.ID != d.cell.Head {
		return nil
	}
	first := slices.IndexFunc(work, func(w home.Work) bool { return w.States[0].Parent == d.from.ID })
	if first < 0 {
		old, err := home.LineageOf(tx, d.from.ID)
		if err != nil {
			return err
		}
		first = slices.IndexFunc(work, func(w home.Work) bool { return !old[w.After().ID] })
	}
	if first < 0 {
		first = len(work)
	}
	d.show(work, first)
	return nil
}

// earlierWork describes undecided work that a comparison does not show.
func earlierWork(w home.Work) api.EarlierWork {
	e := api.EarlierWork{ID: w.ID, CheckpointBefore: w.States[0].Parent, CheckpointAfter: w.After().ID}
	if w.Run != nil {
		e.Command, e.ChangedFiles = w.Run.Command, w.Run.Changed
		if w.Run.Executed != nil && json.Unmarshal(w.Run.Executed, &e.Executed) != nil {
			e.Executed = nil // the receipt has it
		}
	}
	return e
}
