package policy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/policy"
)

func TestExplainPath(t *testing.T) {
	t.Parallel()
	ctx := policy.PathContext{
		Workspace: "/workspace", Extra: []string{"/home/me/.cargo"},
		Links: map[string]string{"/bin": "usr/bin", "/lib": "usr/lib"},
	}
	const listed = "version: 1\nfilesystem_policy: {read_only: [/usr], read_write: [/var/tmp, /usr/local/share]}"
	for _, c := range []struct{ policy, path, access, rule, reason string }{
		{"version: 1", "/workspace/a", "read-write", "filesystem_policy.include_workdir", "the workspace"},
		{"version: 1\nfilesystem_policy: {include_workdir: false}", "/workspace/a", "absent", "filesystem_policy.include_workdir", "the policy leaves the workspace out"},
		{"version: 1", "/usr/bin/env", "read-only", "default", "the system, which a cell sees without a filesystem_policy"},
		{"version: 1", "/bin/sh", "read-only", "default", "the system, which a cell sees without a filesystem_policy"},
		{"version: 1", "/etc/ssl", "read-only", "default", "the system, which a cell sees without a filesystem_policy"},
		{"version: 1", "/etc/passwd", "read-only", "every cell", "the cell's own file, not the host's"},
		{"version: 1\nfilesystem_policy: {read_only: [/usr], read_write: [/etc]}", "/etc/passwd", "read-write", "every cell", "the cell's own file, not the host's; changes stay in the cell"},
		{"version: 1", "/usr/../root/x", "absent", "none", "no rule lists it, and what is not listed does not exist in a cell"},
		{"version: 1", "/usrx", "absent", "none", "no rule lists it, and what is not listed does not exist in a cell"},
		{"version: 1", "/home/me/.cargo/bin/x", "read-only", "--ro", "added by the operator"},
		{"version: 1", "/home/me", "read-only", "every cell", "an empty directory that leads to /home/me/.cargo"},
		{"version: 1", "/home/me/.ssh", "absent", "none", "no rule lists it, and what is not listed does not exist in a cell"},
		{"version: 1", "/home/sandbox/x", "read-write", "every cell", "the cell's own home, part of its state"},
		{"version: 1", "/tmp/x", "read-write", "every cell", "a private /tmp, dropped at the end of the run"},
		{"version: 1", "/proc/1", "read-only", "every cell", "the cell's own processes"},
		{"version: 1", "/dev", "read-only", "every cell", "a private /dev with a few harmless devices"},
		{"version: 1", "/dev/null", "read-write", "every cell", "a device of the cell's own /dev"},
		{"version: 1", "/dev/kvm", "absent", "every cell", "nothing of the host's /dev exists in a cell"},
		{"version: 1", "/run/docker.sock", "absent", "every cell", "nothing of the host's /run exists in a cell"},
		{listed, "/usr/lib/x", "read-only", "filesystem_policy.read_only", "listed as /usr"},
		{listed, "/lib/x", "read-only", "filesystem_policy.read_only", "listed as /usr"},
		{listed, "/usr/local/share/x", "read-write", "filesystem_policy.read_write", "listed as /usr/local/share; changes stay in the cell"},
		{listed, "/etc/ssl", "absent", "none", "no rule lists it, and what is not listed does not exist in a cell"},
		{listed, "/var", "read-only", "every cell", "an empty directory that leads to /var/tmp"},
		{listed, "relative", "absent", "none", "the path is not absolute"},
	} {
		want := policy.Explanation{Allowed: c.access != "absent", Access: c.access, Rule: c.rule, Reason: c.reason}
		if d := cmp.Diff(want, parse(t, c.policy).ExplainPath(c.path, ctx)); d != "" {
			t.Errorf("%s in %q: %s", c.path, c.policy, d)
		}
	}
}

