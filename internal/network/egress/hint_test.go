package egress_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestHints checks that the hint for a denied program allows it.
func TestHints(t *testing.T) {
	t.Parallel()
	for _, q := range []struct{ settings, method, path, body string }{
		{"protocol: rest, rules: [{allow: {method: GET, path: /a}}]", "GET", "/b/c%20d?x=1", ""},
		{"protocol: rest, rules: [{allow: {method: GET, path: /a}}]", "PATCH", "/no", ""},
		{"protocol: graphql, rules: [{allow: {operation_type: query, fields: [a]}}]", "POST", "/", `{"query":"mutation M { b c: d }"}`},
		{"protocol: json-rpc, rules: [{allow: {method: a}}]", "POST", "/", `{"jsonrpc":"2.0","id":1,"method":"a.b/c"}`},
		{"protocol: mcp, rules: [{allow: {method: tools/call, tool: a}}]", "POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"yes"}}`},
	} {
		ask := func(rule string) (int, string) {
			c := newCell(t, rules("{host: api.example.com, port: 443, "+rule+"}"))
			c.serve(api, 443, http.HandlerFunc(mirror))
			status, body, _ := get(t, c.client(true), q.method, "https://"+api+q.path, strings.NewReader(q.body),
				"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
			return status, body
		}
		status, body := ask(q.settings)
		var a struct{ Hint string }
		if err := json.Unmarshal([]byte(body), &a); status != 403 || err != nil {
			t.Fatal(status, body)
		}
		protocol, _, _ := strings.Cut(q.settings, ",")
		if status, body := ask(protocol + ", " + a.Hint); status != 200 {
			t.Errorf("with %s: %d %s", a.Hint, status, body)
		}
	}
}

// TestConnectionHint does the same for a host that no rule lists.
func TestConnectionHint(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(tcpDB))
	c.isRefused(c.to(api, 443))
	e := c.find(4001, func(e map[string]any) bool { return text(e, "disposition") == "Blocked" })
	// The event escapes its texts for JSON once more.
	hint := strings.ReplaceAll(text(e, "message"), `\"`, `"`)
	if err := c.proxy.Reload(generation(t, hint)); err != nil {
		t.Fatal(err)
	}
	c.serve(api, 443, http.HandlerFunc(mirror))
	if status, body, _ := get(t, c.client(true), "GET", "https://"+api+"/", nil); status != 200 {
		t.Error(hint, status, body)
	}
}
