package cell

import (
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
)

// under returns the policy that allows what a policy and the caller's ceiling allow.
func (c Caller) under(p *policy.Policy) (*policy.Policy, error) {
	ceiling, err := c.ceiling()
	if err != nil || ceiling == nil {
		return p, err
	}
	both, err := policy.Both(p, ceiling)
	if err != nil {
		return nil, api.Refusef(api.CodeCeiling, "change the policy, so that its rules are inside those of the ceiling",
			"the policy cannot be enforced together with the ceiling of %s: %v", c.Actor(), err)
	}
	return both, nil
}

// ceiling returns the caller's ceiling, or nil.
func (c Caller) ceiling() (*policy.Policy, error) {
	if c.Ceiling == nil {
		return nil, nil //nolint:nilnil // no ceiling is an answer
	}
	return c.parsePolicy(*c.Ceiling)
}

// limited puts the policy of a run under the caller's ceiling, and has the receipt
// name both: its policy is the one that allows what both do.
func (e *Engine) limited(a *resolved, given *policy.Policy) (*policy.Policy, error) {
	ceiling, err := e.caller.ceiling()
	if err != nil || ceiling == nil {
		return given, err
	}
	a.ceiling = ceiling.Digest()
	a.grants.used = append(a.grants.used, "ceiling "+ceiling.Hash()+" of policy "+given.Hash())
	return e.caller.under(given)
}
