package inspect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/network/egress/inspect"
	"github.com/forkcell/forkcell/internal/policy"
)

// Bodies that a policy's limit lets through are bounded all the same.
func TestLimits(t *testing.T) {
	t.Parallel()
	many := func(n int, one func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(one(i))
		}
		return b.String()
	}
	document := func(s string) string {
		out, err := json.Marshal(map[string]string{"query": s, "operationName": "Q0"})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const values = "the JSON is nested more than 64 levels deep or has more than 200000 values"
	for name, c := range map[string]struct{ body, want string }{
		"many values":     {`{"query":"{a}","variables":{"x":[` + strings.Repeat("1,", 250_000) + `1]}}`, values},
		"many fields":     {document("query Q0{" + strings.Repeat("a ", 10_000) + "}"), ""},
		"too many fields": {document("query Q0{" + strings.Repeat("a ", 30_000) + "}"), "the GraphQL document is not valid or has more than 20000 tokens"},
		"too many comments": {
			document("query Q0{a" + strings.Repeat("#\n", 30_000) + "}"), "the GraphQL document is not valid or has more than 20000 tokens",
		},
		"deep fields":    {document("query Q0" + strings.Repeat("{a", 900) + strings.Repeat("}", 900)), ""},
		"deeper fields":  {document("query Q0" + strings.Repeat("{a", 5000) + strings.Repeat("}", 5000)), "the GraphQL document is not valid in line 1, column 2009"},
		"deep fragments": {document("query Q0{...F0}" + many(1000, func(i int) string { return fmt.Sprintf("fragment F%d on T{...F%d}", i, i+1) }) + "fragment F1000 on T{a}"), ""},
		"doubling fragments": {
			document("query Q0{...F0 ...F0}" + many(1000, func(i int) string { return fmt.Sprintf("fragment F%d on T{...F%d ...F%d}", i, i+1, i+1) }) + "fragment F1000 on T{a}"), "",
		},
		"many operations":     {document(many(100, func(i int) string { return fmt.Sprintf("query Q%d{a}", i) })), ""},
		"too many operations": {document(many(101, func(i int) string { return fmt.Sprintf("query Q%d{a}", i) })), "a GraphQL document has 1 to 100 operations"},
		"too many in a batch": {
			"[" + strings.TrimSuffix(strings.Repeat(document(many(60, func(i int) string { return fmt.Sprintf("query Q%d{a}", i) }))+",", 2), ",") + "]",
			"the request has more than 100 operations",
		},
		"string without end":             {document(`query Q0{a(x:"b`), "the GraphQL document has a string that does not end"},
		"string over lines":              {document("query Q0{a(x:\"b\n\")}"), "the GraphQL document has a string that does not end"},
		"escaped quotes":                 {document(`query Q0{a(x:"\"} mutation {b")}`), ""},
		"a missing fragment within one":  {document("query Q0{...F} fragment F on T{...on T{...G}}"), "the GraphQL document uses a fragment that it does not have"},
		"a name that is long in reasons": {`{"` + strings.Repeat("x", 500) + `":1}`, `the request has the unknown key "` + strings.Repeat("x", 40) + `..."`},
	} {
		r := post(c.body)
		r.MaxBody = 64 << 20
		_, err := inspect.HTTP(policy.GraphQL, r)
		if got := reason(t, err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// reason returns that of a refusal, "" without an error.
func reason(t *testing.T, err error) string {
	t.Helper()
	var refusal *inspect.Refusal
	if err != nil && !errors.As(err, &refusal) {
		t.Fatal(err)
	}
	if err == nil {
		return ""
	}
	return refusal.Reason
}

func TestOneVersionOfHTTP(t *testing.T) {
	t.Parallel()
	r := post("")
	r.Path = "/a.B/C"
	r.Header.Set("Content-Type", "application/grpc")
	if _, err := inspect.HTTP(policy.GRPC, r); reason(t, err) != "a gRPC call needs HTTP/2" {
		t.Error(err)
	}
	r.ProtoMajor = 2
	if _, err := inspect.HTTP(policy.GRPC, r); err != nil {
		t.Error(err)
	}
	if _, err := inspect.GraphQLMessage([]byte(`{"type":"ping"}`), 5); reason(t, err) != "the message is longer than 5 bytes" {
		t.Error(err)
	}
}

// The rules decide about the bytes that were read.
func TestDecision(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p.yaml", []byte(`version: 1
network_policies:
  n:
    endpoints:
      - host: api.example.org
        port: 443
        path: /graphql
        protocol: graphql
        rules: [{ allow: { operation_type: query } }, { allow: { operation_type: mutation, fields: [addStar] } }]
        deny_rules: [{ operation_type: "*", fields: ["delete*", __schema] }]
      - host: api.example.org
        port: 443
        path: /mcp
        protocol: mcp
        rules: [{ allow: { method: tools/call, tool: search } }]
    binaries: [{ path: "/**" }]
`), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, body string
		allowed    bool
	}{
		{"/graphql", `{"query":"{ viewer { login } }"}`, true},
		{"/graphql", `{"query":"mutation { addStar }"}`, true},
		{"/graphql", `{"query":"mutation { addStar: deleteRepository }"}`, false},
		{"/graphql", `{"query":"mutation { addStar ...F } fragment F on Mutation { deleteRepository @include(if: false) }"}`, false},
		{"/graphql", `{"query":"query A { a } mutation B { b }","operationName":"A"}`, false},
		{"/graphql", `[{"query":"{ a }"},{"query":"{ x: __schema { types { name } } }"}]`, false},
		{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}`, true},
		{"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s\u0065arch2"}}`, false},
		{"/mcp", `[{"jsonrpc":"2.0","method":"tools/call","params":{"name":"search"}},{"jsonrpc":"2.0","method":"ping"}]`, false},
	} {
		q := policy.Request{Host: "api.example.org", Port: 443, Binary: "/usr/bin/curl", Method: "POST", Path: c.path}
		want := p.Inspection(q)
		r := post(c.body)
		r.MaxBody = want.MaxBody
		res, err := inspect.HTTP(want.Protocol, r)
		if err != nil {
			t.Fatal(err)
		}
		q.Facts = &res.Facts
		if got := p.ExplainRequest(q); got.Allowed != c.allowed {
			t.Errorf("%s: %+v", c.body, got)
		}
	}
}
