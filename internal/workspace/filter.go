package workspace

import (
	"github.com/forkcell/forkcell/internal/leftout"
)

// LeftOut is a path that is no part of a state, and the rule that says so.
type LeftOut struct {
	Path string
	Rule string
}

// keepOnly makes the filter of an existing cell. A nil filter takes everything.
func keepOnly(rules *leftout.Rules, kept []string) *leftout.Filter {
	if rules == nil {
		return nil
	}
	set := make(map[string]struct{}, len(kept))
	for _, p := range kept {
		set[p] = struct{}{}
	}
	return rules.With(set)
}

// admit tells whether a path belongs to the state, and notes what a person
// should know about it.
func admit(f *leftout.Filter, path string, isDir bool, found *findings) bool {
	if f == nil {
		return true
	}
	rule, v := f.Decide(path, isDir)
	switch v {
	case leftout.Leave:
		found.leave(path, rule)
		return false
	case leftout.KeepTracked:
		if !isDir {
			found.keep(path)
		}
	case leftout.KeepPublic:
		found.public(path)
	case leftout.Keep:
	}
	return true
}
