package policy

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// Inspection says how much of a request must be read before it can be decided.
type Inspection struct {
	// Protocol is the protocol to read the content as; TCP, the zero value,
	// means that the content decides nothing.
	Protocol Protocol
	// MaxBody bounds the content that is read; zero if none is read (gRPC).
	MaxBody int64
}

// Inspection returns what ExplainRequest needs in Request.Facts. If the content
// cannot be read as that protocol the request must be denied, also under
// enforcement: audit, because what it does could not be recorded.
func (p *Policy) Inspection(q Request) Inspection {
	if len(p.Ceilings) == 0 {
		want, _ := section{network: p.Network}.inspection(q)
		return want
	}
	want, _ := p.inspectionOfAll(q)
	return want
}

// covering returns the endpoints that decide about a request; none if no rule is needed to
// decide.
func (s section) covering(q Request) ([]candidate, Request) {
	found, _ := s.candidates(q)
	found, q, refusal := narrow(found, q)
	if refusal != nil {
		return nil, q
	}
	return mostSpecific(found), q
}

// inspection is Inspection for one list of network policies. It reports false if its
// endpoints disagree.
func (s section) inspection(q Request) (Inspection, bool) {
	found, q := s.covering(q)
	return needed(found, q)
}

// needed returns the inspection that the endpoints for a path require. It
// reports false if they disagree about the protocol: then a request could
// satisfy each rule in one reading while the server uses the other. The lowest
// bound applies.
func needed(found []candidate, q Request) (Inspection, bool) {
	var want Inspection
	for _, c := range found {
		as := c.ep.Protocol
		switch {
		case as.isInspected():
		case q.Method == textMessage && c.ep.readsMessages():
			as = GraphQL
		default:
			continue
		}
		if want.Protocol != TCP && want.Protocol != as {
			return Inspection{}, false
		}
		want.Protocol = as
		limit := c.ep.MaxBody
		if limit == 0 && as != GRPC {
			limit = DefaultMaxBody
		}
		if want.MaxBody == 0 || limit < want.MaxBody {
			want.MaxBody = limit
		}
	}
	return want, true
}

const textMessage = "WEBSOCKET_TEXT"

// narrow returns the endpoints that contain the path of a request, and the
// request with its path in canonical form; or a decision that needs no rule.
func narrow(found []candidate, q Request) ([]candidate, Request, *Explanation) {
	if len(found) == 0 {
		return nil, q, &Explanation{Rule: "none", Reason: "no rule lists the endpoint"}
	}
	if q.Method == "" {
		q.Method = "GET"
	}
	if q.Path == "" {
		q.Path = "/"
	}
	opaque := found[0]
	found = slices.DeleteFunc(found, func(c candidate) bool { return c.ep.Protocol == TCP })
	if len(found) == 0 {
		return nil, q, &Explanation{Allowed: true, Rule: opaque.name, Reason: connectionReason(opaque.ep)}
	}
	if err := match.CheckMethod(q.Method); err != nil {
		return nil, q, &Explanation{Rule: ruleRequest, Reason: err.Error()}
	}
	strict := slices.ContainsFunc(found, func(c candidate) bool { return !c.ep.AllowEncodedSlash })
	path, err := match.URLPath(q.Path, !strict)
	if err != nil {
		return nil, q, &Explanation{Rule: ruleRequest, Reason: err.Error()}
	}
	q.Path = path
	found = slices.DeleteFunc(found, func(c candidate) bool { return !c.ep.Path.Match(path) })
	if len(found) == 0 {
		return nil, q, &Explanation{Rule: "none", Reason: "no entry of the host covers " + show(path)}
	}
	return found, q, nil
}

