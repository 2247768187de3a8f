package policy

import (
	"bytes"
	"slices"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// combine gives a piece its rules: the deny rules of its own endpoints, which hold
// wherever these do, and of the deciding ones what both allow.
func (p *piece) combine() error {
	if p.ep.Protocol == TCP {
		return nil
	}
	x, y := p.ruleA.ep, p.ruleB.ep
	replaced := x != p.a.ep || y != p.b.ep
	one, err := p.decider(x, y)
	if err != nil {
		return err
	}
	if err := p.sign(x, y); err != nil {
		return err
	}
	if one == nil {
		p.ep.Protocol = x.Protocol
		if err := p.cross(x, y); err != nil {
			return err
		}
	} else {
		p.copyRules(one)
	}
	if err := p.deny(one, replaced); err != nil {
		return err
	}
	if len(p.ep.Rules) == 0 && p.ep.Access == AccessNone && !p.ep.MCP.AllMethods {
		return p.closed()
	}
	return nil
}

// sign takes the signing of requests, on which both must agree.
func (p *piece) sign(x, y *Endpoint) error {
	if x.Protocol == TCP {
		x = y
	} else if y.Protocol == TCP {
		y = x
	}
	if x.Signing != y.Signing || x.SigningService != y.SigningService || x.SigningRegion != y.SigningRegion {
		return cannot("requests to %s are signed in different ways", p.ep.Host)
	}
	p.ep.Signing, p.ep.SigningService, p.ep.SigningRegion = x.Signing, x.SigningService, x.SigningRegion
	return nil
}

// unbounded reports whether an inspected endpoint allows every request, except to
// change the protocol of the connection.
func (e *Endpoint) unbounded() bool { return e.Access == Full && len(e.DenyRules) == 0 }

// decider returns the endpoint whose rules alone decide, because the other allows
// every request; nil if the rules of both do.
func (p *piece) decider(x, y *Endpoint) (*Endpoint, error) {
	switch {
	case x.Protocol == TCP:
		return y, nil
	case y.Protocol == TCP:
		return x, nil
	case x.Protocol == REST && x.unbounded() && y.Protocol != Websocket && (y.Protocol != REST || y.Enforcement != x.Enforcement):
		return y, nil
	case y.Protocol == REST && y.unbounded() && x.Protocol != Websocket && (x.Protocol != REST || x.Enforcement != y.Enforcement):
		return x, nil
	case x.Protocol != y.Protocol:
		return nil, cannot("requests to %s are inspected as %s and as %s", p.ep.Host, x.Protocol, y.Protocol)
	case x.Enforcement != y.Enforcement:
		return nil, cannot("enforcement for %s is audit in one, and enforce in the other", p.ep.Host)
	}
	return nil, nil //nolint:nilnil // both decide
}

// copyRules takes the rules of one endpoint.
func (p *piece) copyRules(e *Endpoint) {
	p.ep.Protocol, p.ep.Enforcement = e.Protocol, e.Enforcement
	p.ep.Access, p.ep.Rules = e.Access, e.Rules
	p.ep.MaxBody, p.ep.MCP = e.MaxBody, e.MCP
	p.ep.RegisteredQueries, p.ep.PersistedQueries = e.RegisteredQueries, e.PersistedQueries
}

// deny adds the deny rules of the piece's own endpoints. Those of a preset come with
// it, unless the piece has rules instead.
func (p *piece) deny(one *Endpoint, replaced bool) error {
	seen := map[string]bool{}
	for _, e := range []*Endpoint{p.a.ep, p.b.ep} {
		if e.Protocol == TCP {
			continue
		}
		deny := e.DenyRules
		if p.ep.Access == AccessNone || e.Access != p.ep.Access {
			_, deny = e.Effective()
		}
		if len(deny) > 0 && (e.Protocol != p.ep.Protocol || e.Enforcement != p.ep.Enforcement) && (replaced || one != e) {
			return cannot("deny rules for %s are of another protocol or enforcement than what decides", p.ep.Host)
		}
		if err := p.work.pairs(64, len(deny)); err != nil {
			return err
		}
		for _, r := range deny {
			if text := r.text(); !seen[text] {
				seen[text] = true
				p.ep.DenyRules = append(p.ep.DenyRules, r)
			}
		}
	}
	return nil
}

// text returns a rule as text: equal rules have the same.
func (r Rule) text() string {
	var b bytes.Buffer
	r.tree().write(&b, 0)
	return b.String()
}

// cross makes the rules that allow what the rules of both endpoints allow, which
// have the same protocol and enforcement.
func (p *piece) cross(x, y *Endpoint) error {
	p.ep.Enforcement = x.Enforcement
	p.ep.MaxBody = bothBodies(x, y)
	p.ep.MCP = MCP{LooseToolNames: x.MCP.LooseToolNames && y.MCP.LooseToolNames, AllMethods: x.MCP.AllMethods && y.MCP.AllMethods}
	if err := p.persisted(x, y); err != nil {
		return err
	}
	if x.Access != AccessNone && y.Access != AccessNone {
		p.ep.Access = min(x.Access, y.Access) // each preset includes those before it
		return p.keepsReading(x, y)
	}
	left, _ := x.Effective()
	right, _ := y.Effective()
	if x.MCP.AllMethods != y.MCP.AllMethods {
		if x.MCP.AllMethods {
			left = append(left, knownCalls()...)
		} else {
			right = append(right, knownCalls()...)
		}
	}
	if err := p.allow(left, right); err != nil {
		return err
	}
	return p.keepsReading(x, y)
}

// allow adds what a rule of each list allows.
func (p *piece) allow(left, right []Rule) error {
	seen := map[string]bool{}
	for _, a := range left {
		for _, b := range right {
			if err := p.work.ofRules(&a, &b); err != nil {
				return err
			}
			r, some, err := bothRules(a, b)
			if err != nil {
				return cannot("rules for %s: %v", p.ep.Host, err)
			}
			if !some {
				continue
			}
			if err := p.work.spend(64); err != nil { // it is written as text
				return err
			}
			text := r.text()
			if seen[text] {
				continue
			}
			seen[text] = true
			if p.ep.Rules = append(p.ep.Rules, r); len(p.ep.Rules) > maxEndpoints {
				return cannot("more than %d rules for %s together", maxEndpoints, p.ep.Host)
			}
		}
	}
	return nil
}

// keepsReading refuses websockets whose messages were read by one policy, and would
// not be any more.
func (p *piece) keepsReading(x, y *Endpoint) error {
	together := p.ep
	together.DenyRules = slices.Concat(p.a.ep.DenyRules, p.b.ep.DenyRules)
	if (x.readsMessages() || y.readsMessages()) && !together.readsMessages() {
		return cannot("only one reads the messages of websockets to %s", p.ep.Host)
	}
	return nil
}

func bothBodies(x, y *Endpoint) int64 {
	if x.MaxBody == 0 && y.MaxBody == 0 {
		return 0
	}
	bound := func(e *Endpoint) int64 {
		if e.MaxBody == 0 {
			return DefaultMaxBody
		}
		return e.MaxBody
	}
	return min(bound(x), bound(y))
}

// persisted keeps the persisted queries that both register.
func (p *piece) persisted(x, y *Endpoint) error {
	p.ep.RegisteredQueries = x.RegisteredQueries && y.RegisteredQueries
	if !p.ep.RegisteredQueries {
		return nil
	}
	if err := p.work.pairs(len(x.PersistedQueries), len(y.PersistedQueries)); err != nil {
		return err
	}
	for _, q := range x.PersistedQueries {
		i := slices.IndexFunc(y.PersistedQueries, func(o PersistedQuery) bool { return o.ID == q.ID })
		if i < 0 {
			continue
		}
		o := y.PersistedQueries[i]
		if o.Operation != q.Operation || o.OperationName != q.OperationName || !slices.Equal(o.Fields, q.Fields) {
			return cannot("they register the query %s with different meanings", show(q.ID))
		}
		p.ep.PersistedQueries = append(p.ep.PersistedQueries, q)
	}
	return nil
}

// closed gives a piece whose endpoints allow nothing together a rule that allows
// nothing. It cannot be left out: a less specific piece would decide then. Nor can it
// deny everything, because deny rules win over more specific pieces too.
func (p *piece) closed() error {
	switch p.ep.Protocol {
	case REST:
		// The proxy refuses CONNECT within a connection, whatever rules say.
		p.ep.Rules = []Rule{{Method: must(match.NewMethod("CONNECT")), Path: must(match.NewPath("/**"))}}
		return nil
	case GraphQL:
		// No field of a query is called so, and no persisted query is known.
		p.ep.Rules = []Rule{{Operation: OperationQuery, Fields: []match.Text{must(match.NewText("-"))}}}
		p.ep.RegisteredQueries, p.ep.PersistedQueries = false, nil
		return nil
	case ModelContext:
		// strict_tool_names does not let a tool be called so.
		p.ep.Rules = []Rule{{Call: must(match.NewText(toolsCall)), Tools: []match.Text{must(match.NewText("/"))}}}
		p.ep.MCP.LooseToolNames = false
		return nil
	case TCP, Websocket, JSONRPC, GRPC:
	}
	return cannot("they allow no request to %s together, but both list it", p.ep.Host)
}

// knownCalls returns rules for every method of MCP.
func knownCalls() []Rule {
	var out []Rule
	for _, m := range mcpMethods() {
		out = append(out, Rule{Call: must(match.NewText(m))})
	}
	return out
}

// bothRules returns the rule that allows what two rules of one protocol allow; false
// if that is nothing.
func bothRules(a, b Rule) (Rule, bool, error) {
	switch {
	case a.Operation != OperationNone && b.Operation != OperationNone:
		return bothOperations(a, b)
	case a.Operation != OperationNone:
		return messages(a, b)
	case b.Operation != OperationNone:
		return messages(b, a)
	case !a.Call.IsZero():
		return bothCalls(a, b)
	}
	return bothRequests(a, b)
}

// messages combines a rule about operations in messages of a websocket with one
// about requests, which must be about all messages or none.
func messages(operation, request Rule) (Rule, bool, error) {
	switch {
	case !request.Method.Match(textMessage):
		return Rule{}, false, nil
	case request.Path.Any() && len(request.Query) == 0:
		return operation, true, nil
	}
	return Rule{}, false, match.ErrUnclear
}

func bothRequests(a, b Rule) (out Rule, some bool, err error) {
	if out.Method, some, err = a.Method.Both(b.Method); err != nil || !some {
		return out, false, err
	}
	if out.Path, some, err = a.Path.Both(b.Path); err != nil || !some {
		return out, false, err
	}
	out.Query = slices.Clone(a.Query)
	for _, q := range b.Query {
		i := slices.IndexFunc(out.Query, func(o QueryMatch) bool { return o.Key == q.Key })
		if i < 0 {
			out.Query = append(out.Query, q)
			continue
		}
		values, err := bothLists(out.Query[i].Any, q.Any)
		if err != nil || len(values) == 0 {
			return out, false, err
		}
		out.Query[i].Any = values
	}
	sortQuery(out.Query)
	return out, true, nil
}

func bothOperations(a, b Rule) (out Rule, some bool, err error) {
	switch {
	case a.Operation == b.Operation || b.Operation == OperationAny:
		out.Operation = a.Operation
	case a.Operation == OperationAny:
		out.Operation = b.Operation
	default:
		return out, false, nil
	}
	if out.OperationName, some, err = bothTexts(a.OperationName, b.OperationName); err != nil || !some {
		return out, false, err
	}
	out.Fields, some, err = bothOptional(a.Fields, b.Fields)
	return out, some, err
}

func bothCalls(a, b Rule) (out Rule, some bool, err error) {
	if out.Call, some, err = a.Call.Both(b.Call); err != nil || !some {
		return out, false, err
	}
	if out.Service, some, err = bothTexts(a.Service, b.Service); err != nil || !some {
		return out, false, err
	}
	if out.Tools, some, err = bothOptional(a.Tools, b.Tools); err != nil || !some {
		return out, false, err
	}
	return out, len(out.Tools) == 0 || out.Call.Match(toolsCall), nil
}

// bothTexts combines two patterns of which none matches everything.
func bothTexts(a, b match.Text) (match.Text, bool, error) {
	switch {
	case a.IsZero():
		return b, true, nil
	case b.IsZero():
		return a, true, nil
	}
	return a.Both(b)
}

// bothOptional combines two lists of which an empty one matches everything.
func bothOptional(a, b []match.Text) ([]match.Text, bool, error) {
	switch {
	case len(a) == 0:
		return b, true, nil
	case len(b) == 0:
		return a, true, nil
	}
	out, err := bothLists(a, b)
	return out, len(out) > 0, err
}

// bothLists returns what matches one pattern of each list.
func bothLists(a, b []match.Text) ([]match.Text, error) {
	var out []match.Text
	for _, x := range a {
		for _, y := range b {
			both, some, err := x.Both(y)
			if err != nil {
				return nil, err
			}
			if some {
				out = append(out, both)
			}
		}
	}
	return textSet(out), nil
}
