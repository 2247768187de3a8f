package suggest_test

import (
	"testing"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/policy/suggest"
)

// TestSmallest: a denied event has the smallest addition that would allow it.
func TestSmallest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, raw, want string }{
		{"connection", `{"class_uid":4001,"activity_id":5,"message":"network_policies: {}"}`, "network_policies: {}"},
		{"connection that was cut", `{"class_uid":4001,"activity_id":3,"message":"not inspected","status_detail":"endpoint: no rule"}`, ""},
		{"login", `{"class_uid":4002,"message":"log in on the host again","status_detail":"credential: the login has no token"}`, ""},
		{"request", `{"class_uid":4002,"message":"access: full"}`, "access: full"},
		{
			"name", `{"class_uid":4003,"status_detail":"no rule allows the name","query":{"hostname":"n.example"}}`,
			`network_policies: {NAME: {endpoints: [{host: "n.example", port: 443, protocol: rest, access: read-only}], binaries: [{path: "/**"}]}}`,
		},
		{"name of a service", `{"class_uid":4003,"status_detail":"no rule allows the name","query":{"hostname":"_http._tcp.n.example"}}`, ""},
		{"name of an address", `{"class_uid":4003,"status_detail":"no rule allows the name","query":{"hostname":"1.2.0.192.in-addr.arpa"}}`, ""},
		{"name server that failed", `{"class_uid":4003,"status_detail":"no server answered","query":{"hostname":"n.example"}}`, ""},
		{"system call", `{"class_uid":2004,"firewall_rule":{"name":"seccomp: mount"}}`, "process: {allow_syscalls: [mount]}"},
		{"limit", `{"class_uid":2004,"firewall_rule":{"name":"limits.pids"}}`, "limits: {pids: MORE}"},
		{"finding", `{"class_uid":2004,"firewall_rule":{"name":"other"}}`, ""},
		{"file", `{"class_uid":1001,"message":"held back"}`, ""},
		{"broken", `{`, ""},
	} {
		if got := suggest.Smallest(event.Record{Action: event.ActionDenied, Raw: []byte(c.raw)}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if got := suggest.Smallest(event.Record{Action: event.ActionAllowed, Raw: []byte(c.raw)}); got != "" {
			t.Errorf("%s, allowed: %q", c.name, got)
		}
	}
}
