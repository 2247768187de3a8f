package cell

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/mask"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/tree"
)

// aside decides which changes of a cell whose runs masked control files are no part
// of its work. A nil aside takes every change.
type aside struct{ rules *mask.Rules }

// AsideHeading is the heading of changes that are set aside.
const AsideHeading = "Set aside (control files; apply writes them only with --allow-control PATTERN):"

// asideOf returns the rules of a cell, by the runs that masked control files; nil if
// none did.
func asideOf(tx *store.Tx, c store.Cell) (*aside, error) {
	runs, err := tx.Runs(c.ID)
	if err != nil {
		return nil, err
	}
	var opt mask.Options
	masked := false
	for _, r := range runs {
		if r.Control == nil {
			continue
		}
		var files api.ControlFiles
		if err := json.Unmarshal(r.Control, &files); err != nil {
			return nil, fmt.Errorf("the masks of run %s: %w", r.ID, err)
		}
		masked = true
		opt.Also, opt.State = append(opt.Also, files.Also...), append(opt.State, files.State...)
	}
	if !masked {
		return nil, nil //nolint:nilnil // as documented
	}
	rules, err := mask.NewRules(opt)
	if err != nil {
		return nil, fmt.Errorf("the masks of cell %s: %w", c.Name, err)
	}
	return &aside{rules}, nil
}

// has reports whether a path is set aside, or is the state of an agent.
func (a *aside) has(p string, dir bool) (aside, state bool) {
	if a == nil || path.IsAbs(p) { // absolute paths are those of other areas
		return false, false
	}
	if a.rules.IsState(p, dir) {
		return false, true
	}
	return a.rules.IsAside(p, dir), false
}

// split calls take for the changes that are part of the work, and keep for those
// that are set aside.
func (a *aside) split(ch tree.Change, take, keep func(tree.Change) error) error {
	aside, state := a.has(ch.Path, isDirChange(ch))
	switch {
	case state:
		return nil
	case aside:
		return keep(ch)
	}
	return take(ch)
}

// except returns the selection of an apply: what a user selected, without what is
// set aside and not allowed by name.
func (a *aside) except(pick *leftout.Selector, allowed func(path string, dir bool) bool) func(string, bool) bool {
	return func(p string, dir bool) bool {
		aside, state := a.has(p, dir)
		return pick.Match(p, dir) && !state && (!aside || allowed(p, dir))
	}
}

// keptNames returns the old paths of renamed files whose new paths are not selected.
// They stay, whatever the patterns say: a file must not be lost because its new path
// is left out.
func keptNames(changes []tree.Change, pick *leftout.Selector) map[string]bool {
	kept := map[string]bool{}
	for _, c := range changes {
		if c.OldPath != "" && !pick.Match(c.Path, isDirChange(c)) {
			kept[c.OldPath] = true
		}
	}
	return kept
}

func controlFile(path string, isDir bool) (what string, is bool) {
	if isDir {
		return leftout.IsControlDir(path)
	}
	return leftout.IsControl(path)
}
