package egress_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/forkcell/forkcell/internal/network/egress"
)

// TestAskedAgain checks that a decision that is remembered is the one that would
// be made: also where a query decides, or the method does, and after more
// different questions than are remembered.
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(`{host: api.example.com, port: 443, protocol: rest, rules: [{allow: {method: GET, path: "/open/**"}}, {allow: {method: GET, path: /q, query: {a: "1"}}}]}`))
	c.serve(api, 443, http.HandlerFunc(mirror))
	cl := c.client(false)
	check := func(method, target string, want int) {
		t.Helper()
		if status, _, _ := get(t, cl, method, "https://"+api+target, nil); status != want {
			t.Errorf("%s %s: %d, want %d", method, target, status, want)
		}
	}
	for range 3 {
		check("GET", "/q?a=1", 200)
		check("GET", "/q", 403)
		check("GET", "/q?a=2", 403)
		check("GET", "/q?a=1&a=2", 403)
		check("GET", "/open/a", 200)
		check("POST", "/open/a", 403)
	}
	for i := range 300 {
		check("HEAD", fmt.Sprint("/closed/", i), 403)
	}
	check("GET", "/open/a", 200)
	if err := c.proxy.Reload(generation(t, rules(`{host: api.example.com, port: 443, protocol: rest, rules: [{allow: {method: GET, path: /q}}]}`))); err != nil {
		t.Fatal(err)
	}
	check("GET", "/open/a", 403)
	check("GET", "/q", 200)
}

// Where the operator allows any host, the policy still decides about those that it
// lists.
func TestUnrestricted(t *testing.T) {
	t.Parallel()
	const text = `{host: api.example.com, port: 443, protocol: rest, rules: [{allow: {method: GET, path: "/open/**"}}]}`
	c := newCell(t, rules(text))
	c.serve(api, 443, http.HandlerFunc(mirror))
	c.serve("other.example.com", 80, http.HandlerFunc(mirror))
	cl := c.client(false)
	const other = "http://other.example.com/x"
	if res, err := cl.Get(other); err == nil {
		_ = res.Body.Close()
		t.Errorf("%s: %s", other, res.Status)
	}
	g := generation(t, rules(text))
	g.Unrestricted = true
	if err := c.proxy.Reload(g); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]int{other: 200, "https://" + api + "/open/a": 200, "https://" + api + "/closed": 403} {
		if status, _, _ := get(t, cl, "GET", target, nil); status != want {
			t.Errorf("%s: %d, want %d", target, status, want)
		}
	}
	c.process = egress.Process{Unknown: "it cannot be found"}
	if status, _, _ := get(t, c.client(false), "GET", other, nil); status != 200 {
		t.Errorf("an unknown program: %d", status)
	}
}
