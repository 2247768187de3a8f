package egress

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/match"
)

// view is the part of a generation for one program, host and port.
type view struct {
	gen *Generation
	// rules is the policy without the parts that do not list the program or the
	// host. Rules keep their names.
	rules *policy.Policy
	// lists are the entries for the host and port of each list of network policies, most
	// specific host first. A list without entries allows nothing.
	lists [][]*policy.Endpoint
	// found are those of all lists.
	found []*policy.Endpoint
	// addresses are those that the host may have; none means public ones.
	addresses []netip.Prefix
	host      string
	port      uint16
	// connection is the decision about a connection; layer is the check that
	// refused it.
	connection policy.Explanation
	layer      string
	// unlisted means that the operator allows any host, and the policy does not list
	// this one.
	unlisted bool
	// decided caches decisions.
	decided decisions
}

// decisions caches the decisions of a policy. Programs repeat the same
// requests, and the policy does not change.
type decisions struct {
	mu    sync.Mutex
	known map[question]policy.Explanation
}

// question is the part of a request that such a decision depends on.
type question struct{ scheme, method, path string }

const (
	maxDecisions = 64
	maxQuestion  = 256
)

// ask returns a cached decision, or calls ask for it.
func (d *decisions) ask(q policy.Request, ask func(policy.Request) policy.Explanation) policy.Explanation {
	if len(q.Query) > 0 || q.Facts != nil || len(q.Method)+len(q.Path) > maxQuestion {
		return ask(q)
	}
	key := question{q.Scheme, q.Method, q.Path}
	d.mu.Lock()
	e, ok := d.known[key]
	d.mu.Unlock()
	if ok {
		return e
	}
	e = ask(q)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxDecisions {
		d.known = map[question]policy.Explanation{}
	}
	// Clone the strings: as parts of the request they would keep all of it in
	// memory.
	d.known[question{q.Scheme, strings.Clone(q.Method), strings.Clone(q.Path)}] = e
	return e
}

// anyBinary is the pattern that stands for every binary, also one that the cell made.
const anyBinary = "/**"

// secrets returns the credentials, nil if the policy names none. An empty Set
// would still find placeholders of another run in headers and addresses, but
// that is not worth waiting for bodies and reading every message of a
// websocket.
func (g *Generation) secrets() *credential.Set {
	if len(g.Policy.Credentials) == 0 {
		return nil
	}
	return g.Credentials
}

// view returns the policy's decision about a connection.
func (g *Generation) view(p Process, host string, port uint16) *view {
	v := &view{gen: g, rules: &policy.Policy{}, host: host, port: port, layer: layerEndpoint}
	for i, list := range g.Policy.Lists() {
		rules, found := serving(list, p, host, port)
		if i == 0 {
			v.rules.Network = rules
		} else {
			v.rules.Ceilings = append(v.rules.Ceilings, rules)
		}
		v.lists, v.found = append(v.lists, found), append(v.found, found...)
	}
	if g.Unrestricted && len(v.found) == 0 {
		v.unlisted, v.connection = true, policy.Explanation{Allowed: true, Rule: ruleUnrestricted, Reason: "the operator allows any host"}
		return v
	}
	v.addresses = addressesOf(v.lists)
	v.connection = v.rules.ExplainRequest(policy.Request{Host: host, Port: port})
	if !v.connection.Allowed {
		v.explainRefusal(p)
	}
	return v
}

// serving returns the part of a list of network policies that is for a program, host and
// port, and its entries, most specific host first.
func serving(list []policy.NetworkPolicy, p Process, host string, port uint16) (rules []policy.NetworkPolicy, found []*policy.Endpoint) {
	for i := range list {
		n := &list[i]
		if !p.isAdmitted(n) {
			continue
		}
		before := len(found)
		for j := range n.Endpoints {
			if e := &n.Endpoints[j]; e.Serves(host, port) {
				found = append(found, e)
			}
		}
		if len(found) > before {
			rules = append(rules, *n)
		}
	}
	slices.SortStableFunc(found, func(a, b *policy.Endpoint) int { return hostRank(b.Host) - hostRank(a.Host) })
	return rules, found
}

// ruleUnrestricted is the rule of what the operator allows besides the policy.
const ruleUnrestricted = "unrestricted"

// explainRefusal sets the reason of a refused connection: whether the whole policy
// does not allow the host, or not for this program.
func (v *view) explainRefusal(p Process) {
	v.connection = v.gen.Policy.ExplainRequest(policy.Request{Host: v.host, Port: v.port, Binary: p.Binary})
	if !v.connection.Allowed {
		return
	}
	v.connection.Allowed = false
	switch {
	case p.Unknown != "":
		v.layer, v.connection.Reason = layerAttribution, p.Unknown
	case p.Binary == "":
		v.layer, v.connection.Reason = layerAttribution, "the program that opened the connection is not known"
	default:
		v.connection.Reason = "the rule names a binary, and the cell could have written this file itself; only path: /** matches it"
	}
}

