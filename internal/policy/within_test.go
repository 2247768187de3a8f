package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	wide, narrow := parsed(t, rest("protocol: rest, access: full")), parsed(t, strings.Replace(rest("protocol: rest, access: read-only"), "  x:", "  other:", 1)+"limits: {memory: 1GiB}")
	ceiling := parsed(t, rest("protocol: rest, access: read-write")+"environment: {set: {A: b}}")
	for _, c := range []struct {
		p    *Policy
		want bool
	}{{narrow, true}, {wide, false}, {ceiling, true}, {Default(), true}, {parsed(t, rest("")), false}} {
		if got := Within(c.p, ceiling); got != c.want {
			t.Errorf("%s is within: %v", c.p.Canonical(), got)
		}
	}
	if Within(wide, narrow) {
		t.Error("a policy without a limit is within one that has it")
	}
}

// TestWithinNetwork compares single endpoints.
func TestWithinNetwork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		inner, outer string
		want         bool
	}{
		{"protocol: rest, access: full", "protocol: tcp", true},
		{"protocol: tcp", "protocol: rest, access: full", false},
		{"protocol: graphql, access: full", "protocol: rest, access: full", true},
		{"protocol: graphql, access: full", "protocol: graphql, access: read-only", false},
		{"protocol: rest, access: read-only", "protocol: rest, access: read-only, enforcement: audit", true},
		{"protocol: rest, access: read-only, enforcement: audit", "protocol: rest, access: read-only", false},
		{"allowed_ips: [10.1.0.0/16]", "allowed_ips: [10.0.0.0/8]", true},
		{"allowed_ips: [10.0.0.0/8]", "allowed_ips: [10.1.0.0/16]", false},
		{"allowed_ips: [10.0.0.0/8]", "protocol: tcp", false},
		{"protocol: tcp", "allowed_ips: [10.0.0.0/8]", false},
		{"protocol: rest, access: full, allow_encoded_slash: true", "protocol: rest, access: full", false},
		{"protocol: rest, access: full, tls: off", "protocol: rest, access: full", false},
		{"protocol: rest, access: full, credential_signing: sigv4, signing_service: s3", "protocol: rest, access: full", false},
		{`protocol: rest, access: full`, `protocol: rest, access: full, deny_rules: [{method: GET, path: /x}]`, false},
		{`protocol: rest, access: full, deny_rules: [{method: GET, path: /x}]`, `protocol: rest, access: full, deny_rules: [{method: GET, path: /x}]`, true},
		{`protocol: rest, rules: [{allow: {method: GET, path: "/a/*"}}]`, `protocol: rest, rules: [{allow: {method: "*", path: "/a/**"}}]`, true},
		{`protocol: rest, rules: [{allow: {method: GET, path: "/a/**"}}]`, `protocol: rest, rules: [{allow: {method: GET, path: "/a/**", query: {q: x}}}]`, false},
		{`protocol: rest, rules: [{allow: {method: GET, path: "/a/**", query: {q: x}}}]`, `protocol: rest, rules: [{allow: {method: GET, path: "/a/**", query: {q: {any: [x, y]}}}}]`, true},
		{`protocol: rest, path: "/a/**", access: full`, `protocol: rest, path: "/b/**", access: full`, false},
		{`protocol: mcp, rules: [{allow: {method: tools/list}}]`, "protocol: mcp, mcp: {allow_all_known_mcp_methods: true}", true},
		{"protocol: mcp, mcp: {allow_all_known_mcp_methods: true}", `protocol: mcp, rules: [{allow: {method: tools/list}}]`, false},
		{`protocol: mcp, rules: [{allow: {method: tools/list}}], mcp: {strict_tool_names: false}`, "protocol: mcp, mcp: {allow_all_known_mcp_methods: true}", false},
		{"protocol: graphql, access: full, graphql_max_body_bytes: 2000000", "protocol: graphql, access: full, graphql_max_body_bytes: 1000000", false},
	} {
		if got := Within(parsed(t, rest(c.inner)), parsed(t, rest(c.outer))); got != c.want {
			t.Errorf("%s is within %s: %v", c.inner, c.outer, got)
		}
	}
}

