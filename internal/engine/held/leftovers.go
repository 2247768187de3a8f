package held

import (
	"context"
	"fmt"

	"github.com/forkcell/forkcell/internal/storage/store"
)

// Leftovers ends what processes that died left. Who holds cells knows none of that work.
type Leftovers struct {
	// Finishers finish or undo changes, each those of one kind.
	Finishers []Finisher
	// Run finishes a run.
	Run func(context.Context, *Cell, store.Run) error
	// Races removes the cells that races left in the home. What cannot be removed is no
	// failure of who holds a cell: the next command tries again.
	Races func(context.Context)
}

// Finisher finishes or undoes changes that span the database and files.
type Finisher struct {
	Kind   string // of the intents
	Finish func(context.Context, *Cell, store.Intent) error
	// Needs, if set, adds what must be kept until a change is finished.
	Needs func(store.Intent, Holdings) error
}

// Holdings are the states and layers that unfinished changes need.
type Holdings struct {
	States map[string]bool // checkpoints
	Layers map[string]bool // including those that no checkpoint refers to yet
}

// AddNeeds adds what an intent needs until it is finished.
func (l *Leftovers) AddNeeds(in store.Intent, needed Holdings) error {
	f := l.find(in.Kind)
	if f == nil || f.Needs == nil {
		return nil
	}
	if err := f.Needs(in, needed); err != nil {
		return fmt.Errorf("intent %s: %w", in.ID, err)
	}
	return nil
}

func (l *Leftovers) find(kind string) *Finisher {
	for i := range l.Finishers {
		if l.Finishers[i].Kind == kind {
			return &l.Finishers[i]
		}
	}
	return nil
}

// settle finishes or undoes the work that a dead process left in a cell. This process
// has the lock, so no other one works on it.
func (l *Leftovers) settle(ctx context.Context, s *Cell) error {
	var intents []store.Intent
	var runs []store.Run
	err := s.Home.Store.View(func(tx *store.Tx) (err error) {
		if intents, err = tx.Intents(s.Record.ID); err != nil {
			return err
		}
		runs, err = tx.UnfinishedRuns(s.Record.ID)
		return err
	})
	if err != nil {
		return err
	}
	if len(intents) == 0 && len(runs) == 0 {
		return nil
	}
	for _, in := range intents {
		s.Home.Logger.Info("finish a change whose process died", "cell", s.Record.LastName, "kind", in.Kind)
		if err := l.finish(ctx, s, in); err != nil {
			return fmt.Errorf("finish what an earlier process began on %s: %w", s.Record.LastName, err)
		}
	}
	for _, r := range runs {
		s.Home.Logger.Info("finish a run whose process died", "cell", s.Record.LastName, "run", r.ID)
		if err := l.Run(ctx, s, r); err != nil {
			return fmt.Errorf("finish the run %s that an earlier process began: %w", r.ID, err)
		}
	}
	return s.Reload()
}

func (l *Leftovers) finish(ctx context.Context, s *Cell, in store.Intent) error {
	f := l.find(in.Kind)
	if f == nil {
		return fmt.Errorf("unknown intent %q: a newer version left it", in.Kind)
	}
	return f.Finish(ctx, s, in)
}
