package network

import (
	"net/netip"
	"slices"

	"github.com/forkcell/forkcell/internal/network/egress/dial"
	"github.com/forkcell/forkcell/internal/policy"
)

// SpecialAddresses returns the ranges of a policy in which addresses are not public: of
// allowed_ips, and of hosts that are addresses. A host that the operator pins at every port
// of the endpoint is left out, because its connections go to the pin. With ceilings, these
// are the ranges that are in each list of network policies.
func SpecialAddresses(p *policy.Policy, pins []string) (list []netip.Prefix) {
	for i, network := range p.Lists() {
		own := specialAddresses(network, pins)
		if i > 0 {
			own = slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(dial.Inside(list, own), dial.Inside(own, list))), netip.Prefix.Compare))
		}
		list = own
	}
	return list
}

func specialAddresses(network []policy.NetworkPolicy, pins []string) (list []netip.Prefix) {
	for _, n := range network {
		for _, e := range n.Endpoints {
			if isPinned(e, pins) {
				continue
			}
			ranges := slices.Clone(e.AllowedIPs)
			if a, ok := e.Host.Addr(); ok {
				ranges = append(ranges, netip.PrefixFrom(a, a.BitLen()))
			}
			for _, r := range ranges {
				if len(dial.Special(r)) > 0 && !slices.Contains(list, r) {
					list = append(list, r)
				}
			}
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return list
}

// SpecialParts returns the parts of a range that are not public and that a policy can
// allow.
func SpecialParts(p netip.Prefix) []netip.Prefix { return dial.Special(p) }

// isPinned reports whether pins of the operator decide about every connection of an endpoint.
func isPinned(e policy.Endpoint, pins []string) bool {
	d, err := newDialer(pins)
	if err != nil || !e.Host.Exact() {
		return false
	}
	return !slices.ContainsFunc(e.Ports, func(port uint16) bool {
		return len(d.Pins[dial.Endpoint{Host: e.Host.String(), Port: port}])+len(d.Pins[dial.Endpoint{Host: e.Host.String()}]) == 0
	})
}
