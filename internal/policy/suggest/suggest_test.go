package suggest

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress/dial"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/match"
)

// line is a denied event as a journal has it.
func line(class event.Class, host string, port int, binary, reason, more string) event.Record {
	return event.Record{Class: class, Raw: fmt.Appendf(nil,
		`{"class_uid":%d,"status_detail":%q,"actor":{"process":{"file":{"path":%q}}},"dst_endpoint":{"hostname":%q,"port":%d}%s}`,
		class, reason, binary, host, port, more)}
}

func request(host, binary, method, path string) event.Record {
	return line(event.HTTPActivity, host, 443, binary, "request: no rule", fmt.Sprintf(
		`,"http_request":{"http_method":%q,"url":{"path":%q}},"unmapped":{"layer":"rest"}`, method, path))
}

const curlHost = `version: 1
network_policies:
  api:
    endpoints: [{ host: api.example, port: 443, path: "/v1/**", protocol: rest, access: read-only, allowed_ips: [10.0.0.1] }]
    binaries: [{ path: /usr/bin/curl }]
`

// TestSuggestion: what is added is allowed by the policy as it is read again, and
// what must not be added is named.
func TestSuggestion(t *testing.T) {
	t.Parallel()
	refusedAt := func(host string, port int, binary string) event.Record {
		return line(event.NetworkActivity, host, port, binary, "endpoint: no rule lists the endpoint", "")
	}
	for name, c := range map[string]struct {
		policy string
		events []event.Record
		added  []string
		left   string // a part of the only one
	}{
		"nothing": {policy: "version: 1\n"},
		"a connection, twice": {
			policy: "version: 1\n", events: []event.Record{refusedAt("a.example", 443, "/bin/x"), refusedAt("a.example", 443, "/bin/x")},
			added: []string{"a.example port 443 by /bin/x"},
		},
		"two programs and ssh": {
			policy: "version: 1\n", events: []event.Record{refusedAt("a.example", 443, "/bin/x"), refusedAt("b.example", 22, "/usr/bin/ssh")},
			added: []string{"a.example port 443 by /bin/x", "b.example port 22 by /usr/bin/ssh"},
		},
		"another program": {policy: curlHost, events: []event.Record{refusedAt("api.example", 443, "/bin/x")}, added: []string{"api.example port 443 by /bin/x"}},
		"a method": {
			policy: curlHost, events: []event.Record{request("api.example", "/usr/bin/curl", "POST", "/v1/a"), request("api.example", "/usr/bin/curl", "DELETE", "/v1/b")},
			added: []string{"POST /v1/a at api.example port 443 by /usr/bin/curl", "DELETE /v1/b at api.example port 443 by /usr/bin/curl"},
		},
		"a path that no entry covers": {
			policy: curlHost, events: []event.Record{request("api.example", "/usr/bin/curl", "GET", "/v2/a")},
			added: []string{"GET /v2/a at api.example port 443 by /usr/bin/curl"},
		},
		"an address": {
			policy: "version: 1\n", events: []event.Record{{Raw: []byte(`{"class_uid":4001,"status_detail":"endpoint: no","actor":{"process":{"file":{"path":"/bin/x"}}},"dst_endpoint":{"ip":"93.184.216.34","port":80}}`)}},
			added: []string{"93.184.216.34 port 80 by /bin/x"},
		},
		"a deny rule": {
			policy: curlHost, events: []event.Record{line(event.HTTPActivity, "api.example", 443, "/usr/bin/curl", "request: deny", `,"firewall_rule":{"name":"network_policies.api.endpoints[0].deny_rules[0]"}`)},
			left: "a deny rule matches it",
		},
		"a ceiling": {
			policy: curlHost, events: []event.Record{line(event.NetworkActivity, "api.example", 443, "/usr/bin/curl", "endpoint: no rule of the ceiling lists it", `,"firewall_rule":{"name":"ceilings[0]"}`)},
			left: "a ceiling of the policy denies it: ceilings[0]",
		},
		"a forbidden address": {policy: curlHost, events: []event.Record{line(event.NetworkActivity, "api.example", 443, "/usr/bin/curl", "destination: 127.0.0.1 is loopback", "")}, left: "127.0.0.1 is loopback"},
		"a name as a pattern": {policy: "version: 1\n", events: []event.Record{refusedAt("a.example", 443, "/bin/*")}, left: "holds a *"},
		"no host":             {policy: "version: 1\n", events: []event.Record{refusedAt("127.0.0.1.", 443, "/bin/x")}, left: "127.0.0.1."},
		"a service": {
			policy: "version: 1\n", events: []event.Record{{Raw: []byte(`{"class_uid":4003,"status_detail":"no rule allows the name","query":{"hostname":"_http._tcp.n.example"}}`)}},
		},
		"a name": {
			policy: "version: 1\n", events: []event.Record{{Raw: []byte(`{"class_uid":4003,"status_detail":"no rule allows the name","query":{"hostname":"n.example"}}`)}},
			added: []string{"n.example port 8443, reading only, by any program: only the name was asked for, the rest is assumed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := suggested(t, c.policy, []string{"sh", "wget https://n.example:8443/x"}, c.events...)
			if diff := cmp.Diff(append([]string{}, c.added...), res.Added); diff != "" {
				t.Error(diff, res.Left)
			}
			if c.left != "" && (len(res.Left) != 1 || !strings.Contains(res.Left[0], c.left)) || c.left == "" && len(res.Left) > 0 {
				t.Errorf("left: %q", res.Left)
			}
			if p := parsedPolicy(t, string(res.Text)); p.Digest() != res.PolicyHash {
				t.Errorf("its text has the hash %s:\n%s", p.Digest(), res.Text)
			}
			if (res.PolicyHash == res.Before) != (len(c.added) == 0) {
				t.Error("the policy changed, or did not")
			}
		})
	}
}

