package session

import (
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/injection"
)

// TestCeilingOfOperatorsPolicy: a ceiling in the operator's policy holds for the whole session,
// and for what is said to be reached.
func TestCeilingOfOperatorsPolicy(t *testing.T) {
	t.Parallel()
	list := func(endpoints string) string {
		return "network_policies: {a: {endpoints: [" + endpoints + `], binaries: [{path: "/**"}]}}`
	}
	parse := func(text string) *policy.Policy {
		p, err := policy.Parse("", []byte("version: 1\n"+text), policy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := parse(list("{host: agent.example.com, port: 443}"))
	add(p, "operator-", parse(list("{host: a.example.com, port: 22}")+"\nceilings: [{"+list("{host: a.example.com, port: 22}, {host: b.example.com, port: 443}")+"}]"))
	if got := endpoints(p); !slices.Equal(got, []string{"a.example.com:22"}) {
		t.Errorf("it reaches %q", got)
	}
	if got := sshEndpoints(p); len(got) != 1 || got[0].Host != "a.example.com" {
		t.Errorf("ssh to %v", got)
	}
	for host, want := range map[string]bool{"a.example.com": true, "agent.example.com": false} {
		port := uint16(22)
		if !want {
			port = 443
		}
		if got := reachable(p, injection.Endpoint{Host: host, Port: port}); got != want {
			t.Errorf("%s is reachable: %v", host, got)
		}
	}
}