// refuse returns why a connection of a program is not allowed.
func (v *view) refuse(to place, p Process) *refusal {
	return &refusal{layer: v.layer, policy: v.gen.Hash, Explanation: v.connection, hint: connectionHint(to, p)}
}

// isAdmitted reports whether a network policy lists the program.
func (p Process) isAdmitted(n *policy.NetworkPolicy) bool {
	if p.Untrusted || p.Binary == "" {
		return slices.ContainsFunc(n.Binaries, func(b match.Path) bool { return b.String() == anyBinary })
	}
	// An empty path would match any program.
	named := func(name string) bool { return name != "" && n.Admits(name) }
	return named(p.Binary) || slices.ContainsFunc(p.Also, named)
}

// hostRank orders patterns: exact ones before those with wildcards, longer ones
// before shorter ones.
func hostRank(h match.Host) int {
	if h.Exact() {
		return 1 << 16
	}
	return len(h.String())
}

// reads reports whether the content of requests could decide. If not, it need
// not be read.
func (v *view) reads() bool {
	return slices.ContainsFunc(v.found, func(e *policy.Endpoint) bool {
		switch e.Protocol {
		case policy.TCP, policy.REST, policy.Websocket:
			return false
		case policy.GraphQL, policy.ModelContext, policy.JSONRPC, policy.GRPC:
		}
		return true
	})
}

// opaque reports whether connections are forwarded without inspection. If one
// endpoint requires inspection, all requests are inspected.
func (v *view) opaque() bool { return opaque(v.found) }

func opaque(found []*policy.Endpoint) bool {
	return !slices.ContainsFunc(found, func(e *policy.Endpoint) bool { return e.Protocol != policy.TCP })
}

// skipsTLS reports whether the policy says `tls: skip`.
func (v *view) skipsTLS() bool {
	return slices.ContainsFunc(v.found, func(e *policy.Endpoint) bool { return e.TLS == policy.TLSSkip })
}

// allowed returns the addresses that the host may have.
func (v *view) allowed() []netip.Prefix {
	if v.unlisted {
		return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	}
	return v.addresses
}

// encodedSlash reports whether paths may hold an encoded slash: only if every
// endpoint allows it, as in the policy itself.
func (v *view) encodedSlash() bool {
	return !slices.ContainsFunc(v.found, func(e *policy.Endpoint) bool { return e.Protocol != policy.TCP && !e.AllowEncodedSlash })
}

// endpointFor returns the endpoint that applies to a canonical path, nil if there
// is none. If there are several in one list they agree on the protocol, or the policy
// denies the request. Of those of several lists it is one that reads contents, else one
// that allows no websocket: they agree on signing, or the policy denies the request.
func (v *view) endpointFor(path string) *policy.Endpoint {
	var most *policy.Endpoint
	for _, found := range v.lists {
		if opaque(found) {
			continue
		}
		best := mostSpecific(found, path)
		if best == nil {
			return nil
		}
		if most == nil || strictness(best) > strictness(most) {
			most = best
		}
	}
	return most
}

// mostSpecific returns the inspected endpoint with the most specific path that contains a
// canonical one; nil if there is none.
func mostSpecific(found []*policy.Endpoint, path string) *policy.Endpoint {
	var best *policy.Endpoint
	for _, e := range found {
		if e.Protocol == policy.TCP || !e.Path.Match(path) {
			continue
		}
		if best == nil || e.Path.Specificity() > best.Path.Specificity() {
			best = e
		}
	}
	return best
}

// strictness orders the endpoints of several lists that apply to one request.
func strictness(e *policy.Endpoint) int {
	switch e.Protocol {
	case policy.Websocket:
		return 0
	case policy.TCP, policy.REST:
		return 1
	case policy.GraphQL, policy.ModelContext, policy.JSONRPC, policy.GRPC:
	}
	return 2
}

// explain decides about a request.
func (v *view) explain(q policy.Request) policy.Explanation {
	if len(v.found) == 0 {
		return v.connection
	}
	q.Host, q.Port, q.Binary = v.host, v.port, ""
	return v.decided.ask(q, v.rules.ExplainRequest)
}

// checkScheme decides whether requests may come in plain HTTP, or in TLS.
func (v *view) checkScheme(scheme string) error {
	e := v.explain(policy.Request{Scheme: scheme})
	if e.Allowed || len(v.found) == 0 {
		return nil
	}
	r := &refusal{layer: layerTLS, Explanation: e}
	if scheme == policy.HTTP {
		r.hint = "tls: off"
	}
	return r
}

// inspection returns what must be read of a request before it is decided.
func (v *view) inspection(q policy.Request) policy.Inspection {
	q.Host, q.Port, q.Binary = v.host, v.port, ""
	return v.rules.Inspection(q)
}
