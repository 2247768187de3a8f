package policy

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// piece is the common part of an endpoint of each policy.
type piece struct {
	work     *work
	a, b     *side
	binaries []match.Path
	ep       Endpoint
	// ruleA and ruleB are the endpoints that decide about requests everywhere in the
	// piece: a and b, or more specific ones that cover all of it.
	ruleA, ruleB *side
}

// side is an endpoint of one of two policies.
type side struct {
	n  *NetworkPolicy
	ep *Endpoint
}

// rank orders the endpoints of a policy for one request: the highest ones decide.
func (s *side) rank() int { return rankOf(s.ep) }

func rankOf(e *Endpoint) int {
	if e.Protocol == TCP {
		return -1
	}
	return e.Path.Specificity()
}

func sides(network []NetworkPolicy) []side {
	var out []side
	for i := range network {
		for j := range network[i].Endpoints {
			out = append(out, side{&network[i], &network[i].Endpoints[j]})
		}
	}
	return out
}

// bothNetworks makes one endpoint of every two that share connections. Of the
// endpoints for one request only those with the most specific path decide; so the
// order of the new endpoints must agree with that in each policy, which checkOrder
// holds.
func bothNetworks(w *work, a, b []NetworkPolicy) ([]NetworkPolicy, error) {
	left, right := sides(a), sides(b)
	for _, all := range [][]side{left, right} {
		if err := checkUniform(w, all); err != nil {
			return nil, err
		}
	}
	var pieces []piece
	for i := range left {
		for j := range right {
			p := piece{work: w, a: &left[i], b: &right[j]}
			some, err := p.meet()
			if err != nil {
				return nil, err
			}
			if some {
				pieces = append(pieces, p)
			}
			if len(pieces) > maxEndpoints {
				return nil, cannot("more than %d endpoints together", maxEndpoints)
			}
		}
	}
	for i := range pieces {
		p := &pieces[i]
		if err := p.decide(left, right); err != nil {
			return nil, err
		}
		if err := p.combine(); err != nil {
			return nil, err
		}
		// They are written, and read again.
		if err := w.pairs(64, len(p.ep.Rules)+len(p.ep.DenyRules)); err != nil {
			return nil, err
		}
	}
	if err := checkOrder(pieces); err != nil {
		return nil, err
	}
	return named(pieces), nil
}

// checkUniform refuses a policy in which endpoints for one connection differ in what
// is decided before the path of a request is known: then an endpoint could decide
// about a request that is not in its path. Parse refuses this for equal hosts.
func checkUniform(w *work, all []side) error {
	for i := range all {
		for j := range all[:i] {
			x, y := all[i], all[j]
			if err := w.connection(x.n.Binaries, y.n.Binaries, x.ep, y.ep); err != nil {
				return err
			}
			if !x.connects(y) {
				continue
			}
			plain := func(port uint16) bool { return x.ep.Plain(port) != y.ep.Plain(port) }
			what := ""
			switch {
			case (x.ep.Protocol == TCP) != (y.ep.Protocol == TCP):
				what = "whether requests are inspected"
			case !slices.Equal(x.ep.AllowedIPs, y.ep.AllowedIPs):
				what = "allowed_ips"
			case x.ep.AllowEncodedSlash != y.ep.AllowEncodedSlash:
				what = "allow_encoded_slash"
			case slices.ContainsFunc(commonPorts(x.ep.Ports, y.ep.Ports), plain):
				what = "tls"
			}
			if what != "" {
				return cannot("hosts %s and %s of one policy overlap, and do not agree on %s", x.ep.Host, y.ep.Host, what)
			}
		}
	}
	return nil
}

// connects reports whether a connection could be for both endpoints.
func (s side) connects(o side) bool {
	if !shared(s.ep.Ports, o.ep.Ports) {
		return false
	}
	_, some, err := s.ep.Host.Both(o.ep.Host)
	return (some || err != nil) && meet(s.n.Binaries, o.n.Binaries)
}

// meet reports whether a path could match a pattern of each list.
func meet(a, b []match.Path) bool {
	return slices.ContainsFunc(a, func(x match.Path) bool {
		return slices.ContainsFunc(b, func(y match.Path) bool {
			_, some, err := x.Both(y)
			return err != nil || some
		})
	})
}

