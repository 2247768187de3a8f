package session

import (
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
)

// TestKeysAreTheOperators: ssh keys are not for callers who are bound.
func TestKeysAreTheOperators(t *testing.T) {
	t.Parallel()
	p := &injection.Policy{SSH: &injection.SSH{Enabled: true, Identities: []string{"/none"}}}
	for name, b := range map[string]*Bounds{"bound": {}, "the operator": nil} {
		q := &Facts{Adapter: &adapter.Entry{Adapter: &adapter.Adapter{Name: "generic"}}, Mode: Strict, Grant: &credentials.Grant{}}
		err := b.inject(q, p, credentials.Host{})
		if refused := err != nil; refused != (b == nil) || q.Grant.SSH != nil {
			t.Errorf("%s: %v, %+v", name, err, q.Grant.SSH)
		}
	}
}

// TestSSHHosts: keys sign for the hosts of the policy, else for endpoints that pass TCP
// on to an exact name.
func TestSSHHosts(t *testing.T) {
	t.Parallel()
	rules, err := policy.Parse("p.yaml", []byte(`version: 1
network_policies:
  a:
    binaries: [{ path: /** }]
    endpoints:
      - { host: git.example, ports: [22, 2222], protocol: tcp }
      - { host: "*.wide.example", port: 22, protocol: tcp }
      - { host: web.example, port: 443, protocol: rest, access: full }
`), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range sshEndpoints(rules) {
		got = append(got, h.String())
	}
	if text := strings.Join(got, " "); text != "git.example git.example:2222" {
		t.Error(text)
	}
	for text, want := range map[string]bool{
		"git.example:22": true, "x.wide.example:22": true, "git.example:23": false, "web.example:443": false, "other.example:22": false,
	} {
		e, ok := injection.ParseEndpoint(text)
		if !ok || reachable(rules, e) != want {
			t.Errorf("%s: not %v", text, want)
		}
	}
}
