// Package aside decides which changes of a cell whose runs masked control files are no
// part of its work.
//
// It reads the records of runs, and knows nothing of files or of what becomes of changes.
package aside

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/mask"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Rules decide which changes of a cell whose runs masked control files are no part
// of its work. Nil rules take every change.
type Rules struct{ rules *mask.Rules }

// Of returns the rules of a cell, by the runs that masked control files; nil if
// none did.
func (m *Memo) Of(tx *store.Tx, c store.Cell) (*Rules, error) {
	masks, err := m.Runs(tx, c.ID)
	if err != nil || len(masks) == 0 {
		return nil, err
	}
	var opt mask.Options
	for _, r := range masks {
		var files api.ControlFiles
		if err := json.Unmarshal(r.Control, &files); err != nil {
			return nil, fmt.Errorf("the masks of run %s: %w", r.ID, err)
		}
		opt.Also, opt.State = append(opt.Also, files.Also...), append(opt.State, files.State...)
	}
	rules, err := mask.NewRules(opt)
	if err != nil {
		return nil, fmt.Errorf("the masks of cell %s: %w", c.Name, err)
	}
	return &Rules{rules}, nil
}

// maxMasks bounds the number of cells of which a Memo knows the runs.
const maxMasks = 10_000

// Memo keeps which runs of each cell masked control files. What has ended does not
// change, so only the runs after it are read again.
type Memo struct {
	mu    sync.Mutex
	cells map[string]knownMasks
}

type knownMasks struct {
	upTo int64 // the number of the last run that was looked at
	runs []store.Run
}

// Runs returns the runs of a cell that masked control files, oldest first.
func (m *Memo) Runs(tx *store.Tx, cellID string) ([]store.Run, error) {
	m.mu.Lock()
	kept := m.cells[cellID]
	m.mu.Unlock()
	more, err := tx.MaskingRuns(cellID, kept.upTo)
	if err != nil {
		return nil, err
	}
	runs := append(slices.Clip(kept.runs), more...)
	upTo, err := tx.SettledUpTo(cellID)
	if err != nil || upTo <= kept.upTo {
		return runs, err
	}
	settled := slices.DeleteFunc(slices.Clone(runs), func(r store.Run) bool { return r.Ord > upTo })
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cells == nil || len(m.cells) >= maxMasks {
		m.cells = map[string]knownMasks{}
	}
	m.cells[cellID] = knownMasks{upTo, settled}
	return runs, nil
}

// Has reports whether a path is set aside, or is the state of an agent.
func (a *Rules) Has(p string, dir bool) (aside, state bool) {
	if a == nil || path.IsAbs(p) { // absolute paths are those of other areas
		return false, false
	}
	if a.rules.IsState(p, dir) {
		return false, true
	}
	return a.rules.IsAside(p, dir), false
}

// Split calls take for the changes that are part of the work, and keep for those
// that are set aside.
func (a *Rules) Split(ch tree.Change, take, keep func(tree.Change) error) error {
	aside, state := a.Has(ch.Path, home.IsDirChange(ch))
	switch {
	case state:
		return nil
	case aside:
		return keep(ch)
	}
	return take(ch)
}

// Except returns the selection of an apply: what a user selected, without what is
// set aside and not allowed by name.
func (a *Rules) Except(pick *secretfiles.Selector, allowed func(path string, dir bool) bool) func(string, bool) bool {
	return func(p string, dir bool) bool {
		aside, state := a.Has(p, dir)
		return pick.Match(p, dir) && !state && (!aside || allowed(p, dir))
	}
}

// KeptNames returns the old paths of renamed files whose new paths are not selected.
// They stay, whatever the patterns say: a file must not be lost because its new path
// is left out.
func KeptNames(changes []tree.Change, pick *secretfiles.Selector) map[string]bool {
	kept := map[string]bool{}
	for _, c := range changes {
		if c.OldPath != "" && !pick.Match(c.Path, home.IsDirChange(c)) {
			kept[c.OldPath] = true
		}
	}
	return kept
}