func TestExplainSyscall(t *testing.T) {
	t.Parallel()
	open := parse(t, "version: 1\nprocess: {allow_syscalls: [bpf]}")
	for _, c := range []struct {
		p    *policy.Policy
		name string
		want policy.Explanation
	}{
		{policy.Default(), "read", policy.Explanation{Allowed: true, Rule: "default", Reason: "it is not in the deny set"}},
		{policy.Default(), "bpf", policy.Explanation{Rule: "deny set", Reason: "it loads programs into the kernel"}},
		{open, "bpf", policy.Explanation{Allowed: true, Rule: "process.allow_syscalls", Reason: "the policy takes it out of the deny set, which is recorded as a degradation"}},
		{open, "nosuch", policy.Explanation{Rule: "none", Reason: `no system call is called "nosuch"`}},
	} {
		if d := cmp.Diff(c.want, c.p.ExplainSyscall(c.name, calls{})); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

const requests = `version: 1
network_policies:
  github:
    endpoints:
      - host: api.github.com
        port: 443
        protocol: rest
        rules:
          - allow: { method: GET, path: "/repos/**", query: { per_page: { any: ["10", "100"] } } }
          - allow: { method: GET, path: "/user" }
        deny_rules:
          - { method: "*", path: "/repos/*/*/rulesets" }
      - { host: api.github.com, port: 443, path: /graphql, protocol: graphql, access: read-only }
    binaries: [{ path: /usr/bin/curl }]
  git:
    endpoints:
      - { host: github.com, port: 443, protocol: rest, access: read-only }
    binaries: [{ path: /usr/bin/git }]
  other:
    endpoints:
      - { host: "*.example.com", port: 443, protocol: rest, access: read-write }
      - { host: audit.example.org, port: 443, protocol: rest, access: read-only, enforcement: audit }
      - { host: all.example.org, port: 443, protocol: rest, access: full, deny_rules: [{ method: DELETE, path: "/**" }] }
      - { host: db.example.org, port: 5432 }
      - { host: deny.example.org, port: 443, protocol: rest, access: read-only, deny_rules: [{ method: POST, path: "/**" }] }
      - { host: deny.example.org, port: 443, path: "/admin/**", protocol: rest, access: full }
      - { host: part.example.org, port: 443, path: "/v1/**", protocol: rest, access: full }
    binaries: [{ path: "/**" }]
`

func TestExplainRequest(t *testing.T) {
	t.Parallel()
	p := parse(t, requests)
	for _, c := range []struct {
		host    string
		port    uint16
		binary  string
		request string
		allowed bool
		rule    string
	}{
		{"api.github.com", 443, "/usr/bin/curl", "", true, "network_policies.github.endpoints[0]"},
		{"API.github.com", 443, "/usr/bin/curl", "GET /user", true, "network_policies.github.endpoints[0].rules[1]"},
		{"api.github.com", 443, "/usr/bin/curl", "HEAD /user", true, "network_policies.github.endpoints[0].rules[1]"},
		{"api.github.com", 443, "/usr/bin/curl", "GET /x/../user", true, "network_policies.github.endpoints[0].rules[1]"},
		{"api.github.com", 443, "/usr/bin/curl", "POST /user", false, "network_policies.github.endpoints[0]"},
		{"api.github.com", 443, "/usr/bin/curl", "get /user", false, "request"},
		{"api.github.com", 443, "/usr/bin/curl", "GET /a%2Fb", false, "request"},
		{"api.github.com", 443, "/usr/bin/curl", "GET /repos/a/b?per_page=10&per_page=100", true, "network_policies.github.endpoints[0].rules[0]"},
		{"api.github.com", 443, "/usr/bin/curl", "GET /repos/a/b?per_page=10&per_page=11", false, "network_policies.github.endpoints[0]"},
		{"api.github.com", 443, "/usr/bin/curl", "GET /repos/a/b", false, "network_policies.github.endpoints[0]"},
		{"api.github.com", 443, "/usr/bin/curl", "GET /repos/a/b/rulesets/?per_page=10", false, "network_policies.github.endpoints[0].deny_rules[0]"},
		{"api.github.com", 443, "/usr/bin/curl", "POST /graphql", false, "network_policies.github.endpoints[1]"},
		{"api.github.com", 443, "/usr/bin/git", "", false, "network_policies.github.endpoints[1]"},
		{"api.github.com", 80, "/usr/bin/curl", "", false, "none"},
		{"x.api.github.com", 443, "/usr/bin/curl", "", false, "none"},
		{"github.com", 443, "/usr/bin/git", "GET /a/b.git/info/refs?service=git-upload-pack", true, "network_policies.git.endpoints[0].access"},
		{"github.com", 443, "/usr/bin/git", "POST /a/b.git/git-upload-pack", true, "network_policies.git.endpoints[0].access"},
		{"github.com", 443, "/usr/bin/git", "GET /a/b.git/info/refs?service=git-receive-pack", false, "network_policies.git.endpoints[0].access"},
		{"github.com", 443, "/usr/bin/git", "POST /a/b.git/git-receive-pack", false, "network_policies.git.endpoints[0]"},
		{"a.example.com", 443, "/x", "PATCH /", true, "network_policies.other.endpoints[0].access"},
		{"a.example.com", 443, "/x", "DELETE /", false, "network_policies.other.endpoints[0]"},
		{"audit.example.org", 443, "/x", "DELETE /", true, "network_policies.other.endpoints[1]"},
		{"all.example.org", 443, "/x", "PROPFIND /", true, "network_policies.other.endpoints[2].access"},
		{"all.example.org", 443, "/x", "DELETE /y", false, "network_policies.other.endpoints[2].deny_rules[0]"},
		{"db.example.org", 5432, "/x", "", true, "network_policies.other.endpoints[3]"},
		{"deny.example.org", 443, "/x", "GET /admin/list", true, "network_policies.other.endpoints[5].access"},
		{"deny.example.org", 443, "/x", "POST /admin/users", false, "network_policies.other.endpoints[4].deny_rules[0]"},
		{"part.example.org", 443, "/x", "GET /v1/x", true, "network_policies.other.endpoints[6].access"},
		{"part.example.org", 443, "/x", "GET /v2/x", false, "none"},
	} {
		q := policy.Request{Host: c.host, Port: c.port, Binary: c.binary}
		q.Method, q.Path, _ = strings.Cut(c.request, " ")
		var query string
		q.Path, query, _ = strings.Cut(q.Path, "?")
		q.Query = map[string][]string{}
		for pair := range strings.SplitSeq(query, "&") {
			if k, v, ok := strings.Cut(pair, "="); ok {
				q.Query[k] = append(q.Query[k], v)
			}
		}
		got := p.ExplainRequest(q)
		if got.Allowed != c.allowed || got.Rule != c.rule || got.Reason == "" {
			t.Errorf("%s:%d %s %q: %+v, want %v by %s", c.host, c.port, c.binary, c.request, got, c.allowed, c.rule)
		}
	}
}

// TestContent: content is read if rules need it, after the request has its
// canonical form. Content that cannot be read is denied.
func TestContent(t *testing.T) {
	t.Parallel()
	p := parse(t, requests)
	says := func(kind policy.Operation) *policy.Facts {
		return &policy.Facts{Protocol: policy.GraphQL, Operations: []policy.GraphQLOperation{{Type: kind, Fields: []string{"a"}}}}
	}
	for _, c := range []struct {
		request, query, refusal string
		facts                   *policy.Facts
		asked                   bool
		want                    policy.Explanation
	}{
		{"POST /x/../graphql", "", "", says(policy.OperationQuery), true, policy.Explanation{Allowed: true, Rule: "network_policies.github.endpoints[1].access", Reason: "the rule allows it"}},
		{"POST /graphql", "", "", says(policy.OperationMutation), true, policy.Explanation{Rule: "network_policies.github.endpoints[1]", Reason: `no rule of the entry allows the mutation of the field "a"`}},
		{"POST /graphql", "", "no JSON", nil, true, policy.Explanation{Rule: "request", Reason: "no JSON"}},
		{"POST /graphql", "a;b", "no JSON", nil, false, policy.Explanation{Rule: "request", Reason: "the query could be read in two ways"}},
		{"CONNECT /graphql", "", "no JSON", nil, false, policy.Explanation{Rule: "request", Reason: "CONNECT within a connection to a host"}},
		{"GET /user", "", "no JSON", nil, false, policy.Explanation{Allowed: true, Rule: "network_policies.github.endpoints[0].rules[1]", Reason: "the rule allows it"}},
	} {
		asked := false
		s := policy.SentRequest{RawQuery: c.query, Request: policy.Request{Host: "api.github.com", Port: 443}}
		s.Method, s.Path, _ = strings.Cut(c.request, " ")
		s.Content = func(as policy.Inspection, s policy.SentRequest) (*policy.Facts, string) {
			asked = true
			if as.Protocol != policy.GraphQL || as.MaxBody != policy.DefaultMaxBody || s.Path != "/graphql" {
				t.Errorf("%s is to be read as %+v with the path %s", c.request, as, s.Path)
			}
			return c.facts, c.refusal
		}
		if diff := cmp.Diff(c.want, p.ExplainSent(s)); diff != "" || asked != c.asked {
			t.Errorf("%s: asked for its content: %v; %s", c.request, asked, diff)
		}
	}
	s := policy.SentRequest{Request: policy.Request{Host: "api.github.com", Port: 443, Method: "POST", Path: "/graphql"}}
	if x := p.ExplainSent(s); x.Allowed || !strings.Contains(x.Reason, "give --body") {
		t.Errorf("without content: %+v", x)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	p := parse(t, "version: 1\ncredentials: {c: {endpoints: [{host: '*.a.b', ports: [1, 2], path: '/x/**'}], expose_as: C, replace_in_headers: [Authorization]}}")
	e := &p.Credentials[0].Endpoints[0]
	if !e.Covers("h.a.b", 2, "/x/y") || e.Covers("a.b", 2, "/x/y") || e.Covers("h.a.b", 3, "/x/y") || e.Covers("h.a.b", 2, "/y") {
		t.Error("a credential goes where it must not, or not where it may")
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ protocol, access, want string }{
		{"rest", "read-only", "GET HEAD OPTIONS POST"},
		{"rest", "read-write", "GET HEAD OPTIONS POST PUT PATCH"},
		{"rest", "full", "*"},
		{"websocket", "read-only", "GET"},
		{"websocket", "read-write", "GET WEBSOCKET_TEXT"},
		{"websocket", "full", "*"},
		{"graphql", "read-only", "query"},
		{"graphql", "read-write", "query mutation"},
		{"graphql", "full", "*"},
	} {
		p := parse(t, "version: 1\nnetwork_policies: {n: {endpoints: [{host: a.b, port: 1, protocol: "+c.protocol+", access: "+c.access+"}], binaries: [{path: /b}]}}")
		allow, _ := p.Network[0].Endpoints[0].Effective()
		var got []string
		for _, r := range allow {
			got = append(got, r.Method.String()+r.Operation.String())
		}
		if d := cmp.Diff(c.want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s of %s: %s", c.access, c.protocol, d)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	a := parse(t, "version: 1\nlimits: {memory: 1GiB, pids: 5}\nprocess: {run_as_user: '7'}\nnetwork_policies: {n: {endpoints: [{host: a.b, port: 1}], binaries: [{path: /b}]}}")
	b := parse(t, "version: 1\nlimits: {memory: 2GiB}\nfilesystem_policy: {read_only: [/usr]}\nnetwork_policies: {n: {endpoints: [{host: a.b, ports: [1, 2]}], binaries: [{path: /b}, {path: /c}]}}")
	want := []policy.Difference{
		{Path: "process.run_as_user", Old: `"7"`, New: "sandbox"},
		{Path: "limits.memory", Old: "1GiB", New: "2GiB"},
		{Path: "limits.pids", Old: "5"},
		{Path: "network_policies.n.endpoints[0].ports", Old: "[1]", New: "[1, 2]"},
		{Path: "network_policies.n.binaries[1].path", New: "/c"},
		{Path: "filesystem_policy.include_workdir", New: "true"},
		{Path: "filesystem_policy.read_only", New: "[/usr]"},
		{Path: "filesystem_policy.read_write", New: "[]"},
	}
	if d := cmp.Diff(want, policy.Diff(a, b)); d != "" {
		t.Error(d)
	}
	if d := policy.Diff(a, a); d != nil {
		t.Errorf("a policy differs from itself: %v", d)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	p := parse(t, "version: 1\nlimits: {memory: 1MiB, cpus: 1.5, wall_time: 2s}\nenvironment: {set: {A: \"x\\ny\"}}")
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"version":1,` +
		`"process":{"run_as_user":"sandbox","run_as_group":"sandbox","allow_syscalls":[]},` +
		`"limits":{"memory":1048576,"cpus":1.5,"wall_time_us":2000000},"environment":{"inherit":[],"set":{"A":"x\ny"}}}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{
		"1": 1, "1B": 1, "1kB": 1000, "1K": 1024, "10M": 10 << 20, "1.5G": 3 << 29, "1T": 1 << 40, "1KiB": 1024, "1.5GiB": 3 << 29, "2MB": 2e6, "1TiB": 1 << 40, "1024TiB": 1 << 50,
		"": 0, "0": 0, "1k": 0, "1m": 0, "1 GiB": 0, "0.1B": 0, "-1": 0, "1e3": 0, "99999999999TiB": 0, ".5GiB": 0, "1.GiB": 0, "1/2GiB": 0,
	} {
		if got, err := policy.ParseSize(s); got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseSize(%q) = %d, %v", s, got, err)
		}
	}
	for s, want := range map[string]int64{"1": 1000, "1.5": 1500, "0.125": 125, "0.01": 10, "0": 0, "0.001": 0, "1.2345": 0, "x": 0, "": 0} {
		if got, err := policy.ParseCPUs(s); got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseCPUs(%q) = %d, %v", s, got, err)
		}
	}
	for s, want := range map[string]int64{"1": 1, "256": 256, "0": 0, "-1": 0, "01": 0, "1.5": 0, "99999999": 0} {
		if got, err := policy.ParsePIDs(s); got != want || (err == nil) != (want > 0) {
			t.Errorf("ParsePIDs(%q) = %d, %v", s, got, err)
		}
	}
	for s, want := range map[string]time.Duration{"30m": 30 * time.Minute, "1h30m": 90 * time.Minute, "1.5s": 1500 * time.Millisecond} {
		if got := parse(t, "version: 1\nlimits: {wall_time: "+s+"}").Limits.WallTime; got != want {
			t.Errorf("wall_time %s = %v", s, got)
		}
	}
}
