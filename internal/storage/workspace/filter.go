package workspace

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// LeftOut is a path that a state does not have, and the rule that excludes it.
type LeftOut struct {
	Path string
	Rule string
}

// keepOnly returns the filter of an existing cell. A nil filter keeps everything.
func keepOnly(rules *secretfiles.Rules, kept []string) *secretfiles.Filter {
	if rules == nil {
		return nil
	}
	set := make(map[string]struct{}, len(kept))
	for _, p := range kept {
		set[p] = struct{}{}
	}
	return rules.With(set)
}

// admit reports whether a path belongs to the state, and records what a person
// should know about it.
func admit(f *secretfiles.Filter, path string, isDir bool, found *findings) bool {
	if f == nil {
		return true
	}
	rule, v := f.Decide(path, isDir)
	switch v {
	case secretfiles.Leave:
		found.leave(path, rule)
		return false
	case secretfiles.KeepTracked:
		if !isDir {
			found.keep(path)
		}
	case secretfiles.KeepPublic:
		found.public(path)
	case secretfiles.Keep:
	}
	return true
}

// admits reports whether a name belongs to the state.
func (sc *scan) admits(f *dirScan, name string, info fsx.Info) bool {
	if sc.filter != nil && !admit(sc.filter, site{f, name}.path(), info.IsDir(), sc.found) || sc.keepsFromOthers(info) {
		return false
	}
	if _, yes := sc.hidden[fileIDOf(info)]; yes {
		sc.found.leave(site{f, name}.path(), hiddenRule)
		return false
	}
	return true
}

// admitsDir is admits for a directory, whose metadata is read only if it matters.
func (sc *scan) admitsDir(f *dirScan, src *fsx.Dir, name string) (bool, error) {
	var info fsx.Info
	info.Type = unix.S_IFDIR
	if len(sc.hidden) > 0 || sc.public {
		var err error
		if info, err = src.Lstat(name); err != nil {
			return false, sc.lostError(err)
		}
	}
	return sc.admits(f, name, info), nil
}

// keepsFromOthers reports whether a file or directory is left out because its
// owner keeps it from others. The kernel decides that for an ordinary caller. It
// lets root read everything, so for root the mode decides.
func (sc *scan) keepsFromOthers(info fsx.Info) bool {
	if !sc.public || !sc.s.opt.Root {
		return false
	}
	switch info.Type {
	case unix.S_IFREG:
		return info.Mode&0o004 == 0
	case unix.S_IFDIR:
		return info.Mode&0o005 != 0o005
	}
	return false
}

// isForbidden reports whether an error only means that the caller may not read
// something, which is then left out.
func (sc *scan) isForbidden(err error) bool { return sc.public && errors.Is(err, unix.EACCES) }
