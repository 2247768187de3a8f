package leftout

import (
	"os"
	"strings"
)

// Verdict is what an import does with a path.
type Verdict uint8

const (
	// Keep: no rule is about it.
	Keep Verdict = iota
	// KeepTracked: a rule would leave it out, but git tracks it (or, of a
	// directory, something in it). It is imported, and listed. What else such a
	// directory holds is asked one by one.
	KeepTracked
	// KeepPublic: a rule would leave it out, but it is seen to hold only public
	// certificates or keys.
	KeepPublic
	// Leave: it is left out, a directory whole, and listed.
	Leave
)

// Filter is rules together with what git tracks. It is immutable.
type Filter struct {
	rules   *Rules
	tracked map[string]struct{}
	dirs    map[string]struct{}
	open    func(path string) (*os.File, error)
}

// With joins the rules and the paths that git tracks. Tracked files are already
// in every clone, so the secret rules do not leave them out; what the operator
// excluded stays out.
func (r *Rules) With(tracked map[string]struct{}) *Filter {
	f := &Filter{rules: r, tracked: tracked, dirs: map[string]struct{}{}}
	for p := range tracked {
		for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p, '/') {
			p = p[:i]
			if _, ok := f.dirs[p]; ok {
				break
			}
			f.dirs[p] = struct{}{}
		}
	}
	return f
}

// Decide says what happens to path, and by which rule.
func (f *Filter) Decide(path string, isDir bool) (rule string, v Verdict) {
	rule, d := f.rules.decide(path, isDir)
	switch d {
	case kept:
		return "", Keep
	case asked:
		return rule, Leave
	case secret:
	}
	_, ok := f.tracked[path]
	if isDir && !ok {
		_, ok = f.dirs[path]
	}
	if ok {
		return rule, KeepTracked
	}
	if !isDir && f.public(path, rule) {
		return rule, KeepPublic
	}
	return rule, Leave
}
