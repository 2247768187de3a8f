package token

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Scope is a part of what a token may do.
type Scope = op.Scope

// The scopes, as operations need them. No token has Unbounded.
const (
	Read      = op.ScopeRead
	Run       = op.ScopeRun
	Decide    = op.ScopeDecide
	Admin     = op.ScopeAdmin
	Unbounded = op.ScopeUnbounded
)

// Scopes returns all scopes.
func Scopes() []Scope { return []Scope{Read, Run, Decide, Admin} }

// parseScopes returns a list of scopes as a set, in the order of Scopes.
func parseScopes(names []string) ([]Scope, error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: a token needs a scope: %s", ErrInvalid, list())
	}
	for _, name := range names {
		if !slices.Contains(Scopes(), Scope(name)) {
			return nil, fmt.Errorf("%w: %q is not a scope; there are %s", ErrInvalid, name, list())
		}
	}
	return slices.DeleteFunc(Scopes(), func(s Scope) bool { return !slices.Contains(names, string(s)) }), nil
}

func list() string {
	var names []string
	for _, s := range Scopes() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}
