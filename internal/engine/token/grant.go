package token

import (
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
)

// Grant has the rights of a checked token.
type Grant struct {
	ID string
	// Name is the actor in receipts and decisions.
	Name   string
	Scopes []Scope
	// Cells is the prefix of the names of the cells that it sees; "" is all.
	Cells       string
	Credentials []string
	// AllowControl are patterns of control files that the token may have written to a
	// directory of the host.
	AllowControl []string
	Quota        api.Quota
	// Ceiling is a policy that must allow what a run's own policy allows; nil is
	// none.
	Ceiling *api.PolicyFile
}

// Allows reports whether the token has a scope.
func (g Grant) Allows(s Scope) bool {
	return slices.Contains(g.Scopes, s) || slices.Contains(g.Scopes, Admin) || s == Read && len(g.Scopes) > 0
}

// SeesCell reports whether the token may see and name a cell.
func (g Grant) SeesCell(name string) bool { return strings.HasPrefix(name, g.Cells) }

// IsOperator reports whether the token stands for the operator: it has the scope admin, and
// bounds neither the cells, nor the policies, nor what is used.
func (g Grant) IsOperator() bool {
	return g.Allows(Admin) && g.Cells == "" && g.Ceiling == nil && g.Quota == (api.Quota{})
}

// MayUse reports whether requests may use a credential of the operator's file.
func (g Grant) MayUse(credential string) bool { return slices.Contains(g.Credentials, credential) }
