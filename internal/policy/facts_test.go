package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/match"
)

const inspected = `version: 1
network_policies:
  n:
    endpoints:
      - host: g.example.org
        port: 443
        protocol: graphql
        persisted_queries: allow_registered
        graphql_persisted_queries:
          known: { operation_type: query, operation_name: GetRepo, fields: [repository] }
          nameless: { operation_type: query, fields: [viewer] }
          bad: { operation_type: mutation, fields: [deleteIssue] }
          unlisted: { operation_type: mutation, fields: [other] }
        rules:
          - allow: { operation_type: query }
          - allow: { operation_type: mutation, operation_name: "Issue*", fields: [createIssue, "update*"] }
          - allow: { operation_type: mutation, fields: ["add*"] }
        deny_rules:
          - { operation_type: "*", fields: [__schema] }
          - { operation_type: mutation, fields: ["delete*"] }
      - { host: g.example.org, port: 443, path: "/open/**", protocol: graphql, access: full }
      - { host: g.example.org, port: 443, path: "/open/rest/**", protocol: rest, access: full }
      - { host: preset.example.org, port: 443, protocol: graphql, access: read-write }
      - host: audit.example.org
        port: 443
        protocol: graphql
        enforcement: audit
        access: read-only
        deny_rules: [{ operation_type: "*", fields: [secret] }]
      - { host: audit.example.org, port: 443, path: /strict, protocol: graphql, access: read-only }
      - host: m.example.org
        port: 443
        protocol: mcp
        rules:
          - allow: { method: initialize }
          - allow: { method: tools/list }
          - allow: { method: tools/call, tool: { any: [search_web, "list_*"] } }
        deny_rules: [{ method: tools/call, tool: list_secrets }]
      - { host: all.example.org, port: 443, protocol: mcp, mcp: { allow_all_known_mcp_methods: true, strict_tool_names: false }, deny_rules: [{ method: resources/read }] }
      - { host: shut.example.org, port: 443, protocol: mcp, rules: [{ allow: { method: "*" } }], deny_rules: [{ method: "*" }] }
      - { host: r.example.org, port: 443, protocol: json-rpc, rules: [{ allow: { method: reports.list } }, { allow: { method: log } }] }
      - { host: star.example.org, port: 443, protocol: json-rpc, rules: [{ allow: { method: "*" } }], deny_rules: [{ method: admin.stop }] }
      - { host: c.example.org, port: 443, protocol: grpc, rules: [{ allow: { service: "a.v1.*", method: "Get*" } }], deny_rules: [{ service: a.v1.Keys, method: "*" }] }
      - host: w.example.org
        port: 443
        protocol: websocket
        rules:
          - allow: { method: GET, path: /graphql }
          - allow: { operation_type: subscription, fields: [messageAdded] }
      - host: t.example.org
        port: 443
        protocol: websocket
        access: read-write
        deny_rules: [{ operation_type: mutation }]
      - { host: "*.mix.example.org", port: 443, protocol: rest, access: full }
      - { host: api.mix.example.org, port: 443, protocol: graphql, access: read-only, deny_rules: [{ operation_type: mutation }] }
      - { host: "*.odd.example.org", port: 443, protocol: json-rpc, rules: [{ allow: { method: "*" } }] }
      - { host: api.odd.example.org, port: 443, protocol: graphql, access: full }
    binaries: [{ path: "/**" }]
`

func graphQL(ops ...policy.GraphQLOperation) *policy.Facts {
	return &policy.Facts{Protocol: policy.GraphQL, Operations: ops}
}

func operation(kind policy.Operation, name string, fields ...string) policy.GraphQLOperation {
	return policy.GraphQLOperation{Type: kind, Name: name, Fields: fields}
}

func persisted(id, name string) policy.GraphQLOperation {
	return policy.GraphQLOperation{Persisted: id, Name: name}
}

