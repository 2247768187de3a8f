package policy

import (
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// Request is a connection of a program in a cell or, with a method, a request
// on it.
type Request struct {
	Host string
	Port uint16
	// Scheme is HTTP or HTTPS; empty means the endpoint's own.
	Scheme string
	// Binary is the executable that opens the connection; empty means any.
	Binary string
	// Method and Path are those of an HTTP request; empty means only the
	// connection.
	Method string
	// Path is as the program sends it, without the query.
	Path  string
	Query map[string][]string
	// Facts describe the content, where Inspection requires it. The method of a
	// websocket's text message is WEBSOCKET_TEXT, its path that of the
	// handshake.
	Facts *Facts
	// Content finds the facts of a request for ExplainSent. Nil means that the
	// content is not known.
	Content Content
}

// Content reads a request as the protocol of its rules. The request's path is
// in canonical form. It returns what was read, or why it could not be.
type Content func(as Inspection, s SentRequest) (facts *Facts, refusal string)

// matches reports whether a rule matches an HTTP request whose path is
// canonical. For a key that the rule names, an allow rule requires at least one
// value and every value to match; a deny rule matches if one value does.
func (r *Rule) matches(method, path string, query map[string][]string, deny bool) bool {
	if !r.Method.Match(method) || !r.Path.Match(path) {
		return false
	}
	for _, q := range r.Query {
		fits := func(v string) bool {
			return slices.ContainsFunc(q.Any, func(t match.Text) bool { return t.Match(v) })
		}
		values := query[q.Key]
		if deny && !slices.ContainsFunc(values, fits) {
			return false
		}
		if !deny && (len(values) == 0 || slices.ContainsFunc(values, func(v string) bool { return !fits(v) })) {
			return false
		}
	}
	return true
}

// Serves reports whether the endpoint is for connections to a host and port.
func (e *Endpoint) Serves(host string, port uint16) bool {
	return slices.Contains(e.Ports, port) && e.Host.Match(host)
}

// Admits reports whether the policy lists a binary; "" means any.
func (n *NetworkPolicy) Admits(binary string) bool {
	return binary == "" || slices.ContainsFunc(n.Binaries, func(b match.Path) bool { return b.Match(binary) })
}

// Covers reports whether a credential may go into a request whose path is
// canonical.
func (e *CredentialEndpoint) Covers(host string, port uint16, path string) bool {
	return slices.Contains(e.Ports, port) && e.Host.Match(host) && e.Path.Match(path)
}

// candidate is an endpoint that a connection may use.
type candidate struct {
	ep   *Endpoint
	name string
}

// ExplainRequest returns whether the policy allows a connection or a request.
// The destination's address is checked separately.
func (p *Policy) ExplainRequest(q Request) Explanation {
	if len(p.Ceilings) == 0 {
		return section{network: p.Network}.explain(q)
	}
	return p.explainAll(q)
}

// explain is ExplainRequest for one list of network policies.
func (s section) explain(q Request) Explanation {
	found, other := s.candidates(q)
	switch {
	case len(found) == 0 && other != "":
		return Explanation{Rule: other, Reason: "the rule lists the endpoint, but not the binary " + show(q.Binary)}
	case len(found) == 0 && s.prefix != "":
		return Explanation{Rule: strings.TrimSuffix(s.prefix, "."), Reason: "no rule of the ceiling lists " + show(q.Host) + " with port " + strconv.Itoa(int(q.Port))}
	case len(found) == 0:
		return Explanation{Rule: "none", Reason: "no rule lists " + show(q.Host) + " with port " + strconv.Itoa(int(q.Port))}
	}
	if refused := checkScheme(found, q); refused != nil {
		return *refused
	}
	if q.Method == "" && q.Path == "" {
		return Explanation{Allowed: true, Rule: found[0].name, Reason: connectionReason(found[0].ep)}
	}
	found, q, refusal := narrow(found, q)
	if refusal != nil {
		return *refusal
	}
	return decide(found, q)
}

// candidates returns the endpoints for a connection, and the name of one that
// would match if it listed the binary.
func (s section) candidates(q Request) (found []candidate, other string) {
	for i := range s.network {
		n := &s.network[i]
		for j := range n.Endpoints {
			name := s.prefix + "network_policies." + n.Key + ".endpoints[" + strconv.Itoa(j) + "]"
			switch e := &n.Endpoints[j]; {
			case !e.Serves(q.Host, q.Port):
			case !n.Admits(q.Binary):
				other = name
			default:
				found = append(found, candidate{e, name})
			}
		}
	}
	return found, other
}

func connectionReason(e *Endpoint) string {
	if e.Protocol == TCP {
		return "the rule lists the endpoint; its bytes are not inspected"
	}
	return "the rule lists the endpoint; each request is decided by its " + e.Protocol.String() + " rules"
}
