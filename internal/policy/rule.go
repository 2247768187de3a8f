package policy

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/forkcell/forkcell/internal/policy/match"
)

func ruleKeys() []string {
	return []string{"method", "path", "query", "operation_type", "operation_name", "fields", "tool", "params", "service", "command"}
}

// rule reads one rule with the keys that its protocol has.
func (r *reader) rule(n *yaml.Node, path string, e *Endpoint) Rule {
	o := r.object(n, path, ruleKeys()...)
	var rule Rule
	if n.Kind != yaml.MappingNode {
		return rule
	}
	var keys []string
	switch e.Protocol {
	case REST:
		keys = []string{"method", "path", "query"}
		o.request(&rule, e)
	case Websocket:
		keys = o.websocket(&rule, e)
	case GraphQL:
		keys = []string{"operation_type", "operation_name", "fields"}
		o.operation(&rule)
	case ModelContext:
		keys = []string{"method", "tool", "params"}
		o.mcp(&rule, e)
	case JSONRPC:
		keys = []string{"method"}
		rule.Call = o.call("method")
		if !rule.Call.Exact() && rule.Call.String() != "*" {
			o.bad("method", "a JSON-RPC method is an exact name or *")
		}
	case GRPC:
		keys = []string{"service", "method"}
		rule.Service, rule.Call = o.call("service"), o.call("method")
	case TCP:
	}
	for _, key := range ruleKeys() {
		switch {
		case !o.has(key) || slices.Contains(keys, key):
		case key == "command":
			o.bad(key, "is for protocol: sql, which is not supported")
		default:
			o.bad(key, "has no meaning for protocol: %s; its rules have %s", e.Protocol, strings.Join(keys, ", "))
		}
	}
	return rule
}

// request reads a rule about HTTP requests.
func (o *object) request(rule *Rule, e *Endpoint) {
	if !o.has("method") {
		o.missingKey("method", `missing; write method: "*" for any`)
	} else if s := o.text("method"); s != "" {
		m, err := match.NewMethod(s)
		if err != nil {
			o.bad("method", "%s: %v", show(s), err)
		}
		if m.String() == "WEBSOCKET_TEXT" && e.Protocol != Websocket {
			o.bad("method", "WEBSOCKET_TEXT is for protocol: websocket")
		}
		rule.Method = m
	}
	if !o.has("path") {
		o.missingKey("path", `missing; write path: "/**" for any`)
	} else if s := o.text("path"); s != "" {
		p, err := match.NewURLPath(s, e.AllowEncodedSlash)
		if err != nil {
			o.bad("path", "%s: %v", show(s), err)
		}
		rule.Path = p
	}
	if n := o.vals["query"]; n != nil {
		rule.Query = o.query(n)
	}
}

func (o *object) query(n *yaml.Node) []QueryMatch {
	keys, vals := o.r.entries(n, o.at("query"))
	var out []QueryMatch
	for i, k := range keys {
		if k.Value == "" || len(k.Value) > maxKey || hasControl(k.Value) {
			o.r.bad(k, o.at("query"), "a key of a query has 1 to %d bytes and no control characters", maxKey)
			continue
		}
		out = append(out, QueryMatch{k.Value, o.r.texts(vals[i], join(o.at("query"), k.Value))})
	}
	sortQuery(out)
	return out
}

// texts reads a pattern or {any: [patterns]}, as a set.
func (r *reader) texts(n *yaml.Node, path string) []match.Text {
	items := []item{{node: n, path: path}}
	if n.Kind == yaml.MappingNode {
		o := r.object(n, path, "any")
		if len(o.list("any")) == 0 && !o.wrongList("any") {
			o.missingKey("any", "missing or empty")
		}
		items = o.texts("any")
	} else if s, ok := r.text(n, path); ok {
		items[0].text = s
	} else {
		return nil
	}
	var out []match.Text
	for _, it := range items {
		t, err := match.NewText(it.text)
		if err != nil {
			r.bad(it.node, it.path, "%s: %v", show(it.text), err)
			continue
		}
		out = append(out, t)
	}
	return textSet(out)
}

func textSet(list []match.Text) []match.Text {
	slices.SortFunc(list, func(a, b match.Text) int { return cmp.Compare(a.String(), b.String()) })
	return slices.CompactFunc(list, match.Text.Equal)
}