// callFacts makes facts of "method" or "method tool"; upkeep starts with "!".
func callFacts(p policy.Protocol, list ...string) *policy.Facts {
	f := &policy.Facts{Protocol: p}
	for _, s := range list {
		if u, ok := strings.CutPrefix(s, "!"); ok {
			f.Upkeep = append(f.Upkeep, u)
			continue
		}
		method, tool, _ := strings.Cut(s, " ")
		f.Calls = append(f.Calls, policy.Call{Method: method, Tool: tool})
	}
	return f
}

type factCase struct {
	target string // host and path
	facts  *policy.Facts
	// want is "+" or "-" for the decision, and the rule without the endpoint;
	// "~" for a denial that is only recorded.
	want string
}

func runFacts(t *testing.T, method string, cases []factCase) {
	t.Helper()
	p := parse(t, inspected)
	for _, c := range cases {
		host, path, _ := strings.Cut(c.target, "/")
		got := p.ExplainRequest(policy.Request{Host: host, Port: 443, Method: method, Path: "/" + path, Facts: c.facts})
		sign := map[bool]string{true: "+", false: "-"}[got.Allowed]
		if got.Audited {
			sign = "~"
		}
		rule := got.Rule
		if i := strings.LastIndex(rule, "endpoints["); i >= 0 {
			_, rule, _ = strings.Cut(rule[i:], "]")
			rule = strings.TrimPrefix(rule, ".")
		}
		if sign+rule != c.want || got.Reason == "" {
			t.Errorf("%s %+v: %s%s (%s), want %s", c.target, c.facts, sign, got.Rule, got.Reason, c.want)
		}
	}
}

func TestGraphQLRules(t *testing.T) {
	t.Parallel()
	const q, m, s = policy.OperationQuery, policy.OperationMutation, policy.OperationSubscription
	runFacts(t, "POST", []factCase{
		{"g.example.org/", graphQL(operation(q, "", "viewer")), "+rules[0]"},
		{"g.example.org/", graphQL(operation(q, "X", "a", "b")), "+rules[0]"},
		{"g.example.org/", graphQL(operation(q, "", "__schema", "a")), "-deny_rules[0]"},
		{"g.example.org/", graphQL(operation(s, "", "a")), "-"},
		{"g.example.org/", graphQL(operation(m, "IssueNew", "createIssue")), "+rules[1]"},
		{"g.example.org/", graphQL(operation(m, "IssueNew", "createIssue", "updateIssue")), "+rules[1]"},
		{"g.example.org/", graphQL(operation(m, "", "createIssue")), "-"},
		{"g.example.org/", graphQL(operation(m, "IssueNew", "createIssue", "other")), "-"},
		// No rule alone allows both fields.
		{"g.example.org/", graphQL(operation(m, "IssueNew", "addStar", "createIssue")), "-"},
		{"g.example.org/", graphQL(operation(m, "", "addStar")), "+rules[2]"},
		{"g.example.org/", graphQL(operation(m, "", "addStar", "deleteIssue")), "-deny_rules[1]"},
		// A batch is all or nothing.
		{"g.example.org/", graphQL(operation(q, "", "a"), operation(m, "", "addStar")), "+rules[0]"},
		{"g.example.org/", graphQL(operation(q, "", "a"), operation(m, "", "other")), "-"},
		{"g.example.org/", graphQL(operation(q, "", "a"), operation(m, "", "deleteIssue")), "-deny_rules[1]"},
		{"g.example.org/", graphQL(persisted("known", "")), "+rules[0]"},
		{"g.example.org/", graphQL(persisted("known", "GetRepo")), "+rules[0]"},
		{"g.example.org/", graphQL(persisted("known", "Other")), "-"},
		{"g.example.org/", graphQL(persisted("nameless", "")), "+rules[0]"},
		{"g.example.org/", graphQL(persisted("nameless", "Other")), "-"},
		{"g.example.org/", graphQL(persisted("unknown", "")), "-"},
		{"g.example.org/", graphQL(persisted("bad", "")), "-deny_rules[1]"},
		{"g.example.org/", graphQL(persisted("unlisted", "")), "-"},
		{"g.example.org/", graphQL(persisted("known", ""), persisted("unknown", "")), "-"},
		// The deny rules of a broader entry hold where the narrower one
		// applies, but only those for the protocol of the narrower one.
		{"g.example.org/open/x", graphQL(operation(m, "", "other")), "+access"},
		{"g.example.org/open/x", graphQL(operation(m, "", "deleteIssue")), "-deny_rules[1]"},
		{"g.example.org/open/x", graphQL(persisted("known", "")), "-"},
		{"g.example.org/open/rest/x", nil, "+access"},
		{"g.example.org/open/rest/x", graphQL(operation(q, "", "a")), "-request"},
		{"preset.example.org/", graphQL(operation(m, "", "x")), "+access"},
		{"preset.example.org/", graphQL(operation(s, "", "x")), "-"},
		{"preset.example.org/", graphQL(persisted("known", "")), "-"},
		{"audit.example.org/", graphQL(operation(m, "", "x")), "~"},
		{"audit.example.org/", graphQL(operation(q, "", "secret")), "~deny_rules[0]"},
		{"audit.example.org/", graphQL(persisted("x", "")), "~"},
		// A request that the broader entry only records is still denied by the
		// narrower one.
		{"audit.example.org/strict", graphQL(operation(m, "", "secret")), "-"},
		{"audit.example.org/strict", graphQL(operation(q, "", "secret")), "~deny_rules[0]"},
		{"g.example.org/", nil, "-"},
		{"g.example.org/", &policy.Facts{Protocol: policy.GraphQL}, "-request"},
		{"g.example.org/", callFacts(policy.JSONRPC, "x"), "-request"},
		// Entries for different patterns of hosts apply together: one may allow
		// what the other does not, but its deny rules hold, so it must be read.
		{"api.mix.example.org/", graphQL(operation(q, "", "a")), "+access"},
		{"api.mix.example.org/", graphQL(operation(s, "", "a")), "+access"},
		{"api.mix.example.org/", graphQL(operation(m, "", "a")), "-deny_rules[0]"},
		{"api.mix.example.org/", graphQL(persisted("x", "")), "-"},
		{"api.mix.example.org/", nil, "-"},
		{"api.odd.example.org/", graphQL(operation(q, "", "a")), "-"},
		{"api.odd.example.org/", callFacts(policy.JSONRPC, "m"), "-"},
	})
}

