package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrBoth is about two policies for which no policy allows exactly what both allow.
var ErrBoth = ErrUnder

// Both returns the policy that allows exactly what both policies allow. Variables
// that either sets are set. A deny rule about contents also holds where only the other
// policy has them read. Where no such policy can be written, as for two patterns whose
// common part is no pattern, Both fails with ErrBoth rather than to allow or to deny
// too much. So it does where that would be too much work. Both returns the error of a
// context that ends before it is done.
func Both(ctx context.Context, a, b *Policy) (*Policy, error) {
	if a.Digest() == b.Digest() {
		return a, nil
	}
	w := &work{ctx: ctx, left: maxWork}
	out := &Policy{Filesystem: bothPaths(a.Filesystem, b.Filesystem), Landlock: bothLandlocks(a.Landlock, b.Landlock), Limits: bothLimits(a.Limits, b.Limits)}
	var err error
	if out.Process, err = bothProcesses(a.Process, b.Process); err != nil {
		return nil, err
	}
	if out.Environment, err = bothEnvironments(a.Environment, b.Environment); err != nil {
		return nil, err
	}
	if out.Network, err = bothNetworks(w, a.Network, b.Network); err != nil {
		return nil, err
	}
	if out.Credentials, err = bothCredentials(a.Credentials, b.Credentials); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Each policy is valid by itself; endpoints and variables of both together need
	// not be.
	again, err := Parse("the two policies together", out.Canonical(), Options{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBoth, err)
	}
	if again.Digest() != out.Digest() {
		return nil, fmt.Errorf("%w: the result has no canonical text", ErrBoth)
	}
	return again, nil
}

// Within reports whether a policy allows nothing that another one denies. It may miss
// that for policies that are written in different ways.
func Within(ctx context.Context, p, ceiling *Policy) (bool, error) {
	both, err := Both(ctx, p, ceiling)
	if errors.Is(err, ErrBoth) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// Variables and names of rules allow nothing.
	left, right := *both, *p
	left.Environment.Set, right.Environment.Set = nil, nil
	left.Network, right.Network = nil, nil
	return left.Digest() == right.Digest() && slices.Equal(connections(both.Network), connections(p.Network)), nil
}

// connections returns the endpoints of network policies with their binaries, as a
// sorted list of texts.
func connections(network []NetworkPolicy) []string {
	var out []string
	for _, n := range network {
		for _, e := range n.Endpoints {
			one := NetworkPolicy{Endpoints: []Endpoint{e}, Binaries: n.Binaries}
			var b bytes.Buffer
			one.tree().write(&b, 0)
			out = append(out, b.String())
		}
	}
	return sorted(out)
}