// decide applies the rules. First the deny rules of every endpoint that
// contains the path, also of those that a more specific one overrides: a deny
// rule wins over everything. Then the endpoints with the most specific path
// must allow the request.
func decide(found []candidate, q Request) Explanation {
	covering := mostSpecific(found)
	want, agreed := needed(covering, q)
	if !agreed {
		return Explanation{Rule: covering[0].name, Reason: "the entries that cover the path disagree about its protocol"}
	}
	if q.Facts != nil && (q.Facts.Protocol != want.Protocol || q.Facts.empty()) {
		return Explanation{Rule: ruleRequest, Reason: "the content of the request does not fit the protocol of its rules"}
	}
	recorded, denied := denial(found, q)
	if denied && !recorded.Audited {
		return recorded
	}
	if want.Protocol != TCP && q.Facts == nil {
		c := covering[slices.IndexFunc(covering, func(c candidate) bool { return c.ep.Protocol != REST })]
		return Explanation{Rule: c.name, Reason: "it depends on the " + want.Protocol.String() + " content of the request; give --body"}
	}
	answer := permission(covering, q)
	if denied && answer.Allowed {
		return recorded
	}
	return answer
}

// mostSpecific returns the endpoints with the most specific path.
func mostSpecific(found []candidate) []candidate {
	most := 0
	for _, c := range found {
		most = max(most, c.ep.Path.Specificity())
	}
	return slices.DeleteFunc(slices.Clone(found), func(c candidate) bool { return c.ep.Path.Specificity() < most })
}

// denial looks for a deny rule that matches. An enforced one takes precedence
// over one that is only recorded.
func denial(found []candidate, q Request) (first Explanation, denied bool) {
	meant := withKnownMeanings(found, q.Facts)
	for _, c := range found {
		rule := c.denies(q, meant)
		if rule == "" {
			continue
		}
		e := audited(Explanation{Rule: rule, Reason: denyWins}, c.ep.Enforcement == Audit)
		if !e.Audited {
			return e, true
		}
		if !denied {
			first, denied = e, true
		}
	}
	return first, denied
}

const denyWins = "a deny rule matches, and deny rules win"

// denies returns the name of the endpoint's deny rule for a request; "" if none
// matches.
func (c candidate) denies(q Request, known *Facts) string {
	_, deny := c.ep.Effective()
	about := c.ep.concerns(known)
	for i := range deny {
		if deny[i].matches(q.Method, q.Path, q.Query, true) || about && deny[i].denies(known) {
			return ruleName(c, "deny_rules", i, len(c.ep.DenyRules))
		}
	}
	return ""
}

// denies reports whether a deny rule matches one operation or call of a
// request.
func (r *Rule) denies(f *Facts) bool {
	operation := func(op GraphQLOperation) bool { return r.MatchesOperation(op, true) }
	return slices.ContainsFunc(f.Operations, operation) || slices.ContainsFunc(f.Calls, r.MatchesCall) ||
		len(f.Upkeep) > 0 && r.matchesAll()
}

// withKnownMeanings returns facts with every meaning that an endpoint registered for each
// persisted query, so that all deny rules are applied to it.
func withKnownMeanings(found []candidate, f *Facts) *Facts {
	if f == nil || !slices.ContainsFunc(f.Operations, func(op GraphQLOperation) bool { return op.Persisted != "" }) {
		return f
	}
	out := *f
	out.Operations = nil
	for _, op := range f.Operations {
		for _, c := range found {
			if meaning, ok := c.ep.resolve(op); ok {
				out.Operations = append(out.Operations, meaning)
			}
		}
	}
	return &out
}

// unknownOperation returns the first operation of a request whose meaning no endpoint
// knows; "" if there is none.
func unknownOperation(found []candidate, f *Facts) string {
	for _, op := range f.Operations {
		reason := ""
		for _, c := range found {
			if _, ok := c.ep.resolve(op); ok {
				reason = ""
				break
			}
			reason = unregistered(c.ep, op)
		}
		if reason != "" {
			return reason
		}
	}
	return ""
}

func unregistered(e *Endpoint, op GraphQLOperation) string {
	if !e.RegisteredQueries {
		return "the query is sent as a hash or id, and persisted_queries is deny"
	}
	return "graphql_persisted_queries does not say what " + show(op.Persisted) + " does under the operation name " + show(op.Name)
}