// websocket reads a rule about the handshake and text messages, or about GraphQL
// operations inside them.
func (o *object) websocket(rule *Rule, e *Endpoint) []string {
	if o.has("operation_type") || o.has("operation_name") || o.has("fields") {
		o.operation(rule)
		return []string{"operation_type", "operation_name", "fields"}
	}
	o.request(rule, e)
	switch rule.Method.String() {
	case "", "*", "GET", "WEBSOCKET_TEXT":
	default:
		o.bad("method", "a websocket rule is about GET (the handshake), WEBSOCKET_TEXT (messages) or *")
	}
	return []string{"method", "path", "query"}
}

// operation reads a rule about GraphQL operations.
func (o *object) operation(rule *Rule) {
	if !o.has("operation_type") {
		o.missingKey("operation_type", `missing; write query, mutation, subscription or "*"`)
	}
	rule.Operation = Operation(o.enum("operation_type", operationNames()))
	if o.has("operation_name") {
		rule.OperationName = o.call("operation_name")
	}
	for _, it := range o.texts("fields") {
		t, err := match.NewText(it.text)
		if err != nil || it.text == "" {
			o.r.bad(it.node, it.path, "%s is not a pattern for the name of a field", show(it.text))
			continue
		}
		rule.Fields = append(rule.Fields, t)
	}
	if n := o.vals["fields"]; n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		o.bad("fields", "empty; leave the key out for any field")
	}
	rule.Fields = textSet(rule.Fields)
}

// call reads a pattern that is required and not empty.
func (o *object) call(key string) match.Text {
	if !o.has(key) {
		o.missingKey(key, `missing; write %s: "*" for any`, key)
		return match.Text{}
	}
	s, ok := o.r.text(o.vals[key], o.at(key))
	if !ok {
		return match.Text{}
	}
	t, err := match.NewText(s)
	switch {
	case err != nil:
		o.bad(key, "%s: %v", show(s), err)
	case s == "":
		o.bad(key, "is empty")
	default:
		return t
	}
	return match.Text{}
}

// mcp reads a rule about MCP methods and tools. "params: {name: ...}" is
// OpenShell's long form of "tool".
func (o *object) mcp(rule *Rule, e *Endpoint) {
	rule.Call = o.call("method")
	if m := rule.Call.String(); !rule.Call.Exact() && m != "*" && !strings.HasPrefix(m, "tools/") {
		o.bad("method", "an MCP method is an exact name, * or a pattern that starts with tools/")
	}
	key := "tool"
	n := o.vals["tool"]
	if o.has("params") {
		if n != nil {
			o.bad("params", "given besides tool; write one of them")
			return
		}
		p := o.r.object(o.vals["params"], o.at("params"), "name")
		if n = p.vals["name"]; n == nil {
			o.bad("params", "needs name, the name of the tool; arguments of tools cannot be matched")
			return
		}
		key = "params"
	}
	if n == nil {
		return
	}
	rule.Tools = o.r.texts(n, o.at(key))
	if m := rule.Call; !m.IsZero() && !m.Match("tools/call") {
		o.bad(key, "goes with method: tools/call, not with %s", m)
	}
	for _, t := range rule.Tools {
		switch {
		case t.String() == "":
			o.bad(key, "is empty")
		case !t.Exact() && e.MCP.LooseToolNames:
			o.bad(key, "a pattern needs strict_tool_names; without it a tool could have any name")
		}
	}
}

func (o *object) persisted() []PersistedQuery {
	at := o.at("graphql_persisted_queries")
	keys, vals := o.r.entries(o.vals["graphql_persisted_queries"], at)
	var out []PersistedQuery
	for i, k := range keys {
		if k.Value == "" || len(k.Value) > maxKey || hasControl(k.Value) {
			o.r.bad(k, at, "the hash or id of a query has 1 to %d bytes and no control characters", maxKey)
			continue
		}
		q := o.r.object(vals[i], join(at, k.Value), "operation_type", "operation_name", "fields")
		p := PersistedQuery{ID: k.Value, OperationName: q.text("operation_name")}
		p.Operation = Operation(q.enum("operation_type", operationNames()[:4]))
		if !q.has("operation_type") {
			q.missingKey("operation_type", "missing")
		}
		if q.has("operation_name") && p.OperationName == "" {
			q.bad("operation_name", "is empty")
		}
		for _, it := range q.texts("fields") {
			p.Fields = append(p.Fields, it.text)
		}
		p.Fields = sortedSet(p.Fields)
		if len(p.Fields) == 0 {
			q.missingKey("fields", "missing or empty; rules need the root fields of the query")
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b PersistedQuery) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