// meet finds the connections and paths that a piece is about, and its settings. It
// reports false if there are none.
func (p *piece) meet() (bool, error) {
	x, y := p.a.ep, p.b.ep
	if err := p.work.connection(p.a.n.Binaries, p.b.n.Binaries, x, y); err != nil {
		return false, err
	}
	p.ep.Ports = commonPorts(x.Ports, y.Ports)
	if len(p.ep.Ports) == 0 {
		return false, nil
	}
	host, some, err := x.Host.Both(y.Host)
	if err == nil && !some {
		return false, nil
	}
	if err != nil {
		return false, cannot("hosts %s and %s: %v", x.Host, y.Host, err)
	}
	p.ep.Host = host
	for _, m := range p.a.n.Binaries {
		for _, n := range p.b.n.Binaries {
			both, some, err := m.Both(n)
			if err != nil {
				return false, cannot("binaries %s and %s: %v", m, n, err)
			}
			if some {
				p.binaries = append(p.binaries, both)
			}
		}
	}
	if len(p.binaries) == 0 {
		return false, nil
	}
	slices.SortFunc(p.binaries, func(m, n match.Path) int { return cmp.Compare(m.String(), n.String()) })
	p.binaries = slices.CompactFunc(p.binaries, match.Path.Equal)
	if some, err := p.meetPath(); err != nil || !some {
		return false, err
	}
	return true, p.settings()
}

// meetPath finds the protocol and the path. A connection that is not inspected
// allows every request, so that the other endpoint decides.
func (p *piece) meetPath() (bool, error) {
	x, y := p.a.ep, p.b.ep
	switch {
	case x.Protocol == TCP:
		p.ep.Protocol, p.ep.Path = y.Protocol, y.Path
		return true, nil
	case y.Protocol == TCP:
		p.ep.Protocol, p.ep.Path = x.Protocol, x.Path
		return true, nil
	}
	path, some, err := x.Path.Both(y.Path)
	if err != nil {
		return false, cannot("paths %s and %s of %s: %v", x.Path, y.Path, p.ep.Host, err)
	}
	p.ep.Protocol, p.ep.Path = x.Protocol, path
	return some, nil
}

// settings combines what does not depend on rules.
func (p *piece) settings() error {
	x, y := p.a.ep, p.b.ep
	var err error
	if p.ep.TLS, err = p.bothTLS(); err != nil {
		return err
	}
	if p.ep.AllowedIPs, err = bothAddresses(p.work, x, y); err != nil {
		return err
	}
	p.ep.AllowEncodedSlash = (x.Protocol == TCP || x.AllowEncodedSlash) && (y.Protocol == TCP || y.AllowEncodedSlash) && p.ep.Protocol != TCP
	if x.Protocol == TCP {
		x = y
	} else if y.Protocol == TCP {
		y = x
	}
	p.ep.RequestBodyRewrite = x.RequestBodyRewrite && y.RequestBodyRewrite
	p.ep.WebsocketRewrite = x.WebsocketRewrite && y.WebsocketRewrite
	p.ep.UninspectedCredentials = x.UninspectedCredentials && y.UninspectedCredentials
	return nil
}

func (p *piece) bothTLS() (TLS, error) {
	x, y := p.a.ep, p.b.ep
	switch {
	case x.Protocol == TCP && y.Protocol == TCP:
		return max(x.TLS, y.TLS), nil // auto, or skip, which is said in the receipt
	case x.Protocol == TCP:
		return y.TLS, nil
	case y.Protocol == TCP:
		return x.TLS, nil
	}
	for _, port := range p.ep.Ports {
		if x.Plain(port) != y.Plain(port) {
			return 0, cannot("one speaks plain HTTP to %s port %d, the other TLS", p.ep.Host, port)
		}
	}
	return min(x.TLS, y.TLS), nil
}

