package cell

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/match"
	"github.com/forkcell/forkcell/internal/policy"
)

// add grows the policy by one wish. Additions stand in policies of their own, one
// for each program, so that a person sees them apart.
func (s *suggester) add(w wish) error {
	if strings.Contains(w.binary, "*") && w.binary != anyProgram || strings.Contains(w.path, "*") {
		return errors.New("its name holds a *, which a rule would take for a pattern")
	}
	if w.addr.IsValid() {
		return s.addAddress(w)
	}
	if w.plain || w.slash {
		if err := s.adapt(w); err != nil || s.policy.ExplainRequest(w.request()).Allowed {
			return err
		}
	}
	host, err := match.NewHost(w.host)
	if err != nil {
		return err
	}
	binary, err := match.NewBinary(w.binary)
	if err != nil {
		return err
	}
	served, spoken := s.existing(w)
	if w.method == "" && len(served) > 0 {
		if w.guessed {
			return nil
		}
		// The host is listed, for other programs: this one may do the same.
		n := s.own(binary)
		for _, e := range served {
			if !slices.ContainsFunc(n.Endpoints, func(o policy.Endpoint) bool { return o.Host.Equal(e.Host) && o.Path.Equal(e.Path) }) {
				n.Endpoints = append(n.Endpoints, e)
			}
		}
		return nil
	}
	e := policy.Endpoint{Host: host, Ports: []uint16{w.port}, Access: policy.ReadOnly}
	if w.plain {
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
	case w.method == "" && opaquePort(w.port):
		e.Protocol, e.Access, e.Path = policy.TCP, policy.AccessNone, match.Path{}
	case w.method == "":
		e.Protocol = policy.REST
	default:
		return s.addRule(w, e, spoken, binary)
	}
	n := s.own(binary)
	n.Endpoints = append(n.Endpoints, e)
	return nil
}

// addAddress lets a host have an address that is not public. Entries for one host
// and port have to agree on that, so it stands in all of them.
func (s *suggester) addAddress(w wish) error {
	listed := false
	for i := range s.policy.Network {
		for j := range s.policy.Network[i].Endpoints {
			e := &s.policy.Network[i].Endpoints[j]
			if !e.Serves(w.host, w.port) {
				continue
			}
			if !e.Host.Exact() {
				return fmt.Errorf("allowed_ips of %s would be for every host that it matches", e.Host)
			}
			if one := netip.PrefixFrom(w.addr, w.addr.BitLen()); !slices.Contains(e.AllowedIPs, one) {
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

// adapt lets a port of a host speak plain HTTP, or have encoded slashes. Entries for
// one host and port have to agree on that, so it stands in all of them, and for
// this port alone.
func (s *suggester) adapt(w wish) error {
	served, _ := s.existing(w)
	for _, e := range served {
		if !e.Host.Exact() {
			return fmt.Errorf("what lets %s have it would be for every host that it matches", e.Host)
		}
	}
	// The policy cannot be read when a credential is sent without TLS.
	for _, c := range s.policy.Credentials {
		for _, e := range c.Endpoints {
			if w.plain && e.Host.Match(w.host) && slices.Contains(e.Ports, w.port) {
				return fmt.Errorf("the credential %s is for this host and port, and goes over TLS only", c.Name)
			}
		}
	}
	// A copy: the lists are those of the policy which ruled.
	s.policy.Network = slices.Clone(s.policy.Network)
	for i := range s.policy.Network {
		n := &s.policy.Network[i]
		var list []policy.Endpoint
		for _, e := range n.Endpoints {
			if e.Serves(w.host, w.port) && e.Protocol != policy.TCP {
				rest := e
				rest.Ports = slices.DeleteFunc(slices.Clone(e.Ports), func(p uint16) bool { return p == w.port })
				if len(rest.Ports) > 0 {
					list = append(list, rest)
				}
				e.Ports = []uint16{w.port}
				if w.plain {
					e.TLS = policy.TLSOff
				}
				e.AllowEncodedSlash = e.AllowEncodedSlash || w.slash
			}
			list = append(list, e)
		}
		n.Endpoints = list
	}
	return nil
}

// addRule allows one request. An entry with the path of the one that spoke
// against it speaks too, and what either allows is allowed.
func (s *suggester) addRule(w wish, e policy.Endpoint, spoken *policy.Endpoint, binary match.Path) (err error) {
	e.Protocol, e.Access = policy.REST, policy.AccessNone
	if spoken != nil {
		e.Path, e.Enforcement = spoken.Path, spoken.Enforcement
	}
	var rule policy.Rule
	if rule.Method, err = match.NewMethod(w.method); err != nil {
		return err
	}
	if rule.Path, err = match.NewURLPath(w.path, e.AllowEncodedSlash); err != nil {
		return err
	}
	n := s.own(binary)
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

// existing finds the entries for a host and port, and of those that are about the
// program the one that speaks for the path.
func (s *suggester) existing(w wish) (served []policy.Endpoint, spoken *policy.Endpoint) {
	for i := range s.policy.Network {
		n := &s.policy.Network[i]
		for j := range n.Endpoints {
			e := &n.Endpoints[j]
			if !e.Serves(w.host, w.port) {
				continue
			}
			served = append(served, *e)
			about := n.Admits(w.binary) && w.method != "" && e.Protocol != policy.TCP && e.Path.Match(w.path)
			if about && (spoken == nil || e.Path.Specificity() > spoken.Path.Specificity()) {
				spoken = e
			}
		}
	}
	return served, spoken
}

// own returns the suggested policy of a program. It is valid until the next call.
func (s *suggester) own(binary match.Path) *policy.NetworkPolicy {
	for i := range s.policy.Network {
		n := &s.policy.Network[i]
		if strings.HasPrefix(n.Key, "suggested") && len(n.Binaries) == 1 && n.Binaries[0].Equal(binary) {
			return n
		}
	}
	key := "suggested"
	for i := 2; slices.ContainsFunc(s.policy.Network, func(n policy.NetworkPolicy) bool { return n.Key == key }); i++ {
		key = "suggested_" + strconv.Itoa(i)
	}
	// A copy: the list is that of the policy which ruled.
	s.policy.Network = append(slices.Clone(s.policy.Network), policy.NetworkPolicy{Key: key, Name: key, Binaries: []match.Path{binary}})
	slices.SortFunc(s.policy.Network, func(a, b policy.NetworkPolicy) int { return cmp.Compare(a.Key, b.Key) })
	i := slices.IndexFunc(s.policy.Network, func(n policy.NetworkPolicy) bool { return n.Key == key })
	return &s.policy.Network[i]
}

// opaquePort tells ports whose protocols are not HTTP: SSH, mail, git, and the
// usual databases.
func opaquePort(port uint16) bool {
	return slices.Contains([]uint16{22, 25, 465, 587, 993, 3306, 5432, 6379, 9418, 27017}, port)
}