func TestCallRules(t *testing.T) {
	t.Parallel()
	const m, r = policy.ModelContext, policy.JSONRPC
	grpc := func(service, method string) *policy.Facts {
		return &policy.Facts{Protocol: policy.GRPC, Calls: []policy.Call{{Service: service, Method: method}}}
	}
	runFacts(t, "POST", []factCase{
		{"m.example.org/", callFacts(m, "initialize"), "+rules[0]"},
		{"m.example.org/", callFacts(m, "tools/call search_web"), "+rules[2]"},
		{"m.example.org/", callFacts(m, "tools/call list_issues"), "+rules[2]"},
		{"m.example.org/", callFacts(m, "tools/call list_secrets"), "-deny_rules[0]"},
		{"m.example.org/", callFacts(m, "tools/call other"), "-"},
		{"m.example.org/", callFacts(m, "tools/call list_/../x"), "-"},
		{"m.example.org/", callFacts(m, "prompts/list"), "-"},
		{"m.example.org/", callFacts(m, "tools/list", "tools/call search_web"), "+rules[1]"},
		{"m.example.org/", callFacts(m, "tools/list", "tools/call other"), "-"},
		{"m.example.org/", callFacts(m, "tools/list", "tools/call list_secrets"), "-deny_rules[0]"},
		{"m.example.org/", callFacts(m, "!event stream"), "+"},
		{"m.example.org/", callFacts(m, "!response", "tools/call other"), "-"},
		{"m.example.org/", callFacts(m, "!response", "tools/list"), "+rules[1]"},
		{"m.example.org/", nil, "-"},
		{"all.example.org/", callFacts(m, "tools/call any tool"), "+mcp.allow_all_known_mcp_methods"},
		{"all.example.org/", callFacts(m, "resources/list"), "+mcp.allow_all_known_mcp_methods"},
		{"all.example.org/", callFacts(m, "resources/read"), "-deny_rules[0]"},
		{"all.example.org/", callFacts(m, "vendor/method"), "-"},
		{"shut.example.org/", callFacts(m, "ping"), "-deny_rules[0]"},
		{"shut.example.org/", callFacts(m, "!event stream"), "-deny_rules[0]"},
		{"r.example.org/", callFacts(r, "reports.list"), "+rules[0]"},
		{"r.example.org/", callFacts(r, "Reports.list"), "-"},
		{"r.example.org/", callFacts(r, "reports.list", "log"), "+rules[0]"},
		{"r.example.org/", callFacts(r, "log", "reports.delete"), "-"},
		{"star.example.org/", callFacts(r, "anything"), "+rules[0]"},
		{"star.example.org/", callFacts(r, "anything", "admin.stop"), "-deny_rules[0]"},
		{"c.example.org/", grpc("a.v1.Things", "GetThing"), "+rules[0]"},
		{"c.example.org/", grpc("a.v1.Things", "DeleteThing"), "-"},
		{"c.example.org/", grpc("b.v1.Things", "GetThing"), "-"},
		{"c.example.org/", grpc("a.v1.Keys", "GetKey"), "-deny_rules[0]"},
	})
}

