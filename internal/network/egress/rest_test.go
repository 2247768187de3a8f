package egress_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

const (
	api     = "api.example.com"
	restAPI = `{host: api.example.com, port: 443, protocol: rest, rules: [{allow: {method: GET, path: "/repos/**"}}, {allow: {method: POST, path: /echo}}], deny_rules: [{method: "*", path: "/repos/*/secret"}]}`
)

// mirror answers with what it got.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Forkcell-Policy", "denied")
	w.Header().Set("Alt-Svc", `h3=":443"`)
	_, _ = fmt.Fprintf(w, "%s %s host=%s proto=%d body=%s", r.Method, r.RequestURI, r.Host, r.ProtoMajor, body)
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(restAPI))
			up := c.serve(api, 443, http.HandlerFunc(mirror))
			cl := c.client(h2)
			for _, q := range []struct{ method, path, hint string }{
				{"DELETE", "/repos/a", `rules: [{allow: {method: DELETE, path: "/repos/a"}}]`},
				{"GET", "/other?token=1", `rules: [{allow: {method: GET, path: "/other"}}]`},
				{"GET", "/repos/../other", `rules: [{allow: {method: GET, path: "/other"}}]`},
				{"GET", "/repos/%2e%2e/other", `rules: [{allow: {method: GET, path: "/other"}}]`},
				{"GET", "/repos//a/./secret", "remove network_policies.api.endpoints[0].deny_rules[0]"},
				{"GET", "/repos/a/%73ecret", "remove network_policies.api.endpoints[0].deny_rules[0]"},
				{"GET", "/repos/a/secret;v=1", "remove network_policies.api.endpoints[0].deny_rules[0]"},
				{"GET", "/repos/a%2fb", ""},
				{"GET", "/repos/a%00", ""},
				{"GET", "/..", ""},
				{"GET", "/repos/a?x=%zz", ""},
				{"GET", "/repos/a?x;y", ""},
				{"WEBSOCKET_TEXT", "/repos/a", ""},
			} {
				status, body, header := get(t, cl, q.method, "https://"+api+q.path, nil)
				var a map[string]any
				if err := json.Unmarshal([]byte(body), &a); status != 403 || header.Get("X-Forkcell-Policy") != "denied" || err != nil {
					t.Errorf("%s %s: %d %v %s", q.method, q.path, status, header, body)
					continue
				}
				if q.hint != "" && a["hint"] != q.hint || a["host"] != api || a["binary"] != curl || a["error"] != "denied_by_policy" || a["layer"] != "request" {
					t.Errorf("%s %s: %s", q.method, q.path, body)
				}
			}
			up.untouched(t)
			if n := c.dials.Load(); n != 0 {
				t.Errorf("dialled %d times for denied requests", n)
			}
			for _, q := range []struct{ method, path, body, want string }{
				{"GET", "/repos/a?x=1&y=%20", "", "GET /repos/a?x=1&y=%20 host=api.example.com proto=PROTO body="},
				{"GET", "/repos//a/./b/../c%7e", "", "GET /repos/a/c~ host=api.example.com proto=PROTO body="},
				{"GET", "/repos/a{b}", "", "GET /repos/a%7Bb%7D host=api.example.com proto=PROTO body="},
				{"GET", "/repos/a%20b", "", "GET /repos/a%20b host=api.example.com proto=PROTO body="},
				{"POST", "/echo", "hello", "POST /echo host=api.example.com proto=PROTO body=hello"},
			} {
				status, body, header := get(t, cl, q.method, "https://"+api+q.path, strings.NewReader(q.body))
				want := strings.Replace(q.want, "PROTO", map[bool]string{false: "1", true: "2"}[h2], 1)
				if d := cmp.Diff(want, body); status != 200 || d != "" {
					t.Errorf("%s %s: %d %s", q.method, q.path, status, d)
				}
				if header.Get("X-Forkcell-Policy") != "" || header.Get("Alt-Svc") != "" {
					t.Errorf("%s %s: the upstream's own %v", q.method, q.path, header)
				}
			}
			denied := c.find(event.HTTPActivity, func(e map[string]any) bool {
				return text(e, "http_request", "url", "path") == "/other" && text(e, "http_request", "http_method") == "GET"
			})
			if text(denied, "disposition") != "Blocked" || text(denied, "actor", "process", "file", "path") != curl || text(denied, "http_request", "url", "query_string") != "<nil>" {
				t.Errorf("event %v", denied)
			}
			allowed := c.find(event.HTTPActivity, func(e map[string]any) bool { return text(e, "http_request", "url", "path") == "/echo" })
			if text(allowed, "disposition") != "Allowed" || text(allowed, "firewall_rule", "name") != "network_policies.api.endpoints[0].rules[1]" ||
				text(allowed, "http_response", "code") != "200" || !strings.HasPrefix(text(allowed, "message"), "5 bytes sent, ") || text(allowed, "dst_endpoint", "ip") != "127.0.0.1" {
				t.Errorf("event %v", allowed)
			}
		})
	}
}
