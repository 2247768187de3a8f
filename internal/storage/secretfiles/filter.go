package secretfiles

import (
	"os"
	"strings"
)

// Verdict is the decision of an import about a path.
type Verdict uint8

const (
	// Keep: no rule matches it.
	Keep Verdict = iota
	// KeepTracked: a rule would leave it out, but git tracks it, or something in
	// it. It is imported, and listed. The other contents of such a directory are
	// decided one by one.
	KeepTracked
	// KeepPublic: a rule would leave it out, but its contents are only public
	// certificates or keys.
	KeepPublic
	// Leave: it is left out and listed, a directory with all its contents.
	Leave
)

// Filter combines rules with the paths that git tracks. It is immutable.
type Filter struct {
	rules   *Rules
	tracked map[string]struct{}
	dirs    map[string]struct{}
	open    func(path string) (*os.File, error)
}

// With combines the rules with the paths that git tracks. Tracked files are
// already in every clone, so the secret rules do not leave them out. What the
// operator excluded stays out.
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

// Decide returns what happens to path, and the rule that decides.
func (f *Filter) Decide(path string, isDir bool) (rule string, v Verdict) {
	rule, d := f.rules.decide(path, isDir)
	switch d {
	case kept:
		return "", Keep
	case chosen:
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