func TestWebsocketRules(t *testing.T) {
	t.Parallel()
	const m, s = policy.OperationMutation, policy.OperationSubscription
	runFacts(t, "GET", []factCase{
		{"w.example.org/graphql", nil, "+rules[0]"},
		{"w.example.org/other", nil, "-"},
		{"t.example.org/", nil, "+access"},
	})
	upkeep := &policy.Facts{Protocol: policy.GraphQL, Upkeep: []string{"ping"}}
	runFacts(t, "WEBSOCKET_TEXT", []factCase{
		{"w.example.org/graphql", graphQL(operation(s, "", "messageAdded")), "+rules[1]"},
		{"w.example.org/graphql", graphQL(operation(s, "", "messageAdded", "x")), "-"},
		{"w.example.org/graphql", graphQL(operation(m, "", "x")), "-"},
		{"w.example.org/graphql", upkeep, "+"},
		{"w.example.org/graphql", nil, "-"},
		{"t.example.org/", graphQL(operation(s, "", "x")), "+access"},
		{"t.example.org/", graphQL(operation(m, "", "x")), "-deny_rules[0]"},
		{"t.example.org/", upkeep, "+access"},
		{"t.example.org/", nil, "-"},
	})
}

func TestInspection(t *testing.T) {
	t.Parallel()
	p := parse(t, inspected+`  limits:
    endpoints:
      - { host: "*.limit.example.org", port: 443, protocol: graphql, graphql_max_body_bytes: 10, access: full }
      - { host: api.limit.example.org, port: 443, protocol: graphql, graphql_max_body_bytes: 20, access: full }
    binaries: [{ path: /usr/bin/curl }]
`)
	for _, c := range []struct {
		method, target string
		want           policy.Inspection
	}{
		{"POST", "g.example.org/", policy.Inspection{Protocol: policy.GraphQL, MaxBody: policy.DefaultMaxBody}},
		{"POST", "g.example.org/open/rest/x", policy.Inspection{}},
		{"POST", "m.example.org/", policy.Inspection{Protocol: policy.ModelContext, MaxBody: policy.DefaultMaxBody}},
		{"POST", "r.example.org/", policy.Inspection{Protocol: policy.JSONRPC, MaxBody: policy.DefaultMaxBody}},
		{"POST", "c.example.org/", policy.Inspection{Protocol: policy.GRPC}},
		{"GET", "w.example.org/graphql", policy.Inspection{}},
		{"WEBSOCKET_TEXT", "w.example.org/graphql", policy.Inspection{Protocol: policy.GraphQL, MaxBody: policy.DefaultMaxBody}},
		{"POST", "api.mix.example.org/", policy.Inspection{Protocol: policy.GraphQL, MaxBody: policy.DefaultMaxBody}},
		{"POST", "api.odd.example.org/", policy.Inspection{}},
		{"POST", "api.limit.example.org/", policy.Inspection{Protocol: policy.GraphQL, MaxBody: 10}},
		{"post", "g.example.org/", policy.Inspection{}},
		{"POST", "nowhere.example.org/", policy.Inspection{}},
	} {
		host, path, _ := strings.Cut(c.target, "/")
		q := policy.Request{Host: host, Port: 443, Method: c.method, Path: "/" + path, Binary: "/usr/bin/curl"}
		if d := cmp.Diff(c.want, p.Inspection(q)); d != "" {
			t.Errorf("%s %s: %s", c.method, c.target, d)
		}
	}
}

