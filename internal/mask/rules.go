package mask

import (
	"strings"

	"github.com/forkcell/forkcell/internal/leftout"
)

// Rules decides by the name of a path.
type Rules struct {
	opt         Options
	also, state *leftout.Selector // nil without patterns
}

// NewRules returns the rules of options.
func NewRules(opt Options) (*Rules, error) { return opt.rules() }

func (o Options) rules() (*Rules, error) {
	r := &Rules{opt: o}
	var err error
	if len(o.Also) > 0 {
		if r.also, err = leftout.NewSelector(o.Also, nil); err != nil {
			return nil, err
		}
	}
	if len(o.State) > 0 {
		r.state, err = leftout.NewSelector(o.State, nil)
	}
	return r, err
}

// IsState reports whether an agent keeps its own state at a path.
func (r *Rules) IsState(p string, dir bool) bool { return r.state != nil && r.state.Match(p, dir) }

// IsAside reports whether what a session writes to a path is set aside.
func (r *Rules) IsAside(p string, dir bool) bool {
	return r.also != nil && r.also.Match(p, dir) || leftout.MaskOf(p, dir) != leftout.Shown
}

// mask returns how a session sees a path. within is the path in the repository that
// it is in; "" if it is in none.
func (r *Rules) mask(p string, dir bool, within string) leftout.Mask {
	if r.IsState(p, dir) {
		return leftout.Shown
	}
	if r.also != nil && r.also.Match(p, dir) {
		return leftout.Hidden
	}
	mask, git := leftout.MaskOf(p, dir), leftout.IsGit(p, dir)
	if mask == leftout.Shown {
		mask, git = inRepository(within, dir), true
	}
	if mask != leftout.Shown && (r.opt.ShowGit && git || r.opt.ShowMCP && leftout.IsMCP(p, dir)) {
		return leftout.ReadOnly
	}
	return mask
}

// inRepository returns how a session sees a path in the directory of a repository,
// whatever the name of that directory.
func inRepository(within string, dir bool) leftout.Mask {
	switch {
	case within == "hooks", within == "info/attributes", within == "info" && !dir: // a link to other attributes
		return leftout.Hidden
	case strings.HasPrefix(within, "config"):
		return leftout.Filtered
	}
	return leftout.Shown
}

// hiddenServers reports whether a path in a read-only directory names servers of an
// agent, and is hidden.
func (r *Rules) hiddenServers(p string, dir bool) bool {
	return !r.opt.ShowMCP && leftout.IsMCP(p, dir)
}
