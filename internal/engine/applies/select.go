package applies

import (
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// selects reports whether an apply takes a path: the user selected it, and it is not
// set aside.
func (a *application) selects(p string, dir bool) bool {
	return !a.kept[p] && !a.behind[p] && a.aside.Except(a.pick, a.gate.Allows)(p, dir)
}

// selective reports whether the apply may leave changes out.
func (a *application) selective() bool {
	return len(a.req.Only)+len(a.req.Except) > 0 || a.leaves
}

// leftOut reports whether the secret rules leave a path out. Such a path of the
// source is never touched. It counts if it was left out at import, or if a rule
// matches it and it exists now.
func (a *application) leftOut(path string, isDir bool) bool {
	for _, l := range a.Record.LeftOut {
		if fsx.Within(path, string(l.Path)) {
			return true
		}
	}
	for _, k := range a.Record.Kept {
		if k == path {
			return false
		}
	}
	if _, v := a.At.Rules.With(nil).Reading(a.target.OpenFile).Decide(path, isDir); v != secretfiles.Leave {
		return false
	}
	_, err := a.target.Lstat(path)
	return err == nil
}
