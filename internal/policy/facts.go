package policy

import (
	"cmp"
	"slices"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// Facts describe the content of a request in the terms of rules. A request may
// contain several operations or calls (a batch); it is allowed if all of them
// are, and denied if one is.
type Facts struct {
	// Protocol is the one that the content was read as: GraphQL (also for the
	// messages of a websocket), ModelContext, JSONRPC or GRPC.
	Protocol Protocol
	// Operations are of GraphQL: every one that the documents hold, not only
	// those that the request selects.
	Operations []GraphQLOperation
	// Calls are of the other protocols.
	Calls []Call
	// Upkeep names messages that the protocol needs besides operations and
	// calls, such as "event stream" or "response". No rule names these: they
	// are allowed wherever the protocol is, unless a deny rule denies
	// everything.
	Upkeep []string
}

// GraphQLOperation is one operation of a GraphQL document.
type GraphQLOperation struct {
	// Type is OperationNone for a persisted query, whose text is not sent.
	Type Operation
	// Name is empty for an anonymous operation. Of a persisted query it is the
	// operationName of the request.
	Name string
	// Fields are the root fields under their own names instead of aliases, from
	// all fragments and regardless of directives. Sorted, without duplicates.
	Fields []string
	// Persisted is the hash or id that is sent instead of the text.
	Persisted string
}

// Call is one call of a procedure.
type Call struct {
	// Service is of gRPC.
	Service string
	Method  string
	// Tool is the tool that MCP's tools/call names.
	Tool string
}

// empty reports whether nothing was read, which no rule can allow.
func (f *Facts) empty() bool {
	return len(f.Operations)+len(f.Calls)+len(f.Upkeep) == 0
}

// isInspected reports whether requests of a protocol are decided by their
// content. For a websocket only the messages are, see Endpoint.readsMessages.
func (v Protocol) isInspected() bool {
	switch v {
	case GraphQL, ModelContext, JSONRPC, GRPC:
		return true
	case TCP, REST, Websocket:
	}
	return false
}

// readsMessages reports whether the messages of a websocket are decided by the
// operations in them.
func (e *Endpoint) readsMessages() bool {
	operation := func(r Rule) bool { return r.Operation != OperationNone }
	return e.Protocol == Websocket && (slices.ContainsFunc(e.Rules, operation) || slices.ContainsFunc(e.DenyRules, operation))
}

// concerns reports whether the endpoint's rules apply to such facts.
func (e *Endpoint) concerns(f *Facts) bool {
	return f != nil && (e.Protocol == f.Protocol || f.Protocol == GraphQL && e.readsMessages())
}

// MatchesOperation reports whether a rule matches a GraphQL operation whose
// text is known. With fields, an allow rule requires every root field to match
// one of them; a deny rule matches if one does.
func (r *Rule) MatchesOperation(op GraphQLOperation, deny bool) bool {
	if r.Operation == OperationNone || op.Type == OperationNone {
		return false
	}
	if r.Operation != OperationAny && r.Operation != op.Type {
		return false
	}
	if !r.OperationName.IsZero() && !r.OperationName.Match(op.Name) {
		return false
	}
	if len(r.Fields) == 0 {
		return true
	}
	fits := func(field string) bool { return anyText(r.Fields, field) }
	if deny {
		return slices.ContainsFunc(op.Fields, fits)
	}
	return len(op.Fields) > 0 && !slices.ContainsFunc(op.Fields, func(f string) bool { return !fits(f) })
}

// MatchesCall reports whether a rule matches a call. A rule that names tools
// matches only calls of tools, whatever its method.
func (r *Rule) MatchesCall(c Call) bool {
	if r.Call.IsZero() || !r.Call.Match(c.Method) {
		return false
	}
	if !r.Service.IsZero() && !r.Service.Match(c.Service) {
		return false
	}
	return len(r.Tools) == 0 || c.Method == toolsCall && anyText(r.Tools, c.Tool)
}

// matchesAll reports whether a rule matches every message of its protocol.
func (r *Rule) matchesAll() bool {
	switch {
	case r.Operation != OperationNone:
		return r.Operation == OperationAny && len(r.Fields) == 0 && (r.OperationName.IsZero() || r.OperationName.String() == "*")
	case r.Call.IsZero():
		return false
	}
	return r.Call.String() == "*" && len(r.Tools) == 0 && (r.Service.IsZero() || r.Service.String() == "*")
}

func anyText(patterns []match.Text, s string) bool {
	return slices.ContainsFunc(patterns, func(t match.Text) bool { return t.Match(s) })
}

// resolve returns a GraphQL operation as the endpoint registered it for its
// hash or id. It reports false if the operation is not known. A name in the
// request must be the registered one, because it selects an operation of a text
// that was not read.
func (e *Endpoint) resolve(op GraphQLOperation) (GraphQLOperation, bool) {
	if op.Persisted == "" {
		return op, true
	}
	i, ok := slices.BinarySearchFunc(e.PersistedQueries, op.Persisted, func(q PersistedQuery, id string) int {
		return cmp.Compare(q.ID, id)
	})
	if !ok || !e.RegisteredQueries {
		return op, false
	}
	q := e.PersistedQueries[i]
	if op.Name != "" && op.Name != q.OperationName {
		return op, false
	}
	return GraphQLOperation{Type: q.Operation, Name: q.OperationName, Fields: q.Fields, Persisted: op.Persisted}, true
}

const toolsCall = "tools/call"

// ToolNameOK reports whether a name is one that the MCP specification allows for
// tools; strict_tool_names denies calls of others.
func ToolNameOK(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return true
}

// knownMCP reports whether a revision of the MCP specification, up to
// 2026-07-28, has a method that clients send.
func knownMCP(method string) bool { return slices.Contains(mcpMethods(), method) }

func mcpMethods() []string {
	return []string{
		"initialize", "ping", "completion/complete", "logging/setLevel",
		"prompts/get", "prompts/list",
		"resources/list", "resources/read", "resources/subscribe", "resources/templates/list", "resources/unsubscribe",
		"tasks/cancel", "tasks/get", "tasks/list", "tasks/result",
		"tools/list", toolsCall,
		"server/discover", "subscriptions/listen",
		"notifications/cancelled", "notifications/initialized", "notifications/progress",
		"notifications/roots/list_changed", "notifications/tasks/status",
	}
}
