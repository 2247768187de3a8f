package suggest

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/match"
)

// add lets the policy allow an attempt. Additions are separate network policies,
// one for each program, so that a person can distinguish them.
func (b *builder) add(a attempt) error {
	if strings.Contains(a.binary, "*") && a.binary != anyProgram || strings.Contains(a.path, "*") {
		return errors.New("its name holds a *, which a rule would take for a pattern")
	}
	if a.addr.IsValid() {
		return b.addAddress(a)
	}
	if a.plain || a.slash {
		if err := b.relax(a); err != nil || b.policy.ExplainRequest(a.request()).Allowed {
			return err
		}
	}
	host, err := match.NewHost(a.host)
	if err != nil {
		return err
	}
	binary, err := match.NewBinary(a.binary)
	if err != nil {
		return err
	}
	served, applied := b.endpoints(a)
	if a.method == "" && len(served) > 0 {
		if a.lookedUp {
			return nil
		}
		// The host is listed, for other programs: this one may do the same.
		n := b.suggestedFor(binary)
		for _, e := range served {
			if !slices.ContainsFunc(n.Endpoints, func(o policy.Endpoint) bool { return o.Host.Equal(e.Host) && o.Path.Equal(e.Path) }) {
				n.Endpoints = append(n.Endpoints, e)
			}
		}
		return nil
	}
	e := policy.Endpoint{Host: host, Ports: []uint16{a.port}, Access: policy.ReadOnly}
	if a.plain {
		e.TLS = policy.TLSOff
	}
	if len(served) > 0 {
		// Entries for one host and port have to agree on these.
		like := served[0]
		e.TLS, e.AllowedIPs, e.AllowEncodedSlash = like.TLS, like.AllowedIPs, like.AllowEncodedSlash
	}
	if e.Path, err = match.NewURLPath("/**", false); err != nil {
		return err
	}
	switch {
	case a.method == "" && opaquePort(a.port):
		e.Protocol, e.Access, e.Path = policy.TCP, policy.AccessNone, match.Path{}
	case a.method == "":
		e.Protocol = policy.REST
	default:
		return b.addRule(a, e, applied, binary)
	}
	n := b.suggestedFor(binary)
	n.Endpoints = append(n.Endpoints, e)
	return nil
}

// addAddress lets a host have an address that is not public. Entries for one host
// and port have to agree on that, so it stands in all of them.
func (b *builder) addAddress(a attempt) error {
	listed := false
	for i := range b.policy.Network {
		for j := range b.policy.Network[i].Endpoints {
			e := &b.policy.Network[i].Endpoints[j]
			if !e.Serves(a.host, a.port) {
				continue
			}
			if !e.Host.Exact() {
				return fmt.Errorf("allowed_ips of %s would be for every host that it matches", e.Host)
			}
			if one := netip.PrefixFrom(a.addr, a.addr.BitLen()); !slices.Contains(e.AllowedIPs, one) {
				e.AllowedIPs = append(slices.Clone(e.AllowedIPs), one)
			}
			listed = true
		}
	}
	if !listed {
		return errors.New("no rule lists the host")
	}
	return nil
}

// relax lets a port of a host use plain HTTP, or have encoded slashes. Entries for
// one host and port have to agree on that, so it stands in all of them, and for
// this port alone.
func (b *builder) relax(a attempt) error {
	served, _ := b.endpoints(a)
	for _, e := range served {
		if !e.Host.Exact() {
			return fmt.Errorf("what lets %s have it would be for every host that it matches", e.Host)
		}
	}
	// The policy cannot be read when a credential is sent without TLS.
	for _, c := range b.policy.Credentials {
		for _, e := range c.Endpoints {
			if a.plain && e.Host.Match(a.host) && slices.Contains(e.Ports, a.port) {
				return fmt.Errorf("the credential %s is for this host and port, and goes over TLS only", c.Name)
			}
		}
	}
	// A copy: the lists are shared with the policy before.
	b.policy.Network = slices.Clone(b.policy.Network)
	for i := range b.policy.Network {
		n := &b.policy.Network[i]
		var list []policy.Endpoint
		for _, e := range n.Endpoints {
			if e.Serves(a.host, a.port) && e.Protocol != policy.TCP {
				rest := e
				rest.Ports = slices.DeleteFunc(slices.Clone(e.Ports), func(p uint16) bool { return p == a.port })
				if len(rest.Ports) > 0 {
					list = append(list, rest)
				}
				e.Ports = []uint16{a.port}
				if a.plain {
					e.TLS = policy.TLSOff
				}
				e.AllowEncodedSlash = e.AllowEncodedSlash || a.slash
			}
			list = append(list, e)
		}
		n.Endpoints = list
	}
	return nil
}

