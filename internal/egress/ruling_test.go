package egress_test

import (
	"fmt"
	"net/http"
	"testing"
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