func parsedPolicy(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return p
}

func parse(text []byte) (*policy.Policy, error) { return policy.Parse("p", text, policy.Options{}) }

// suggested returns the suggestion for a run under a policy with these events.
func suggested(t *testing.T, policy string, commands []string, events ...event.Record) *api.PolicySuggestion {
	t.Helper()
	res, err := Policy(Run{
		Cell: "demo", ID: "run_1", Policy: parsedPolicy(t, policy), Commands: commands, Parse: parse,
		Events: func(event.Filter) iter.Seq2[event.Record, error] {
			return func(yield func(event.Record, error) bool) {
				for _, e := range events {
					if !yield(e, nil) {
						return
					}
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestPortsIn(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]target{
		"":                       nil,
		"curl h.example":         nil,
		"curl http://h.example/": {{port: 80}},
		"curl HTTPS://H.example": {{port: 443}},
		"nc h.example:22 h.example:8080 h.example:22": {{port: 22}, {port: 8080}},
		"git clone git@h.example:a/b":                 {{port: 22}},
		"curl h.example:99999":                        nil,
		"curl http://h.example:80/":                   {{port: 80}},
		"curl http://h.example:8080/":                 {{port: 8080, plain: true}},
		"curl https://h.example:8080/":                {{port: 8080}},
	} {
		if got := portsIn([]string{line}, "h.example"); !slices.Equal(got, want) {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestHostsIn(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"":                             nil,
		"make install h.example":       nil,
		"curl https://A.example/x.y":   {"a.example"},
		"git clone git@g.example:a/b":  {"g.example"},
		"see http://a.example. https:": {"a.example"},
		"curl http://localhost:8000 http://127.0.0.1:1 http://x.localhost/": nil,
		"curl http://10.0.0.7:8080/ https://a.example https://a.example":    {"10.0.0.7", "a.example"},
	} {
		if got := hostsIn([]string{line}); !slices.Equal(got, want) {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// TestSuggestedSlash: what was denied for an encoded slash, as npm sends the names of
// scoped packages, gets allow_encoded_slash.
func TestSuggestedSlash(t *testing.T) {
	t.Parallel()
	const listed = `version: 1
network_policies:
  m: { endpoints: [{ host: h.a.example, ports: [443, 8443], protocol: rest, access: read-only }], binaries: [{ path: "/**" }] }
  o: { endpoints: [{ host: h.a.example, port: 443, protocol: rest, access: read-only }], binaries: [{ path: /usr/bin/node }] }
`
	for method, added := range map[string]string{
		"GET": "GET /@s%2Fp at h.a.example port 443 by /usr/bin/node",
		"PUT": "PUT /@s%2Fp at h.a.example port 443 by /usr/bin/node",
	} {
		res := suggested(t, listed, nil, line(event.HTTPActivity, "h.a.example", 443, "/usr/bin/node", "request: "+match.ErrEncodedSlash.Error(),
			fmt.Sprintf(`,"http_request":{"http_method":%q,"url":{"path":"/@s%%2fp"}}`, method)))
		if strings.Join(res.Added, "\n") != added || len(res.Left) > 0 {
			t.Errorf("added %q, left %q:\n%s", res.Added, res.Left, res.Text)
		}
		grown := parsedPolicy(t, string(res.Text))
		for port, want := range map[uint16]bool{443: true, 8443: false} {
			if x := grown.ExplainRequest(policy.Request{Host: "h.a.example", Port: port, Method: "GET", Path: "/@s%2fp"}); x.Allowed != want {
				t.Errorf("port %d: %+v\n%s", port, x, res.Text)
			}
		}
	}
}

// TestSuggestedPlain: what was denied because it is plain HTTP on a port of TLS is
// allowed by tls: off, for this port alone and never against a credential.
func TestSuggestedPlain(t *testing.T) {
	t.Parallel()
	const listed = `version: 1
network_policies: { m: { endpoints: [{ host: h.a.example, ports: [443, 8080], protocol: rest, access: read-only }], binaries: [{ path: "/**" }] } }
`
	const credential = `credentials: { c: { endpoints: [{ host: h.a.example, port: 8080, path: "/**" }], inject: { header: Authorization, format: "{value}" } } }
`
	pattern := strings.Replace(listed, "h.a.example", `"*.a.example"`, 1)
	for name, c := range map[string]struct {
		policy, method string
		added, left    string
	}{
		"read":         {listed, "GET", "GET /x at h.a.example port 8080 in plain HTTP by /usr/bin/curl", ""},
		"write":        {listed, "POST", "POST /x at h.a.example port 8080 in plain HTTP by /usr/bin/curl", ""},
		"a credential": {listed + credential, "GET", "", "the credential c is for this host and port"},
		"a pattern":    {pattern, "GET", "", "would be for every host"},
	} {
		reason := parsedPolicy(t, c.policy).ExplainRequest(policy.Request{Host: "h.a.example", Port: 8080, Method: c.method, Path: "/x", Scheme: policy.HTTP}).Reason
		res := suggested(t, c.policy, nil, line(event.HTTPActivity, "h.a.example", 8080, "/usr/bin/curl", "tls: "+reason,
			fmt.Sprintf(`,"http_request":{"http_method":%q,"url":{"path":"/x"}}`, c.method)))
		if strings.Join(res.Added, "\n") != c.added || !strings.Contains(strings.Join(res.Left, "\n"), c.left) {
			t.Errorf("%s: added %q, left %q", name, res.Added, res.Left)
		}
		grown := parsedPolicy(t, string(res.Text))
		for port, scheme := range map[uint16]string{8080: policy.HTTP, 443: policy.HTTPS} {
			x := grown.ExplainRequest(policy.Request{Host: "h.a.example", Port: port, Method: "GET", Path: "/x", Scheme: scheme})
			if x.Allowed != (c.added != "" || port == 443) {
				t.Errorf("%s: %s on port %d: %+v", name, scheme, port, x)
			}
		}
	}
}

// TestSuggestedAddress: a host that was denied for its address gets allowed_ips.
func TestSuggestedAddress(t *testing.T) {
	t.Parallel()
	reason := func(host, addr, why string) string {
		return "destination: " + (&dial.Refusal{Host: host, Addr: netip.MustParseAddr(addr), Reason: why}).Error()
	}
	const mirror = `version: 1
network_policies: { m: { endpoints: [{ host: h.example, port: 443, protocol: rest, access: read-only }], binaries: [{ path: "/**" }] } }
`
	const takes = "is private; it takes allowed_ips to go there"
	for _, c := range []struct{ reason, want string }{
		{reason("h.example", "10.0.0.7", takes), "10.0.0.7/32"},
		{reason("h.example", "fd12::7", takes), "fd12::7/128"},
		{reason("h.example", "127.0.0.1", "is loopback, where no connection of a cell ever goes"), ""},
		{reason("10.0.0.7", "10.0.0.7", takes), ""},
		{"destination: something else", ""},
	} {
		res := suggested(t, mirror, nil, line(event.NetworkActivity, "h.example", 443, "", c.reason, ""))
		if got := strings.Contains(string(res.Text), "allowed_ips:"); got != (c.want != "") || !strings.Contains(string(res.Text), c.want) {
			t.Errorf("%s: %s", c.reason, res.Text)
		}
		if added, left := len(res.Added) == 1, len(res.Left) == 1; added != (c.want != "") || added == left {
			t.Errorf("%s: added %q, left %q", c.reason, res.Added, res.Left)
		}
	}
}

// TestDestinations: every denial counts, and some destinations are named.
func TestDestinations(t *testing.T) {
	t.Parallel()
	events := func(yield func(event.Record, error) bool) {
		for _, e := range []event.Record{
			line(event.NetworkActivity, "a.example", 443, "/bin/x", "", ""),
			line(event.HTTPActivity, "a.example", 443, "/bin/x", "", ""),
			{Raw: []byte(`{"class_uid":4003,"query":{"hostname":"n.example"}}`)},
			{Raw: []byte(`{"class_uid":4001,"dst_endpoint":{"ip":"::1","port":80}}`)},
			line(event.NetworkActivity, "b.example", 22, "/bin/x", "", ""),
			line(event.ProcessActivity, "c.example", 1, "/bin/x", "", ""),
		} {
			e.Count = 2
			if !yield(e, nil) {
				return
			}
		}
		yield(event.Record{}, errors.New("unreadable"))
	}
	want := api.DeniedNetwork{Attempts: 10, To: []string{"a.example:443", "n.example", "[::1]:80"}}
	if diff := cmp.Diff(want, Destinations(events)); diff != "" {
		t.Error(diff)
	}
}

// TestUnanswered: failures of allowed requests and connections count, and nothing
// else does.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	raw := func(text string) event.Record { return event.Record{Raw: []byte(text), Count: 2} }
	events := func(yield func(event.Record, error) bool) {
		for _, e := range []event.Record{
			raw(`{"class_uid":4002,"dst_endpoint":{"hostname":"a.example","port":443}}`),
			raw(`{"class_uid":4002,"status_detail":"audited","is_alert":true,"dst_endpoint":{"hostname":"a.example","port":443}}`),
			raw(`{"class_uid":4001,"activity_id":2,"status_detail":"the program sent nothing","dst_endpoint":{"hostname":"a.example","port":443}}`),
			raw(`{"class_uid":4002,"status_detail":"no route","dst_endpoint":{"hostname":"b.example","port":443}}`),
			raw(`{"class_uid":4001,"activity_id":4,"status_detail":"refused","dst_endpoint":{"ip":"::1","port":80}}`),
		} {
			if !yield(e, nil) {
				return
			}
		}
		yield(event.Record{}, errors.New("unreadable"))
	}
	want := &api.UnansweredNetwork{Attempts: 4, To: []string{"b.example:443", "[::1]:80"}, Reason: "no route"}
	if diff := cmp.Diff(want, CountUnanswered(events)); diff != "" {
		t.Error(diff)
	}
}