// permission looks for allow rules: for the request, or for each operation and
// call in it.
func permission(found []candidate, q Request) Explanation {
	audit := !slices.ContainsFunc(found, func(c candidate) bool { return c.ep.Enforcement != Audit })
	readers := found
	if q.Facts != nil {
		readers = slices.DeleteFunc(slices.Clone(found), func(c candidate) bool { return !c.ep.concerns(q.Facts) })
		if reason := unknownOperation(readers, q.Facts); reason != "" {
			return audited(Explanation{Rule: readers[0].name, Reason: reason}, audit)
		}
	}
	for _, c := range found {
		allow, _ := c.ep.Effective()
		for i := range allow {
			if allow[i].matches(q.Method, q.Path, q.Query, false) {
				return Explanation{Allowed: true, Rule: ruleName(c, "rules", i, len(c.ep.Rules)), Reason: "the rule allows it"}
			}
		}
	}
	if q.Facts == nil {
		return audited(Explanation{Rule: found[0].name, Reason: "no rule of the entry allows " + q.Method + " " + show(q.Path)}, audit)
	}
	e := allowEach(readers, q.Facts)
	if !e.Allowed {
		e = audited(e, audit)
	}
	return e
}

// allowEach requires that some endpoint allows each operation and call of a
// request, not the same one for all. It names the rule of the first.
func allowEach(found []candidate, f *Facts) Explanation {
	var rules []string
	for _, op := range f.Operations {
		rule, reason := allowedOperation(found, op)
		if rule == "" {
			return Explanation{Rule: found[0].name, Reason: reason}
		}
		rules = append(rules, rule)
	}
	for _, call := range f.Calls {
		rule, reason := allowedCall(found, call)
		if rule == "" {
			return Explanation{Rule: found[0].name, Reason: reason}
		}
		rules = append(rules, rule)
	}
	if len(rules) == 0 {
		return Explanation{Allowed: true, Rule: found[0].name, Reason: "the protocol needs it: " + f.Upkeep[0]}
	}
	if len(rules) == 1 {
		return Explanation{Allowed: true, Rule: rules[0], Reason: "the rule allows it"}
	}
	return Explanation{Allowed: true, Rule: rules[0], Reason: "the request says " + strconv.Itoa(len(rules)) + " things, and each is allowed, the first by this rule"}
}

func allowedOperation(found []candidate, op GraphQLOperation) (rule, reason string) {
	for _, c := range found {
		meaning, ok := c.ep.resolve(op)
		if !ok {
			continue
		}
		reason = "no rule of the entry allows " + meaning.describe()
		allow, _ := c.ep.Effective()
		for i := range allow {
			if allow[i].MatchesOperation(meaning, false) {
				return ruleName(c, "rules", i, len(c.ep.Rules)), ""
			}
		}
	}
	return "", reason
}

func allowedCall(found []candidate, call Call) (rule, reason string) {
	reason = "no rule of the entry allows " + call.describe()
	for _, c := range found {
		if c.ep.Protocol == ModelContext && !c.ep.MCP.LooseToolNames && call.Method == toolsCall && !ToolNameOK(call.Tool) {
			reason = "strict_tool_names does not let a tool be called " + show(call.Tool)
			continue
		}
		for i := range c.ep.Rules {
			if c.ep.Rules[i].MatchesCall(call) {
				return ruleName(c, "rules", i, len(c.ep.Rules)), ""
			}
		}
		if c.ep.MCP.AllMethods && knownMCP(call.Method) {
			return c.name + ".mcp.allow_all_known_mcp_methods", ""
		}
	}
	return "", reason
}

func (op GraphQLOperation) describe() string {
	s := "the " + op.Type.String()
	if op.Name != "" {
		s += " " + show(op.Name)
	}
	if len(op.Fields) == 1 {
		return s + " of the field " + show(op.Fields[0])
	}
	return s + " of " + strconv.Itoa(len(op.Fields)) + " fields, all of which one rule must allow"
}

func (c Call) describe() string {
	switch {
	case c.Service != "":
		return "the method " + show(c.Method) + " of the service " + show(c.Service)
	case c.Tool != "":
		return "a call of the tool " + show(c.Tool)
	}
	return "the method " + show(c.Method)
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
		e.Allowed, e.Audited = true, true
		e.Reason += "; enforcement is audit, so it is forwarded and recorded"
	}
	return e
}
