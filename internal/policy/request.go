package policy

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/match"
)

// Request is what a program of a cell asks for: a connection, or with a method
// a request on it.
type Request struct {
	Host string
	Port uint16
	// Binary is the executable that opens the connection; empty asks about any.
	Binary string
	// Method and Path are of an HTTP request; empty asks about the connection.
	Method string
	// Path is as the program sends it, without the query.
	Path  string
	Query map[string][]string
}

// Matches reports whether a rule is about an HTTP request, whose path is
// canonical. Of a key that the rule names an allow rule wants every value to
// match and at least one to be there; a deny rule fires on one.
func (r *Rule) Matches(method, path string, query map[string][]string, deny bool) bool {
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

// Admits reports whether the policy lists a binary; "" asks for any.
func (n *NetworkPolicy) Admits(binary string) bool {
	return binary == "" || slices.ContainsFunc(n.Binaries, func(b match.Path) bool { return b.Match(binary) })
}

// Covers reports whether a credential may go into a request, whose path is
// canonical.
func (e *CredentialEndpoint) Covers(host string, port uint16, path string) bool {
	return slices.Contains(e.Ports, port) && e.Host.Match(host) && e.Path.Match(path)
}

// candidate is an endpoint that a connection may use.
type candidate struct {
	ep   *Endpoint
	name string
}

// ExplainRequest says whether a connection or a request would be allowed, as far
// as the policy decides: the destination's address is checked besides.
func (p *Policy) ExplainRequest(q Request) Explanation {
	var found []candidate
	other := ""
	for i := range p.Network {
		n := &p.Network[i]
		for j := range n.Endpoints {
			name := "network_policies." + n.Key + ".endpoints[" + strconv.Itoa(j) + "]"
			switch e := &n.Endpoints[j]; {
			case !e.Serves(q.Host, q.Port):
			case !n.Admits(q.Binary):
				other = name
			default:
				found = append(found, candidate{e, name})
			}
		}
	}
	switch {
	case len(found) == 0 && other != "":
		return Explanation{Rule: other, Reason: "the rule lists the endpoint, but not the binary " + show(q.Binary)}
	case len(found) == 0:
		return Explanation{Rule: "none", Reason: "no rule lists " + show(q.Host) + " with port " + strconv.Itoa(int(q.Port))}
	case q.Method == "" && q.Path == "":
		return Explanation{Allowed: true, Rule: found[0].name, Reason: connectionReason(found[0].ep)}
	}
	return explainRequest(found, q)
}

func connectionReason(e *Endpoint) string {
	if e.Protocol == TCP {
		return "the rule lists the endpoint; its bytes are not inspected"
	}
	return "the rule lists the endpoint; each request is decided by its " + e.Protocol.String() + " rules"
}

func explainRequest(found []candidate, q Request) Explanation {
	if q.Method == "" {
		q.Method = "GET"
	}
	if q.Path == "" {
		q.Path = "/"
	}
	opaque := found[0]
	found = slices.DeleteFunc(found, func(c candidate) bool { return c.ep.Protocol == TCP })
	if len(found) == 0 {
		return Explanation{Allowed: true, Rule: opaque.name, Reason: connectionReason(opaque.ep)}
	}
	if err := match.CheckMethod(q.Method); err != nil {
		return Explanation{Rule: "request", Reason: err.Error()}
	}
	strict := slices.ContainsFunc(found, func(c candidate) bool { return !c.ep.AllowEncodedSlash })
	path, err := match.URLPath(q.Path, !strict)
	if err != nil {
		return Explanation{Rule: "request", Reason: err.Error()}
	}
	q.Path = path
	found = slices.DeleteFunc(found, func(c candidate) bool { return !c.ep.Path.Match(path) })
	if len(found) == 0 {
		return Explanation{Rule: "none", Reason: "no entry of the host speaks for " + show(path)}
	}
	if e, denied := denial(found, q); denied {
		return e
	}
	return permission(speaking(found), q)
}

// speaking returns the endpoints with the most specific path.
func speaking(found []candidate) []candidate {
	most := 0
	for _, c := range found {
		most = max(most, c.ep.Path.Specificity())
	}
	return slices.DeleteFunc(found, func(c candidate) bool { return c.ep.Path.Specificity() < most })
}

// denial asks the deny rules of every endpoint that holds the path, also of
// those for which a more specific one speaks: a deny rule wins over everything.
func denial(found []candidate, q Request) (Explanation, bool) {
	for _, c := range found {
		_, deny := c.ep.Effective()
		for i := range deny {
			if deny[i].Matches(q.Method, q.Path, q.Query, true) {
				return audited(Explanation{
					Rule:   ruleName(c, "deny_rules", i, len(c.ep.DenyRules)),
					Reason: "a deny rule matches, and deny rules win",
				}, c.ep.Enforcement == Audit), true
			}
		}
	}
	return Explanation{}, false
}

func permission(found []candidate, q Request) Explanation {
	for _, c := range found {
		allow, _ := c.ep.Effective()
		for i := range allow {
			if allow[i].Matches(q.Method, q.Path, q.Query, false) {
				return Explanation{Allowed: true, Rule: ruleName(c, "rules", i, len(c.ep.Rules)), Reason: "the rule allows it"}
			}
		}
	}
	audit := true
	for _, c := range found {
		audit = audit && c.ep.Enforcement == Audit
		if c.ep.Protocol != REST && c.ep.Protocol != Websocket {
			return Explanation{Rule: c.name, Reason: "what the request's " + c.ep.Protocol.String() + " body says decides, and the question does not give it"}
		}
	}
	return audited(Explanation{Rule: found[0].name, Reason: "no rule of the entry allows " + q.Method + " " + show(q.Path)}, audit)
}

// ruleName names a rule that is written in the policy, or the preset.
func ruleName(c candidate, list string, i, written int) string {
	if i >= written {
		return c.name + ".access"
	}
	return fmt.Sprintf("%s.%s[%d]", c.name, list, i)
}

func audited(e Explanation, audit bool) Explanation {
	if audit {
		e.Allowed = true
		e.Reason += "; enforcement is audit, so it is forwarded and recorded"
	}
	return e
}
