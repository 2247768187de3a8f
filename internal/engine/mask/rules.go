package mask

import (
	"strings"

	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

// Rules decides by the name of a path.
type Rules struct {
	opt         Options
	also, state *secretfiles.Selector // nil without patterns
}

// NewRules returns the rules of options.
func NewRules(opt Options) (*Rules, error) { return opt.rules() }

func (o Options) rules() (*Rules, error) {
	r := &Rules{opt: o}
	var err error
	if len(o.Also) > 0 {
		if r.also, err = secretfiles.NewSelector(o.Also, nil); err != nil {
			return nil, err
		}
	}
	if len(o.State) > 0 {
		r.state, err = secretfiles.NewSelector(o.State, nil)
	}
	return r, err
}

// IsState reports whether an agent keeps its own state at a path.
func (r *Rules) IsState(p string, dir bool) bool { return r.state != nil && r.state.Match(p, dir) }

// IsAside reports whether what a session writes to a path is set aside.
func (r *Rules) IsAside(p string, dir bool) bool {
	return r.also != nil && r.also.Match(p, dir) || secretfiles.MaskOf(p, dir) != secretfiles.Shown
}

// mask returns how a session sees a path. within is the path in the repository that
// it is in; "" if it is in none.
func (r *Rules) mask(p string, dir bool, within string) secretfiles.Mask {
	if r.IsState(p, dir) {
		return secretfiles.Shown
	}
	if r.also != nil && r.also.Match(p, dir) {
		return secretfiles.Hidden
	}
	mask, git := secretfiles.MaskOf(p, dir), secretfiles.IsGit(p, dir)
	if mask == secretfiles.Shown {
		mask, git = inRepository(within, dir), true
	}
	if mask != secretfiles.Shown && (r.opt.ShowGit && git || r.opt.ShowMCP && secretfiles.IsMCP(p, dir)) {
		return secretfiles.ReadOnly
	}
	return mask
}

// inRepository returns how a session sees a path in the directory of a repository,
// whatever the name of that directory.
func inRepository(within string, dir bool) secretfiles.Mask {
	switch {
	case within == "hooks", within == "info/attributes", within == "info" && !dir: // a link to other attributes
		return secretfiles.Hidden
	case strings.HasPrefix(within, "config"):
		return secretfiles.Filtered
	}
	return secretfiles.Shown
}

// hiddenServers reports whether a path in a read-only directory names servers of an
// agent, and is hidden.
func (r *Rules) hiddenServers(p string, dir bool) bool {
	return !r.opt.ShowMCP && secretfiles.IsMCP(p, dir)
}