// bothAddresses combines the addresses that a host may have. No list means public
// addresses, which is no list that a policy could hold.
func bothAddresses(w *work, x, y *Endpoint) ([]netip.Prefix, error) {
	if slices.Equal(x.AllowedIPs, y.AllowedIPs) {
		return x.AllowedIPs, nil
	}
	if len(x.AllowedIPs) == 0 || len(y.AllowedIPs) == 0 {
		return nil, cannot("one has allowed_ips for %s, the other allows public addresses only", x.Host)
	}
	if err := w.pairs(len(x.AllowedIPs), len(y.AllowedIPs)); err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, p := range x.AllowedIPs {
		for _, q := range y.AllowedIPs {
			switch {
			case !p.Overlaps(q):
			case p.Bits() >= q.Bits():
				out = append(out, p)
			default:
				out = append(out, q)
			}
		}
	}
	if len(out) == 0 {
		return nil, cannot("allowed_ips for %s have no address in common", x.Host)
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	return slices.Compact(out), nil
}

// decide finds the endpoints that decide about requests in the piece.
func (p *piece) decide(left, right []side) error {
	for _, all := range [][]side{left, right} {
		for i := range all {
			if err := p.work.connection(p.binaries, all[i].n.Binaries, &p.ep, all[i].ep); err != nil {
				return err
			}
		}
	}
	p.ruleA, p.ruleB = p.deciding(p.a, left), p.deciding(p.b, right)
	return nil
}

// connection is spend for finding out whether two endpoints have connections in common.
func (w *work) connection(m, n []match.Path, x, y *Endpoint) error {
	if err := w.pairs(len(x.Ports), len(y.Ports)); err != nil || !shared(x.Ports, y.Ports) {
		return err
	}
	if err := w.spend(1); err != nil {
		return err
	}
	return w.paths(m, n)
}

// deciding returns the endpoint of a policy with the most specific path that covers
// the whole piece; own if there is none that is more specific.
func (p *piece) deciding(own *side, all []side) *side {
	best := own
	for i := range all {
		if s := &all[i]; s.rank() > best.rank() && p.coveredBy(s) {
			best = s
		}
	}
	return best
}

// coveredBy reports whether an endpoint is for every request of the piece.
func (p *piece) coveredBy(s *side) bool {
	if len(commonPorts(p.ep.Ports, s.ep.Ports)) != len(p.ep.Ports) {
		return false
	}
	if h, some, err := p.ep.Host.Both(s.ep.Host); err != nil || !some || !h.Equal(p.ep.Host) {
		return false
	}
	for _, b := range p.binaries {
		if !slices.ContainsFunc(s.n.Binaries, func(o match.Path) bool { return isWithin(b, o) }) {
			return false
		}
	}
	return p.ep.Protocol == TCP || isWithin(p.ep.Path, s.ep.Path)
}

func isWithin(p, o match.Path) bool {
	both, some, err := p.Both(o)
	return err == nil && some && both.Equal(p)
}

// checkOrder refuses pieces among which another one would decide than in one of the
// policies: for a request that several of them contain, those must decide whose
// endpoints do so in both.
func checkOrder(pieces []piece) error {
	for i := range pieces {
		for j := range pieces[:i] {
			p, q := &pieces[i], &pieces[j]
			if err := p.work.connection(p.binaries, q.binaries, &p.ep, &q.ep); err != nil {
				return err
			}
			if !p.meets(q) {
				continue
			}
			a, b := p.ruleA.rank()-q.ruleA.rank(), p.ruleB.rank()-q.ruleB.rank()
			order := rankOf(&p.ep) - rankOf(&q.ep)
			same := p.ruleA.ep == q.ruleA.ep && p.ruleB.ep == q.ruleB.ep
			switch {
			case same, a*b < 0: // one that is above both decides
			case a == 0 && b == 0 && order == 0, a+b > 0 && order > 0, a+b < 0 && order < 0:
			default:
				return cannot("paths %s and %s of %s: the more specific one of each policy cannot decide", p.ep.Path, q.ep.Path, p.ep.Host)
			}
		}
	}
	return nil
}

// meets reports whether a request could be in both pieces.
func (p *piece) meets(q *piece) bool {
	if !shared(p.ep.Ports, q.ep.Ports) {
		return false
	}
	if _, some, err := p.ep.Host.Both(q.ep.Host); err == nil && !some {
		return false
	}
	if p.ep.Protocol != TCP && q.ep.Protocol != TCP {
		if _, some, err := p.ep.Path.Both(q.ep.Path); err == nil && !some {
			return false
		}
	}
	return meet(p.binaries, q.binaries)
}

// named puts pieces of the same two network policies together, under their names.
func named(pieces []piece) []NetworkPolicy {
	var out []NetworkPolicy
	of := map[[2]*NetworkPolicy]int{}
	keys := map[string]bool{}
	for _, p := range pieces {
		pair := [2]*NetworkPolicy{p.a.n, p.b.n}
		i, known := of[pair]
		if !known {
			i = len(out)
			of[pair] = i
			out = append(out, NetworkPolicy{Key: newKey(p.a.n.Key, p.b.n.Key, keys), Binaries: p.binaries})
			out[i].Name = out[i].Key
			if p.a.n.Name == p.b.n.Name {
				out[i].Name = p.a.n.Name
			}
		}
		out[i].Endpoints = append(out[i].Endpoints, p.ep)
	}
	slices.SortFunc(out, func(a, b NetworkPolicy) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// newKey returns a key that is not used.
func newKey(a, b string, used map[string]bool) string {
	const most = 63
	key := a
	if a != b {
		key += "." + b
	}
	key = key[:min(len(key), most)]
	for n, base := 2, key; used[key]; n++ {
		end := "-" + strconv.Itoa(n)
		key = base[:min(len(base), most-len(end))] + end
	}
	used[key] = true
	return key
}