// TestWithinAllowsNothingMore draws two policies, and one that is narrower by construction: what
// is within another one allows no request that the other denies.
func TestWithinAllowsNothingMore(t *testing.T) {
	t.Parallel()
	within := 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPolicy(t, "a"), drawPolicy(t, "b")
		if rapid.Bool().Draw(t, "narrower") {
			a = narrowed(t, b)
		}
		if !Within(a, b) {
			t.Skip("it is not within the other one, or that cannot be seen")
		}
		within++
		for range 30 {
			q, content := drawRequest(t), drawContent(t)
			if x, y := decided(a, q, content), decided(b, q, content); x.Allowed && !y.Allowed {
				t.Fatalf("%+v\ninner: %+v\nouter: %+v\n%s\n%s", q, x, y, a.Canonical(), b.Canonical())
			}
		}
	})
	if within < 10 {
		t.Errorf("only %d policies were within another", within)
	}
}

// narrowed returns a policy with one endpoint or rule of another one taken away or narrowed.
func narrowed(t *rapid.T, p *Policy) *Policy {
	out, err := Parse("test", p.Canonical(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := &out.Network[rapid.IntRange(0, len(out.Network)-1).Draw(t, "entry")]
	i := rapid.IntRange(0, len(n.Endpoints)-1).Draw(t, "endpoint")
	e := &n.Endpoints[i]
	switch rapid.IntRange(0, 3).Draw(t, "narrow") {
	case 0:
		if len(n.Endpoints) > 1 {
			n.Endpoints = append(n.Endpoints[:i:i], n.Endpoints[i+1:]...)
		}
	case 1:
		if len(e.Rules) > 1 {
			e.Rules = e.Rules[:1]
		}
	case 2:
		if len(e.Ports) > 1 {
			e.Ports = e.Ports[:1]
		}
	case 3:
		e.Enforcement = Enforce
	}
	return out
}

// TestWithinIsBounded compares policies of the largest size that a file may have.
func TestWithinIsBounded(t *testing.T) {
	t.Parallel()
	list := func(n int, item func(i int) string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = item(i)
		}
		return strings.Join(items, ", ")
	}
	network := func(endpoints, binaries string) *Policy {
		return parsed(t, "network_policies:\n  x:\n    endpoints: ["+endpoints+"]\n    binaries: ["+binaries+"]\n")
	}
	all := `{path: "/**"}`
	one := func(path func(i int) string, n int) string {
		return "{host: a.example, port: 443, protocol: rest, rules: [" + list(n, func(i int) string { return `{allow: {method: GET, path: "` + path(i) + `"}}` }) + "]}"
	}
	long := func(segment string) func(int) string {
		return func(i int) string {
			return fmt.Sprintf("/%d%s", i, strings.Repeat("/"+strings.Repeat(segment, 30), 60))
		}
	}
	hosts := list(1000, func(i int) string {
		return fmt.Sprintf("{host: h%d.example, port: 443, protocol: rest, access: full}", i)
	})
	tools := func(name string) string {
		return list(1000, func(i int) string { return fmt.Sprintf(`{path: "/usr/%s/tool-%d"}`, name, i) })
	}
	for _, c := range []struct {
		name string
		a, b *Policy
	}{
		{"rules", network(one(func(i int) string { return fmt.Sprintf("/%d/**", i) }, 4000), all), network(one(func(i int) string { return fmt.Sprintf("/**/%d", i) }, 4000), all)},
		{"long paths", network(one(long("a*"), 120), all), network(one(long("*a"), 120), all)},
		{"hosts and binaries", network(hosts, tools("bin")), network(hosts, tools("sbin"))},
	} {
		begin := time.Now()
		within := Within(c.a, c.b)
		if took := time.Since(begin); within || took > 20*time.Second {
			t.Errorf("%s: %v after %s", c.name, within, took)
		} else {
			t.Logf("%s: %s", c.name, took)
		}
		begin = time.Now()
		under, err := Under(c.a, c.b)
		if took := time.Since(begin); err != nil || took > 20*time.Second {
			t.Errorf("%s: combined after %s: %v", c.name, took, err)
		} else if !Within(under, c.a) || !Within(under, c.b) {
			t.Errorf("%s: together they are not within each of them", c.name)
		}
	}
}
