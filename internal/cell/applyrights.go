package cell

import (
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/apply"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/rights"
	"github.com/forkcell/forkcell/internal/tree"
)

// landing turns entries of a cell into entries of a directory of the host.
type landing struct {
	a     *application
	self  rights.Operator
	known map[string]*tree.Entry // what directories are, or become
	named map[string]bool        // paths of which something is dropped
}

// land makes the planned files the operator's own, and names what is dropped.
// What the directory has already but for that is named too.
func (a *application) land() error {
	l := &landing{a: a, self: rights.Self(a.req.AllowSetuid), known: map[string]*tree.Entry{}, named: map[string]bool{}}
	for i := range a.merge.ops {
		op := &a.merge.ops[i]
		if op.New == nil {
			continue
		}
		e, err := l.entry(op.Path, *op.New, op.Old)
		if err != nil {
			return err
		}
		op.New = &e
		l.known[op.Path] = &e
	}
	for _, ch := range a.changes {
		_, already := slices.BinarySearch(a.merge.already, ch.Path)
		if ch.New == nil || !already && !l.onlyRights(ch) {
			continue
		}
		have, err := apply.Glance(a.target, ch.Path)
		if err != nil {
			return err
		}
		if _, err := l.entry(ch.Path, *ch.New, have); err != nil {
			return err
		}
	}
	a.merge.already = slices.DeleteFunc(a.merge.already, func(p string) bool { return l.named[p] })
	return nil
}

// onlyRights reports whether a change is of nothing that lands.
func (l *landing) onlyRights(ch tree.Change) bool {
	if ch.Old == nil || ch.OldPath != "" || !l.a.pick.Match(ch.Path, isDirChange(ch)) {
		return false
	}
	was, is := l.self.Plain(*ch.Old), l.self.Plain(*ch.New)
	return apply.Equal(&was, &is, false)
}

// entry returns what lands at a path, and notes what is dropped.
func (l *landing) entry(p string, e tree.Entry, have *tree.Entry) (tree.Entry, error) {
	parent, err := l.parent(p)
	if err != nil {
		return e, err
	}
	landed, dropped := l.self.OnHost(e, have, parent)
	for _, what := range dropped {
		l.named[p] = true
		l.a.result.Dropped = append(l.a.result.Dropped, note(p, quote.Line(what)))
	}
	return landed, nil
}

// parent returns the directory that a path is in, as it will be.
func (l *landing) parent(p string) (*tree.Entry, error) {
	dir := path.Dir(p)
	if p == "." {
		return nil, nil //nolint:nilnil // the root has none that matters
	}
	if e, ok := l.known[dir]; ok {
		return e, nil
	}
	e, err := apply.Glance(l.a.target, dir)
	if err == nil {
		l.known[dir] = e
	}
	return e, err
}

// hazards holds back what would make the host run things later, or gain rights.
func (a *application) hazards() error {
	allow, err := leftout.NewSelector(a.req.AllowControl, nil)
	if err != nil {
		return api.Usagef("patterns are gitignore-style", "bad --allow-control: %v", err)
	}
	var held []string
	control, privilege := false, false
	for _, op := range a.merge.ops {
		isDir := op.New != nil && op.New.Kind == tree.KindDir
		allowed := len(a.req.AllowControl) > 0 && allow.Match(op.Path, isDir)
		if what, is := controlFile(op.Path, isDir); is && !allowed {
			held = append(held, quote.Path(op.Path)+": "+what)
			control = true
		}
		if op.New == nil || a.req.AllowSetuid {
			continue
		}
		if why := rights.Gain(*op.New, op.Old); why != "" {
			held = append(held, quote.Path(op.Path)+": gets the "+quote.Line(why))
			privilege = true
		}
	}
	tracked, err := a.heldRepositories(func(path string) bool { return len(a.req.AllowControl) > 0 && allow.Match(path, false) })
	if err != nil {
		return err
	}
	return heldBack(append(held, tracked...), control || len(tracked) > 0, privilege)
}

func controlFile(path string, isDir bool) (what string, is bool) {
	if isDir {
		return leftout.IsControlDir(path)
	}
	return leftout.IsControl(path)
}

func heldBack(held []string, control, privilege bool) error {
	if len(held) == 0 {
		return nil
	}
	var ways []string
	if control {
		ways = append(ways, "--allow-control PATTERN")
	}
	if privilege {
		ways = append(ways, "--allow-setuid")
	}
	return &api.Error{
		Kind: api.Refused, Code: api.CodeHeldBack,
		Message: api.Counted(len(held), "change") + " held back, nothing was written",
		Hint:    "look at them, then give " + strings.Join(ways, " or ") + ", or leave them out with --except", Details: held,
	}
}