// addRule allows one request. The new entry has the path of the one that denied it,
// so that both apply, and what either allows is allowed.
func (b *builder) addRule(a attempt, e policy.Endpoint, applied *policy.Endpoint, binary match.Path) (err error) {
	e.Protocol, e.Access = policy.REST, policy.AccessNone
	if applied != nil {
		e.Path, e.Enforcement = applied.Path, applied.Enforcement
	}
	var rule policy.Rule
	if rule.Method, err = match.NewMethod(a.method); err != nil {
		return err
	}
	if rule.Path, err = match.NewURLPath(a.path, e.AllowEncodedSlash); err != nil {
		return err
	}
	n := b.suggestedFor(binary)
	for i := range n.Endpoints {
		o := &n.Endpoints[i]
		if o.Host.Equal(e.Host) && slices.Equal(o.Ports, e.Ports) && o.Path.Equal(e.Path) && o.Access == policy.AccessNone && o.Protocol == policy.REST {
			o.Rules = append(o.Rules, rule)
			return nil
		}
	}
	e.Rules = []policy.Rule{rule}
	n.Endpoints = append(n.Endpoints, e)
	return nil
}

// endpoints returns the entries for a host and port. applied is the one of them that
// decided about the program and the path, if one did.
func (b *builder) endpoints(a attempt) (served []policy.Endpoint, applied *policy.Endpoint) {
	for i := range b.policy.Network {
		n := &b.policy.Network[i]
		for j := range n.Endpoints {
			e := &n.Endpoints[j]
			if !e.Serves(a.host, a.port) {
				continue
			}
			served = append(served, *e)
			applies := n.Admits(a.binary) && a.method != "" && e.Protocol != policy.TCP && e.Path.Match(a.path)
			if applies && (applied == nil || e.Path.Specificity() > applied.Path.Specificity()) {
				applied = e
			}
		}
	}
	return served, applied
}

// suggestedFor returns the network policy of what is suggested for a program. It is
// valid until the next call.
func (b *builder) suggestedFor(binary match.Path) *policy.NetworkPolicy {
	for i := range b.policy.Network {
		n := &b.policy.Network[i]
		if strings.HasPrefix(n.Key, "suggested") && len(n.Binaries) == 1 && n.Binaries[0].Equal(binary) {
			return n
		}
	}
	key := "suggested"
	for i := 2; slices.ContainsFunc(b.policy.Network, func(n policy.NetworkPolicy) bool { return n.Key == key }); i++ {
		key = "suggested_" + strconv.Itoa(i)
	}
	// A copy: the list is shared with the policy before.
	b.policy.Network = append(slices.Clone(b.policy.Network), policy.NetworkPolicy{Key: key, Name: key, Binaries: []match.Path{binary}})
	slices.SortFunc(b.policy.Network, func(a, b policy.NetworkPolicy) int { return cmp.Compare(a.Key, b.Key) })
	i := slices.IndexFunc(b.policy.Network, func(n policy.NetworkPolicy) bool { return n.Key == key })
	return &b.policy.Network[i]
}

// opaquePort reports whether a port is known for a protocol other than HTTP: SSH,
// mail, git, and the usual databases.
func opaquePort(port uint16) bool {
	return slices.Contains([]uint16{22, 25, 465, 587, 993, 3306, 5432, 6379, 9418, 27017}, port)
}
