package policy_test

import (
	"testing"

	"github.com/forkcell/forkcell/internal/policy"
)

// TestScheme checks on which ports plain HTTP is used, and on which TLS.
func TestScheme(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p.yaml", []byte(`version: 1
network_policies:
  a:
    endpoints:
      - { host: a.example.com, ports: [80, 443, 8080], protocol: rest, access: full }
      - { host: b.example.com, ports: [80, 8080], protocol: rest, access: full, enforcement: audit, tls: off }
      - { host: c.example.com, port: 443 }
      - { host: "*.d.example.com", port: 8080, protocol: rest, access: full }
      - { host: x.d.example.com, port: 8080, protocol: rest, access: full, tls: off }
    binaries: [{ path: "/**" }]
`), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host        string
		port        uint16
		http, https bool
	}{
		{"a.example.com", 80, true, false},
		{"a.example.com", 443, false, true},
		{"a.example.com", 8080, false, true},
		{"b.example.com", 80, true, false},
		{"b.example.com", 8080, true, false},
		{"c.example.com", 443, true, true},     // not inspected
		{"x.d.example.com", 8080, false, true}, // the entries disagree
	} {
		for scheme, want := range map[string]bool{policy.HTTP: c.http, policy.HTTPS: c.https, "": true, "ftp": c.http && c.https} {
			q := policy.Request{Host: c.host, Port: c.port, Scheme: scheme, Method: "GET", Path: "/"}
			for _, e := range []policy.Explanation{p.ExplainRequest(q), p.ExplainSent(policy.SentRequest{Request: q})} {
				if e.Allowed != want || e.Audited {
					t.Errorf("%s %s:%d: %+v", scheme, c.host, c.port, e)
				}
			}
		}
	}
}
