package engine

import (
	"slices"

	"github.com/forkcell/forkcell/internal/api"
)

// optionGrant stands for what the operator granted to a policy.
const optionGrant = "--grant"

// looseOptions returns the options that loosen a control, or show something of the operator's
// host.
func looseOptions(o api.RunOptions) (names []string) {
	for _, option := range []struct {
		name string
		set  bool
	}{
		{"--allow-degraded", o.AllowDegraded},
		{"--as-root", o.AsRoot},
		{"--root", o.Root != "" && o.Root != "host"},
		{"--ro", len(o.ReadOnly) > 0},
		{optionGrant, len(o.Grants.Paths)+len(o.Grants.Env)+len(o.Grants.Syscalls)+len(o.Grants.Addresses) > 0},
		{"--resolve", len(o.Network.Resolve) > 0},
		{"--ca", len(o.Network.CA) > 0},
		{"a login of the operator", len(o.Network.Logins) > 0},
	} {
		if option.set {
			names = append(names, option.name)
		}
	}
	return names
}

// givenGrants names what the caller of a run gave it and other callers may not give. What a run of
// a bounded caller has, the operator lets every caller have, such as the program of an
// agent. used are the grants that its policy used.
func (e *Engine) givenGrants(req runRequest, used []string) []string {
	names := looseOptions(req.RunOptions)
	if len(used) > 0 && !slices.Contains(names, optionGrant) {
		names = append(names, optionGrant)
	}
	for _, option := range []struct {
		name string
		set  bool
	}{
		{"--unrestricted", req.Network.Unrestricted},
		{"ssh keys of the operator", req.Network.SSH != nil},
		{"package managers as root", req.packages},
	} {
		if option.set {
			names = append(names, option.name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !e.Caller.Gives(name) })
}

// isBounded reports whether the caller may give nothing that else only the operator gives.
func (e *Engine) isBounded() bool { return !e.Caller.Gives("") }

// giving returns the rights of a caller as an order to a supervisor has them.
func giving(bounded bool) func(string) bool {
	if !bounded {
		return nil
	}
	return func(string) bool { return false }
}
