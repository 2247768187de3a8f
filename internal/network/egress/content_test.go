package egress_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/policy"
)

// TestContent sends what endpoints with a protocol are about: what is allowed
// arrives byte for byte, what is not arrives nowhere.
func TestContent(t *testing.T) {
	t.Parallel()
	graphql := `protocol: graphql, rules: [{allow: {operation_type: query, fields: [viewer]}}]`
	mcp := `protocol: mcp, rules: [{allow: {method: initialize}}, {allow: {method: tools/call, tool: search}}]`
	rpc := `protocol: json-rpc, rules: [{allow: {method: eth_blockNumber}}]`
	for _, q := range []struct {
		name, rules, body string
		status            int
		hint              string
	}{
		{"query", graphql, `{"query":"{ viewer { login } }"}`, 200, ""},
		{"alias", graphql, `{"query":"{ viewer: secrets { login } }"}`, 403, `rules: [{allow: {operation_type: query, fields: [secrets]}}]`},
		{"mutation", graphql, `{"query":"mutation { viewer { login } }"}`, 403, `rules: [{allow: {operation_type: mutation, fields: [viewer]}}]`},
		{"batch", graphql, `[{"query":"{ viewer { login } }"},{"query":"mutation { x }"}]`, 403, ""},
		{"two queries", graphql, `{"query":"{ viewer }","query":"mutation { x }"}`, 403, ""},
		{"long", graphql, `{"query":"{ viewer }"` + strings.Repeat(" ", 70000) + `}`, 403, ""},
		{"no JSON", graphql, `query`, 403, ""},
		{"tool", mcp, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":{}}}`, 200, ""},
		{"other tool", mcp, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete","arguments":{}}}`, 403, `rules: [{allow: {method: "tools/call", tool: delete}}]`},
		{"call", rpc, `{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}`, 200, ""},
		{"no request", mcp, `{"jsonrpc":"2.0","id":1}`, 403, ""},
		{"key twice", rpc, `{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","Method":"eth_sign"}`, 403, ""},
		{"empty", rpc, "", 403, ""},
		{"other call", rpc, `{"jsonrpc":"2.0","id":1,"method":"eth_sign"}`, 403, `rules: [{allow: {method: "eth_sign"}}]`},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			written := rules("{host: api.example.com, port: 443, " + q.rules + "}")
			c := newCell(t, written)
			var got string
			up := c.serve(api, 443, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				got = string(b)
			}))
			// Of unknown length, as a program may send it.
			status, body, _ := get(t, c.client(true), "POST", "https://"+api+"/x", io.MultiReader(strings.NewReader(q.body)),
				"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
			if status != q.status || status == 200 && got != q.body {
				t.Errorf("%d %s, upstream got %q", status, body, got)
			}
			if x := explained(t, written, "POST /x", q.body, "application/json"); x.Allowed != (status == 200) || status != 200 && !said(body, x) {
				t.Errorf("explained as %+v, and the proxy says %s", x, body)
			}
			if status != 200 {
				up.untouched(t)
				if want := strings.ReplaceAll(q.hint, `"`, `\"`); !strings.Contains(body, want) {
					t.Errorf("%s; want the hint %s", body, want)
				}
			}
		})
	}
}

// TestGRPC calls an allowed and a denied method as gRPC's clients do.
func TestGRPC(t *testing.T) {
	t.Parallel()
	written := rules(`{host: api.example.com, port: 443, protocol: grpc, rules: [{allow: {service: pkg.Store, method: Get}}]}`)
	c := newCell(t, written)
	up := c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}))
	call := func(method string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(context.Background(), "POST", "https://"+api+"/pkg.Store/"+method, io.MultiReader(strings.NewReader("\x00\x00\x00\x00\x01x")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Te", "trailers")
		res, err := c.client(true).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(b)
	}
	res, body := call("Delete")
	if res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "7" || res.Header.Get("X-Forkcell-Policy") != "denied" ||
		res.Header.Get("Content-Type") != "application/grpc" || body != "" {
		t.Errorf("%v %q", res, body)
	}
	if x := explained(t, written, "POST /pkg.Store/Delete", "", "application/grpc"); x.Allowed {
		t.Errorf("explained as %+v", x)
	}
	if x := explained(t, written, "POST /pkg.Store/Get", "", "application/grpc"); !x.Allowed {
		t.Errorf("explained as %+v", x)
	}
	up.untouched(t)
	res, body = call("Get")
	if res.StatusCode != 200 || res.Trailer.Get("Grpc-Status") != "0" || body != "\x00\x00\x00\x00\x01x" {
		t.Errorf("%v %q", res, body)
	}
}

// TestGit checks the preset for reading with Git's requests.
func TestGit(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules("{host: api.example.com, port: 443, protocol: rest, access: read-only}"))
	c.serve(api, 443, http.HandlerFunc(mirror))
	for _, q := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/a/b.git/info/refs?service=git-upload-pack", 200},
		{"POST", "/a/b.git/git-upload-pack", 200},
		{"GET", "/a/b.git/info/refs?service=git-receive-pack", 403},
		{"GET", "/a/b.git/info/refs?x=1&service=git%2Dreceive-pack", 403},
		{"POST", "/a/b.git/git-receive-pack", 403},
		{"POST", "/a", 403},
	} {
		if status, body, _ := get(t, c.client(true), q.method, "https://"+api+q.path, nil); status != q.status {
			t.Error(q, status, body)
		}
	}
}

// explained asks the policy about a request as `policy explain` does.
func explained(t *testing.T, rules, line, body, kind string) policy.Explanation {
	t.Helper()
	s := policy.SentRequest{Header: map[string][]string{"Content-Type": {kind}, "Accept": {"application/json, text/event-stream"}}}
	s.Host, s.Port, s.Binary, s.Content = api, 443, curl, egress.Content([]byte(body))
	s.Method, s.Path, _ = strings.Cut(line, " ")
	return generation(t, rules).Policy.ExplainSent(s)
}

// said reports whether the document of a denial says what was explained.
func said(document string, x policy.Explanation) bool {
	var d struct{ Rule, Reason string }
	return json.Unmarshal([]byte(document), &d) == nil && d.Rule == x.Rule && d.Reason == x.Reason
}
