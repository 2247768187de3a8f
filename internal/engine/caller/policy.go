package caller

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// DenySet lists the denied system calls for the policy language.
type DenySet struct{}

func (DenySet) Known(name string) bool { return syscalls.Known(name) }

func (DenySet) Denied(name string) (string, bool) {
	rule, denied := syscalls.Denied(name)
	return rule.Reason, denied
}

// Names returns the denied calls, which a policy may take out of the set, sorted.
func (d DenySet) Names() []string {
	return slices.DeleteFunc(syscalls.Names(), func(name string) bool { _, denied := d.Denied(name); return !denied })
}

// ParsePolicy reads a policy file for this caller.
func (c Caller) ParsePolicy(f api.PolicyFile) (*policy.Policy, error) {
	p, err := policy.Parse(string(f.Name), f.Text, policy.Options{Syscalls: DenySet{}, Homes: c.Homes()})
	if err != nil {
		return nil, PolicyError(err)
	}
	return p, nil
}

// PolicyError returns an error about a policy file with the first line as its message and the rest as
// details.
func PolicyError(err error) error {
	e := &api.Error{
		Kind: api.Usage, Code: api.CodePolicy, Message: err.Error(),
		Hint: "`forkcell policy validate FILE` checks it again; `forkcell help policy-file` has every key", Err: err,
	}
	if bad, ok := errors.AsType[*policy.Error](err); ok {
		e.Message = bad.Problems[0].String()
		for _, p := range bad.Problems[1:] {
			e.Details = append(e.Details, p.String())
		}
		if bad.More > 0 {
			e.Details = append(e.Details, fmt.Sprintf("and %d more", bad.More))
		}
	}
	return e
}

// Homes returns all paths of the caller's home directory.
func (c Caller) Homes() []string {
	homes, home := []string{"/root"}, c.Home
	if !filepath.IsAbs(home) {
		return homes
	}
	homes = append(homes, filepath.Clean(home))
	//nolint:forbidigo // only to find the names of the home
	if real, err := filepath.EvalSymlinks(home); err == nil {
		homes = append(homes, real)
	}
	slices.Sort(homes)
	return slices.Compact(homes)
}

// UnderCeiling returns the policy that allows what a policy and the caller's ceiling allow. For
// the keys that loosen a control, the default policy is the ceiling of a caller who is not
// the operator, and to whom the operator gave none.
func (c Caller) UnderCeiling(p *policy.Policy) (*policy.Policy, error) {
	ceiling, err := c.CeilingPolicy()
	if err != nil {
		return nil, err
	}
	if ceiling != nil {
		under, err := policy.Under(p, ceiling)
		if err != nil {
			return nil, api.Refusef(api.CodeCeiling, "change the policy, so that it agrees with the ceiling in this",
				"the policy cannot be enforced together with the ceiling of %s: %v", c.Actor(), err)
		}
		p = under
	}
	if c.Gives("") || c.CeilingGrants() {
		return p, nil
	}
	return p.Tight(), nil
}

// CeilingGrants reports whether the caller has a ceiling that grants what it lets a policy
// loosen.
func (c Caller) CeilingGrants() bool { return c.Ceiling != nil && c.Ceiling.Grants }

// CeilingPolicy returns the caller's ceiling, or nil.
func (c Caller) CeilingPolicy() (*policy.Policy, error) {
	if c.Ceiling == nil {
		return nil, nil //nolint:nilnil // no ceiling is an answer
	}
	return c.ParsePolicy(*c.Ceiling)
}
