package network

import (
	"testing"

	"github.com/forkcell/forkcell/internal/policy"
)

// TestCeilings: a name is resolved, and a range needs a grant, if the policy and each of its
// ceilings list it.
func TestCeilings(t *testing.T) {
	t.Parallel()
	list := func(endpoint string) string {
		return "network_policies: {a: {endpoints: [{port: 443, " + endpoint + `}], binaries: [{path: "/**"}]}}`
	}
	for _, c := range []struct {
		own, ceiling, name string
		resolved           bool
		special            string
	}{
		{`host: "*.example.com", allowed_ips: [10.0.0.0/8]`, "host: a.example.com, allowed_ips: [10.1.0.0/16]", "a.example.com", true, "10.1.0.0/16"},
		{`host: "*.example.com", allowed_ips: [10.1.0.0/16]`, "host: a.example.com, allowed_ips: [10.0.0.0/8]", "b.example.com", false, "10.1.0.0/16"},
		{"host: a.example.com", `host: "*.example.com", allowed_ips: [10.0.0.0/8]`, "b.example.com", false, ""},
		{"host: a.example.com, allowed_ips: [10.0.0.0/8]", "host: a.example.com", "a.example.com", true, ""},
		{"host: 10.0.0.5", "host: 10.0.0.5, allowed_ips: [10.0.0.0/24]", "a.example.com", false, "10.0.0.5/32"},
	} {
		p, err := policy.Parse("", []byte("version: 1\n"+list(c.own)+"\nceilings: [{"+list(c.ceiling)+"}]"), policy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g := &Gateway{}
		g.policy.Store(p)
		if got := g.couldAllow(c.name); got != c.resolved {
			t.Errorf("%s under %s: %s is resolved: %v", c.own, c.ceiling, c.name, got)
		}
		got := ""
		for _, r := range SpecialAddresses(p, nil) {
			got += r.String()
		}
		if got != c.special {
			t.Errorf("%s under %s: the addresses %s need a grant, want %s", c.own, c.ceiling, got, c.special)
		}
	}
}
