package policy

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// maxCompared bounds the work of Within, in comparisons of short patterns.
const maxCompared = 1 << 21

// Within reports whether a policy allows nothing that another one denies. It may miss
// that for policies that are written in different ways, or are very large.
func Within(p, ceiling *Policy) bool {
	under, err := Under(p, ceiling)
	if err != nil {
		return false
	}
	// Variables allow nothing.
	left, right := *under, *p
	for _, one := range []*Policy{&left, &right} {
		one.Environment.Set, one.Network, one.Ceilings = nil, nil, nil
	}
	if left.Digest() != right.Digest() {
		return false
	}
	if len(p.Network) == 0 || len(ceiling.Network) == 0 {
		return len(p.Network) == 0
	}
	c := comparison{left: maxCompared}
	return !slices.ContainsFunc(ceiling.Lists(), func(outer []NetworkPolicy) bool {
		return !slices.ContainsFunc(p.Lists(), func(inner []NetworkPolicy) bool { return c.within(inner, outer) })
	})
}

// comparison counts down what may still be compared.
type comparison struct{ left int }

// spend reports whether there is enough left.
func (c *comparison) spend(n int) bool {
	c.left = max(c.left-n, -1)
	return c.left >= 0
}

// side is an endpoint with the binaries that may use it.
type side struct {
	binaries []match.Path
	ep       *Endpoint
}

func sides(network []NetworkPolicy) []side {
	var out []side
	for i := range network {
		for j := range network[i].Endpoints {
			out = append(out, side{network[i].Binaries, &network[i].Endpoints[j]})
		}
	}
	return out
}

// within reports whether one list of network policies allows nothing that another one
// denies.
func (c *comparison) within(inner, outer []NetworkPolicy) bool {
	if networkText(inner) == networkText(outer) {
		return true
	}
	around := sides(outer)
	return !slices.ContainsFunc(sides(inner), func(x side) bool { return !c.sideWithin(x, around) })
}

// sideWithin reports whether every endpoint of a list that could decide about a request to
// an endpoint allows what that one allows, and whether one is for all of its requests.
func (c *comparison) sideWithin(x side, outer []side) bool {
	covered, passes, reads := false, false, false
	for _, y := range outer {
		if !c.spend(4 + len(x.ep.Ports)*len(y.ep.Ports)/16) {
			return false
		}
		if !shared(x.ep.Ports, y.ep.Ports) || areApart(x.ep.Host, y.ep.Host) {
			continue
		}
		if !c.spend(len(x.binaries)*len(y.binaries) + length(x.binaries)*length(y.binaries)/256) {
			return false
		}
		if !meet(x.binaries, y.binaries) {
			continue
		}
		if !c.connectsWithin(x.ep, y.ep) {
			return false
		}
		passes, reads = passes || y.ep.Protocol == TCP, reads || y.ep.Protocol != TCP
		if y.ep.Protocol != TCP && areApart(x.ep.Path, y.ep.Path) {
			continue
		}
		if y.ep.Protocol != TCP && !c.requestsWithin(x.ep, y.ep) {
			return false
		}
		covered = covered || x.coveredBy(y)
	}
	return covered && !(passes && reads) // such a connection is inspected
}

func length(list []match.Path) (n int) {
	for _, p := range list {
		n += len(p.String())
	}
	return n
}

// meet reports whether a path could match a pattern of each list.
func meet(a, b []match.Path) bool {
	return slices.ContainsFunc(a, func(x match.Path) bool {
		return slices.ContainsFunc(b, func(y match.Path) bool { return !areApart(x, y) })
	})
}

// pattern is a pattern of package match.
type pattern[T any] interface {
	Both(o T) (T, bool, error)
	String() string
	IsZero() bool
}

// areApart reports whether nothing matches both patterns.
func areApart[T pattern[T]](a, b T) bool {
	_, some, err := a.Both(b)
	return err == nil && !some
}

// inside reports whether everything that matches a pattern matches another one. A zero
// pattern matches everything.
func inside[T pattern[T]](a, b T) bool {
	if a.IsZero() || b.IsZero() {
		return b.IsZero()
	}
	both, some, err := a.Both(b)
	return err == nil && some && both.String() == a.String()
}

// insideAny reports whether each pattern is inside one of others.
func insideAny[T pattern[T]](a, b []T) bool {
	return !slices.ContainsFunc(a, func(x T) bool {
		return !slices.ContainsFunc(b, func(y T) bool { return inside(x, y) })
	})
}

// coveredBy reports whether an endpoint is for every request of another one.
func (s side) coveredBy(o side) bool {
	return len(commonPorts(s.ep.Ports, o.ep.Ports)) == len(s.ep.Ports) && inside(s.ep.Host, o.ep.Host) &&
		insideAny(s.binaries, o.binaries) && (o.ep.Protocol == TCP || inside(s.ep.Path, o.ep.Path))
}

