package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/injection"
)

// endpointsOf adds and removes the endpoints that the operator's injection policy
// names. What it denies is removed last.
func endpointsOf(p *policy.Policy, n injection.Network) error {
	if len(n.Allow) > 0 {
		more, err := policy.Parse("the injection policy", allowing(n.Allow), policy.Options{})
		if err != nil {
			return notAllowed(n.Allow, err)
		}
		add(p, "", more)
	}
	for _, e := range n.Deny {
		if err := deny(p, e); err != nil {
			return err
		}
	}
	return nil
}

// notAllowed returns the error for the first endpoint that no policy can allow. The
// problem is told without its place, which is not in the operator's file.
func notAllowed(list []injection.Endpoint, err error) error {
	for _, e := range list {
		_, one := policy.Parse("", allowing([]injection.Endpoint{e}), policy.Options{})
		if problems, ok := errors.AsType[*policy.Error](one); ok && len(problems.Problems) > 0 {
			_, why, _ := strings.Cut(problems.Problems[0].Message, ".host: ")
			return &api.Error{Kind: api.Usage, Code: api.CodePolicy, Message: "the injection policy: allow_endpoints: " + e.String() + ": " + why, Err: err}
		}
	}
	return &api.Error{Kind: api.Usage, Code: api.CodePolicy, Message: err.Error(), Err: err}
}

// allowing returns a policy for endpoints. Those of the web are inspected.
func allowing(list []injection.Endpoint) []byte {
	var b strings.Builder
	b.WriteString("version: 1\nnetwork_policies:\n  injection:\n    binaries: [{ path: \"/**\" }]\n    endpoints:\n")
	for _, e := range list {
		kind := "protocol: tcp"
		if e.Port == 443 || e.Port == 80 {
			kind = "protocol: rest, access: full"
		}
		fmt.Fprintf(&b, "      - { host: %q, port: %d, %s }\n", e.Host, e.Port, kind)
	}
	return []byte(b.String())
}

// deny removes an endpoint from all rules. A pattern that covers it cannot lose one
// host, so it is refused.
func deny(p *policy.Policy, e injection.Endpoint) error {
	for i := range p.Network {
		n := &p.Network[i]
		n.Endpoints = slices.Clone(n.Endpoints)
		for j := range n.Endpoints {
			at := &n.Endpoints[j]
			if !slices.Contains(at.Ports, e.Port) || !at.Host.Match(e.Host) {
				continue
			}
			if !at.Host.Exact() {
				return api.Refusef(api.CodePolicy, "use a stricter mode, or a policy without the pattern",
					"the injection policy denies %s, which the rule %s allows by the pattern %s", e, n.Key, at.Host)
			}
			at.Ports = slices.DeleteFunc(slices.Clone(at.Ports), func(port uint16) bool { return port == e.Port })
		}
		n.Endpoints = slices.DeleteFunc(n.Endpoints, func(at policy.Endpoint) bool { return len(at.Ports) == 0 })
	}
	p.Network = slices.DeleteFunc(p.Network, func(n policy.NetworkPolicy) bool { return len(n.Endpoints) == 0 })
	return nil
}
