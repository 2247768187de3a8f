package caller

import (
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// MayUsePath refuses a path of the host that is outside of what the caller may use, or that
// the secret rules leave out of it. The path has no links.
func (c Caller) MayUsePath(path string) error {
	if c.Within == nil {
		return nil
	}
	rule := ""
	for _, dir := range c.Within {
		real, err := fsx.RealPath(dir)
		if err != nil || !fsx.Within(path, real) {
			continue
		}
		left, secret := secretfiles.SecretBelow(real, path, fsx.IsDir(path))
		if !secret {
			return nil
		}
		rule = left
	}
	if rule != "" {
		return api.Refusef(api.CodeForbidden, "the operator allows that directory itself with `forkcell serve --allow-source`",
			"the caller may not use %s: the secret rule %s leaves it out", quote.Path(path), rule)
	}
	return outsideError(path)
}

func outsideError(path string) error {
	return api.Refusef(api.CodeForbidden, "the operator allows directories with `forkcell serve --allow-source`",
		"the caller may not use %s", quote.Path(path))
}

// MayDecide refuses what amounts to a decision to a caller who may not decide.
func (c Caller) MayDecide(what string) error {
	if !c.CannotDecide {
		return nil
	}
	return api.Refusef(api.CodeForbidden, "use a token with the scopes run and decide", "%s needs the scope decide", what)
}

// MayNamePath refuses a name that leads outside of what the caller may use, whether or
// not something is there.
func (c Caller) MayNamePath(path string) error {
	if c.Within == nil {
		return nil
	}
	real, err := fsx.RealPath(path)
	if err != nil {
		return outsideError(path) // where it leads is not known
	}
	return c.MayUsePath(real)
}