// connectsWithin compares what is decided about a connection, before its first request.
func (c *comparison) connectsWithin(x, y *Endpoint) bool {
	if !c.spend(len(x.AllowedIPs)*len(y.AllowedIPs)) || !addressesWithin(x.AllowedIPs, y.AllowedIPs) {
		return false
	}
	switch {
	case y.Protocol == TCP:
		return true
	case x.Protocol == TCP, x.AllowEncodedSlash && !y.AllowEncodedSlash:
		return false
	}
	return !slices.ContainsFunc(commonPorts(x.Ports, y.Ports), func(port uint16) bool { return x.plain(port) != y.plain(port) })
}

// addressesWithin compares allowed_ips. No list means public addresses.
func addressesWithin(a, b []netip.Prefix) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return !slices.ContainsFunc(a, func(p netip.Prefix) bool {
		return !slices.ContainsFunc(b, func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Contains(p.Addr()) })
	})
}

// requestsWithin compares the rules of two endpoints.
func (c *comparison) requestsWithin(x, y *Endpoint) bool {
	switch {
	case !x.signsLike(y):
		return false
	case y.Protocol == REST && y.Access == Full && len(y.DenyRules) == 0 && x.Protocol != Websocket:
		return true
	case x.Protocol != y.Protocol, x.Enforcement == Audit && y.Enforcement != Audit:
		return false
	case x.readsMessages() != y.readsMessages(), x.bodies() > y.bodies():
		return false
	case x.MCP.LooseToolNames && !y.MCP.LooseToolNames, x.MCP.AllMethods && !y.MCP.AllMethods:
		return false
	case !x.queriesWithin(y):
		return false
	}
	allowX, denyX := x.Effective()
	allowY, denyY := y.Effective()
	if !c.rulesWithin(denyY, denyX, equalRules) {
		return false
	}
	return c.rulesWithin(allowX, allowY, func(a, b *Rule) bool { return a.within(b) }) || y.MCP.AllMethods && c.knownWithin(allowX, allowY)
}

// knownWithin is for an endpoint that allows all methods that MCP knows.
func (c *comparison) knownWithin(a, b []Rule) bool {
	a = slices.DeleteFunc(slices.Clone(a), func(r Rule) bool { return knownMCP(r.Call.String()) })
	return c.rulesWithin(a, b, func(a, b *Rule) bool { return a.within(b) })
}

func (c *comparison) rulesWithin(a, b []Rule, is func(a, b *Rule) bool) bool {
	for i := range a {
		found := false
		for j := 0; j < len(b) && !found; j++ {
			if !c.spend(a[i].cost(&b[j])) {
				return false
			}
			found = is(&a[i], &b[j])
		}
		if !found {
			return false
		}
	}
	return true
}

// cost is that of comparing two rules. A long pattern is many short ones.
func (r *Rule) cost(o *Rule) int {
	n := 8 + len(r.Path.String())*len(o.Path.String())/256 + len(r.Fields)*len(o.Fields) + len(r.Tools)*len(o.Tools)
	for _, q := range r.Query {
		for _, p := range o.Query {
			n += 1 + len(q.Any)*len(p.Any)
		}
	}
	return n
}

// text returns a rule as text: equal rules have the same.
func (r *Rule) text() string {
	var b bytes.Buffer
	r.tree().write(&b, 0)
	return b.String()
}

func equalRules(a, b *Rule) bool { return a.text() == b.text() }

func (e *Endpoint) bodies() int64 {
	if e.MaxBody == 0 {
		return DefaultMaxBody
	}
	return e.MaxBody
}

// queriesWithin compares persisted queries: another endpoint knows the same meaning of each.
func (e *Endpoint) queriesWithin(o *Endpoint) bool {
	if e.RegisteredQueries && !o.RegisteredQueries {
		return false
	}
	for _, q := range e.PersistedQueries {
		i, known := slices.BinarySearchFunc(o.PersistedQueries, q.ID, func(p PersistedQuery, id string) int { return cmp.Compare(p.ID, id) })
		if !known || o.PersistedQueries[i].Operation != q.Operation || o.PersistedQueries[i].OperationName != q.OperationName || !slices.Equal(o.PersistedQueries[i].Fields, q.Fields) {
			return false
		}
	}
	return true
}

// within reports whether an allow rule allows nothing that another one does not.
func (r *Rule) within(o *Rule) bool {
	if (r.Operation == OperationNone) != (o.Operation == OperationNone) || o.Operation != OperationAny && o.Operation != r.Operation {
		return false
	}
	return r.Call.IsZero() == o.Call.IsZero() && r.Method.IsZero() == o.Method.IsZero() &&
		inside(r.Method, o.Method) && inside(r.Path, o.Path) && inside(r.Call, o.Call) && inside(r.Service, o.Service) &&
		inside(r.OperationName, o.OperationName) && listWithin(r.Fields, o.Fields) && listWithin(r.Tools, o.Tools) && r.queryWithin(o)
}

// listWithin compares alternatives of which none at all means any.
func listWithin(a, b []match.Text) bool {
	return len(b) == 0 || len(a) > 0 && insideAny(a, b)
}

func (r *Rule) queryWithin(o *Rule) bool {
	return !slices.ContainsFunc(o.Query, func(q QueryMatch) bool {
		i := slices.IndexFunc(r.Query, func(p QueryMatch) bool { return p.Key == q.Key })
		return i < 0 || !insideAny(r.Query[i].Any, q.Any)
	})
}