func TestToolNameOK(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "A.b-c_9": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false, "a b": false, "a/b": false, "é": false, "a\x00": false,
	} {
		if policy.ToolNameOK(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// A larger request is never allowed more: what is allowed for a batch is
// allowed for each part, and a deny rule that matches one part denies the
// whole.
func TestBatchProperty(t *testing.T) {
	t.Parallel()
	p := parse(t, inspected)
	names := []string{"a", "b", "addStar", "createIssue", "updateIssue", "deleteIssue", "__schema"}
	ops := rapid.Custom(func(t *rapid.T) policy.GraphQLOperation {
		if rapid.IntRange(0, 4).Draw(t, "persisted") == 0 {
			return persisted(rapid.SampledFrom([]string{"known", "nameless", "bad", "unlisted", "unknown"}).Draw(t, "id"), "")
		}
		kind := rapid.SampledFrom([]policy.Operation{policy.OperationQuery, policy.OperationMutation, policy.OperationSubscription}).Draw(t, "type")
		fields := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(t, "fields")
		slices.Sort(fields)
		return operation(kind, rapid.SampledFrom([]string{"", "IssueX"}).Draw(t, "name"), fields...)
	})
	ask := func(list ...policy.GraphQLOperation) bool {
		return p.ExplainRequest(policy.Request{Host: "g.example.org", Port: 443, Method: "POST", Path: "/", Facts: graphQL(list...)}).Allowed
	}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(ops, 1, 4).Draw(t, "operations")
		want := true
		for _, op := range list {
			want = want && ask(op)
			for i := range op.Fields {
				less := op
				less.Fields = slices.Delete(slices.Clone(op.Fields), i, i+1)
				if len(less.Fields) > 0 && ask(op) && !ask(less) {
					t.Fatalf("%+v is allowed, but not with fewer fields", op)
				}
			}
		}
		if got := ask(list...); got != want {
			t.Fatalf("the batch %+v: %v, its parts: %v", list, got, want)
		}
	})
}

func TestRuleMatches(t *testing.T) {
	t.Parallel()
	text := func(s string) match.Text {
		out, err := match.NewText(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	tools := policy.Rule{Call: text("*"), Tools: []match.Text{text("x")}}
	var none policy.Rule
	for name, ok := range map[string]bool{
		"a rule with tools is about calls of tools":       tools.MatchesCall(policy.Call{Method: "tools/call", Tool: "x"}),
		"a rule with tools is about nothing else":         !tools.MatchesCall(policy.Call{Method: "tools/list", Tool: "x"}),
		"an empty rule is about no call":                  !none.MatchesCall(policy.Call{}),
		"an empty rule is about no operation":             !none.MatchesOperation(operation(policy.OperationQuery, "", "a"), false),
		"an operation that is not known is never matched": !(&policy.Rule{Operation: policy.OperationAny}).MatchesOperation(persisted("x", ""), true),
		"without fields none are allowed": !(&policy.Rule{Operation: policy.OperationAny, Fields: []match.Text{text("*")}}).
			MatchesOperation(operation(policy.OperationQuery, ""), false),
	} {
		if !ok {
			t.Error(name)
		}
	}
}
