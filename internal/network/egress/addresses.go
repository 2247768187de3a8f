package egress

import (
	"net/netip"
	"slices"

	"github.com/forkcell/forkcell/internal/network/egress/dial"
	"github.com/forkcell/forkcell/internal/policy"
)

// addressesOf returns the addresses that a host may have by each of several lists of
// endpoints; none means public ones.
func addressesOf(lists [][]*policy.Endpoint) []netip.Prefix {
	var out []netip.Prefix
	first := true
	for _, found := range lists {
		if len(found) == 0 {
			continue // such a list allows nothing
		}
		own := addressesFor(found)
		switch _, literal := found[0].Host.Addr(); {
		case first:
			out, first = own, false
		default:
			out = inBoth(out, own, literal)
		}
	}
	return out
}

// addressesFor returns the addresses of a host by the most specific pattern. Endpoints for
// one host agree on them, unless a link makes one binary of two that the policy names
// separately: then none is allowed.
func addressesFor(found []*policy.Endpoint) []netip.Prefix {
	tunnel := opaque(found)
	read := slices.DeleteFunc(slices.Clone(found), func(e *policy.Endpoint) bool { return e.Protocol == policy.TCP && !tunnel })
	if len(read) == 0 {
		return nil
	}
	first := read[0]
	if slices.ContainsFunc(read, func(e *policy.Endpoint) bool {
		return e.Host.Equal(first.Host) && !slices.Equal(e.AllowedIPs, first.AllowedIPs)
	}) {
		return noAddresses()
	}
	return first.AllowedIPs
}

// noAddresses is a list of addresses of which none is ever connected to. An empty list would
// mean public ones.
func noAddresses() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 32)}
}

// inBoth returns the addresses that two lists allow. No list means public addresses, and of
// a host that is an address itself, this one.
func inBoth(a, b []netip.Prefix, literal bool) []netip.Prefix {
	switch {
	case slices.Equal(a, b):
		return a
	case len(a) == 0:
		return public(b, literal)
	case len(b) == 0:
		return public(a, literal)
	}
	out := slices.Concat(dial.Inside(a, b), dial.Inside(b, a))
	if len(out) == 0 {
		return noAddresses()
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// public returns the ranges in which all addresses are public.
func public(list []netip.Prefix, literal bool) []netip.Prefix {
	if literal {
		return list
	}
	out := slices.DeleteFunc(slices.Clone(list), func(p netip.Prefix) bool { return len(dial.Special(p)) > 0 })
	if len(out) == 0 {
		return noAddresses()
	}
	return out
}
