package token

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is a part of what a token may do.
type Scope string

// The scopes. Each includes Read, and Admin includes all.
const (
	Read   Scope = "read"   // sees
	Run    Scope = "run"    // makes and runs cells
	Decide Scope = "decide" // accepts, rejects, applies
	Admin  Scope = "admin"  // the rest
)

// Unbounded is no scope of a token. What is about a whole home needs it, and a caller
// has it who is bound to no cells, policy or quota.
const Unbounded Scope = "unbounded"

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
