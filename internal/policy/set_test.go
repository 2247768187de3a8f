package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func parsed(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := Parse("test", []byte("version: 1\n"+text), Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

// rest is a policy with one endpoint.
func rest(keys string) string {
	return "network_policies:\n  x:\n    endpoints: [{host: api.example.com, port: 443, " + keys + "}]\n    binaries: [{path: \"/**\"}]\n"
}

func TestUnderFixedParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, a, b, want string }{
		{"nothing", "", "", ""},
		{"limits", "limits: {memory: 1GiB, pids: 10}", "limits: {memory: 2GiB, cpus: 1.5}", "limits: {memory: 1GiB, pids: 10, cpus: 1.5}"},
		{"landlock", "landlock: {compatibility: best_effort}", "", ""},
		{"landlock of both", "landlock: {compatibility: best_effort}", "landlock: {compatibility: best_effort}\nlimits: {pids: 9}", "landlock: {compatibility: best_effort}\nlimits: {pids: 9}"},
		{"required landlock", "landlock: {compatibility: best_effort}", "landlock: {compatibility: hard_requirement}", "landlock: {compatibility: hard_requirement}"},
		{"default and required landlock", "", "landlock: {compatibility: hard_requirement}", "landlock: {compatibility: hard_requirement}"},
		{
			"paths", "filesystem_policy: {read_only: [/usr, /var], read_write: [/var/tmp, /srv]}",
			"filesystem_policy: {include_workdir: false, read_only: [/usr/lib, /srv/a], read_write: [/var]}",
			"filesystem_policy: {include_workdir: false, read_only: [/srv/a, /usr/lib, /var], read_write: [/var/tmp]}",
		},
		{"default paths", "", "filesystem_policy: {read_only: [/usr/lib, /srv], read_write: [/etc]}", "filesystem_policy: {read_only: [/etc, /usr/lib]}"},
		{"system calls", "process: {allow_syscalls: [bpf, mount]}", "process: {allow_syscalls: [bpf]}", "process: {allow_syscalls: [bpf]}"},
		{"variables", "environment: {inherit: [LANG, TERM], set: {A: x}}", "environment: {inherit: [TERM], set: {B: y}}", "environment: {inherit: [TERM], set: {A: x, B: y}}"},
		{"no network", rest("protocol: tcp"), "", ""},
		{"equal rules", rest("protocol: tcp") + "limits: {pids: 9}", rest("protocol: tcp"), rest("protocol: tcp") + "limits: {pids: 9}"},
		{
			"credentials",
			"credentials: {t: {endpoints: [{host: \"*.example.com\", port: 443}], expose_as: T, replace_in_query: [k]}, u: {endpoints: [{host: a.example.com, port: 443}], expose_as: U, replace_in_query: [k]}}",
			"credentials: {t: {endpoints: [{host: a.example.com, ports: [443, 8443], path: /x}, {host: b.example.org, port: 443}], expose_as: T, replace_in_query: [k]}}",
			"credentials: {t: {endpoints: [{host: a.example.com, port: 443, path: /x}], expose_as: T, replace_in_query: [k]}}",
		},
		{
			"places of a credential",
			"credentials: {t: {endpoints: [{host: a.example.com, port: 443}], expose_as: T, replace_in_headers: [A, B], replace_in_query: [k, l], replace_in_body: true}}",
			"credentials: {t: {endpoints: [{host: a.example.com, port: 443}], expose_as: T, replace_in_headers: [b, C], replace_in_query: [l], keep_in_body: true}}",
			"credentials: {t: {endpoints: [{host: a.example.com, port: 443}], expose_as: T, replace_in_headers: [B], replace_in_query: [l]}}",
		},
	} {
		a, b, want := parsed(t, c.a), parsed(t, c.b), parsed(t, c.want)
		for _, pair := range [][2]*Policy{{a, b}, {b, a}} {
			got, err := Under(pair[0], pair[1])
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if got.Digest() != want.Digest() {
				t.Errorf("%s:\n%s\nwant\n%s", c.name, got.Canonical(), want.Canonical())
			}
		}
	}
}

func TestUnderRefused(t *testing.T) {
	t.Parallel()
	credential := func(keys string, endpoints ...string) string {
		return "credentials: {t: {" + keys + ", endpoints: [" + strings.Join(endpoints, ", ") + "]}}"
	}
	const exposed, one = "expose_as: T, replace_in_query: [k]", "{host: a.example.com, port: 443}"
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("{host: a.example.com, port: 443, path: \"/a/%d\"}", i))
	}
	for _, c := range []struct{ name, a, b, says string }{
		{"users", "process: {run_as_user: other}", "", "runs commands as"},
		{"values", "environment: {set: {A: x}}", "environment: {set: {A: y}}", "A to different values"},
		{"exposed and set", "environment: {set: {T: x}}\n" + credential("inject: {header: X}", one), "environment: {set: {T: y}}", "different values"},
		{"credential", credential(exposed, one), credential("expose_as: S, replace_in_query: [k]", one), "the credential t in different ways"},
		{"patterns of a credential", credential(exposed, `{host: a.example.com, port: 443, path: "/a*"}`), credential(exposed, `{host: a.example.com, port: 443, path: "/*b"}`), "not one pattern"},
		{"too many places", credential(exposed, many...), credential(exposed, many[:999]...), "too many endpoints"},
	} {
		a, b := parsed(t, c.a), parsed(t, c.b)
		for _, pair := range [][2]*Policy{{a, b}, {b, a}} {
			if got, err := Under(pair[0], pair[1]); !errors.Is(err, errUnder) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, %v; want %q", c.name, got, err, c.says)
			}
		}
	}
}

// TestUnderKeepsWhatEachSays combines policies for which no single list of rules says what
// both allow.
func TestUnderKeepsWhatEachSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, a, b string }{
		{"protocols", rest("protocol: rest, access: read-only"), rest("protocol: graphql, access: full")},
		{"audit", rest("protocol: rest, access: read-only, enforcement: audit"), rest("protocol: rest, access: read-write")},
		{"patterns", rest(`protocol: rest, rules: [{allow: {method: GET, path: "/a*"}}]`), rest(`protocol: rest, rules: [{allow: {method: GET, path: "/*b"}}]`)},
		{"addresses", rest("allowed_ips: [10.0.0.0/8]"), rest("")},
		{"plain HTTP", rest("protocol: rest, access: full, tls: off"), rest("protocol: rest, access: full")},
		{"signing", rest("protocol: rest, access: full, credential_signing: sigv4, signing_service: s3"), rest("protocol: rest, access: read-only")},
	} {
		a, b := parsed(t, c.a), parsed(t, c.b)
		got, err := Under(a, b)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := *a
		want.Ceilings = [][]NetworkPolicy{b.Network}
		if got.Digest() != want.Digest() {
			t.Errorf("%s:\n%s", c.name, got.Canonical())
		}
		for _, again := range []*Policy{a, b} { // nothing is added twice
			if twice, err := Under(got, again); err != nil || twice.Digest() != got.Digest() {
				t.Errorf("%s: again: %v, %v", c.name, twice, err)
			}
		}
		if !Within(got, a) || !Within(got, b) {
			t.Errorf("%s: it is not within each of them", c.name)
		}
	}
}

// TestUnderManyCeilings: a policy has a bounded number of ceilings, and keeps those of its
// ceilings.
func TestUnderManyCeilings(t *testing.T) {
	t.Parallel()
	p := parsed(t, rest("protocol: rest, access: full"))
	at := func(i int) *Policy {
		return parsed(t, rest(fmt.Sprintf(`protocol: rest, rules: [{allow: {method: GET, path: "/**/%d"}}]`, i)))
	}
	for i := range maxCeilings {
		var err error
		if p, err = Under(at(i), p); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.Ceilings) != maxCeilings {
		t.Errorf("%d ceilings", len(p.Ceilings))
	}
	if _, err := Under(at(maxCeilings), p); !errors.Is(err, errUnder) {
		t.Errorf("one more: %v", err)
	}
}

// drawPolicy draws the network section of a policy in flow style. It is often one
// that Parse refuses.
func drawPolicy(t *rapid.T, name string) *Policy {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name+" "+label) }
	rule := func(protocol string) string {
		switch protocol {
		case "graphql":
			return fmt.Sprintf("operation_type: %s%s", pick("operation", "query", "mutation", `"*"`), pick("fields", "", ", fields: [a]", ", fields: [a, b]", `, fields: ["a*"]`, `, operation_name: N`))
		case "mcp":
			return "method: " + pick("call", "tools/list", "tools/call, tool: x", `tools/call, tool: {any: [x, y]}`, `tools/call, tool: "x*"`, "ping")
		case "json-rpc":
			return "method: " + pick("call", "a", "b", `"*"`)
		case "grpc":
			return fmt.Sprintf(`service: %s, method: %s`, pick("service", "s", `"*"`, `"s*"`), pick("call", "a", "b", `"*"`))
		case "websocket":
			return fmt.Sprintf("method: %s, path: %s", pick("method", "GET", "WEBSOCKET_TEXT", `"*"`), pick("rule path", `"/**"`, `"/a/**"`))
		}
		return fmt.Sprintf("method: %s, path: %s%s", pick("method", "GET", "HEAD", "POST", `"*"`), pick("rule path", `"/**"`, `"/a/**"`, "/a/b", `"/a/*"`, `"/*/b"`),
			pick("query", "", "", ", query: {q: x}", `, query: {q: {any: [x, y]}}`, `, query: {p: "x*"}`))
	}
	endpoint := func() string {
		protocol := pick("protocol", "tcp", "rest", "rest", "rest", "graphql", "mcp", "json-rpc", "grpc", "websocket")
		out := fmt.Sprintf("host: %s, ports: [%s], protocol: %s", pick("host", "api.example.com", `"*.example.com"`, `"**.example.com"`), pick("ports", "443", "443, 8443", "8443"), protocol)
		if protocol == "tcp" {
			return "{" + out + "}"
		}
		out += ", path: " + pick("path", `"/**"`, `"/**"`, `"/**"`, `"/a/**"`, `"/a/b/**"`, "/a/b", `"/*/b"`)
		if rapid.IntRange(0, 5).Draw(t, name+" audit") == 0 {
			out += ", enforcement: audit"
		}
		if presets := protocol == "rest" || protocol == "graphql" || protocol == "websocket"; presets && rapid.Bool().Draw(t, name+" preset") {
			out += ", access: " + pick("access", "read-only", "read-write", "full")
		} else {
			out += fmt.Sprintf(", rules: [{allow: {%s}}, {allow: {%s}}]", rule(protocol), rule(protocol))
		}
		if rapid.IntRange(0, 2).Draw(t, name+" deny") == 0 {
			out += fmt.Sprintf(", deny_rules: [{%s}]", rule(protocol))
		}
		return "{" + out + "}"
	}
	text := "version: 1\nnetwork_policies:\n"
	for i := range rapid.IntRange(1, 2).Draw(t, name+" policies") {
		var endpoints []string
		for range rapid.IntRange(1, 2).Draw(t, name+" endpoints") {
			endpoints = append(endpoints, endpoint())
		}
		text += fmt.Sprintf("  n%d:\n    endpoints: [%s]\n    binaries: [{path: %s}]\n", i, strings.Join(endpoints, ", "), pick("binary", `"/**"`, `"/usr/**"`, "/usr/bin/curl", "/bin/sh"))
	}
	p, err := Parse("test", []byte(text), Options{})
	if err != nil {
		t.Skip(err)
	}
	return p
}

// content is what a request holds, as each protocol would read it.
func drawContent(t *rapid.T) map[Protocol]*Facts {
	fields := rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}, {"ax"}}).Draw(t, "fields")
	op := GraphQLOperation{
		Type: rapid.SampledFrom([]Operation{OperationQuery, OperationMutation}).Draw(t, "type"), Name: rapid.SampledFrom([]string{"", "N"}).Draw(t, "name"), Fields: fields,
	}
	call := rapid.SampledFrom([]Call{{Method: "tools/list"}, {Method: "tools/call", Tool: "x"}, {Method: "tools/call", Tool: "y"}, {Method: "tools/call", Tool: "xx"}, {Method: "ping"}}).Draw(t, "call")
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "method name")
	return map[Protocol]*Facts{
		GraphQL:      {Protocol: GraphQL, Operations: []GraphQLOperation{op}},
		ModelContext: {Protocol: ModelContext, Calls: []Call{call}},
		JSONRPC:      {Protocol: JSONRPC, Calls: []Call{{Method: name}}},
		GRPC:         {Protocol: GRPC, Calls: []Call{{Service: rapid.SampledFrom([]string{"s", "st"}).Draw(t, "service"), Method: name}}},
	}
}

func drawRequest(t *rapid.T) Request {
	return Request{
		Host:   rapid.SampledFrom([]string{"api.example.com", "b.example.com", "x.api.example.com"}).Draw(t, "host"),
		Port:   rapid.SampledFrom([]uint16{443, 8443}).Draw(t, "port"),
		Binary: rapid.SampledFrom([]string{"/usr/bin/curl", "/usr/bin/git", "/bin/sh"}).Draw(t, "binary"),
		Method: rapid.SampledFrom([]string{"GET", "HEAD", "POST", "DELETE", "WEBSOCKET_TEXT"}).Draw(t, "method"),
		Path:   rapid.SampledFrom([]string{"/", "/a", "/a/b", "/a/c", "/b/b", "/a/b/c"}).Draw(t, "path"),
		Query:  rapid.SampledFrom([]map[string][]string{nil, {"q": {"x"}}, {"q": {"x", "y"}}, {"p": {"xx"}, "q": {"x"}}}).Draw(t, "query"),
	}
}

// decided returns a decision about a request whose content is read as the policy wants it.
func decided(p *Policy, q Request, content map[Protocol]*Facts) Explanation {
	q.Facts = content[p.Inspection(q).Protocol]
	return p.ExplainRequest(q)
}

// unlike returns how the decision of two policies together differs from those of each; ""
// if it does not. It may deny what both allow in one case: they read the content as different
// protocols.
func unlike(a, b *Policy, q Request, x, y, z Explanation) string {
	as, bs := a.Inspection(q).Protocol, b.Inspection(q).Protocol
	switch {
	case z.Allowed && !(x.Allowed && y.Allowed):
		return "allowed what one denies"
	case z.Allowed && z.Audited != (x.Audited || y.Audited):
		return "recorded in another way"
	case !z.Allowed && x.Allowed && y.Allowed && (as == TCP || bs == TCP || as == bs):
		return "denied what both allow"
	}
	return ""
}

// TestUnderAllowsWhatEachAllows compares decisions about requests: the policy of two
// allows exactly what each of them allows.
func TestUnderAllowsWhatEachAllows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPolicy(t, "a"), drawPolicy(t, "b")
		set, err := Under(a, b)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, a.Canonical(), b.Canonical())
		}
		for range 30 {
			q := drawRequest(t)
			content := drawContent(t)
			x, y, z := decided(a, q, content), decided(b, q, content), decided(set, q, content)
			if why := unlike(a, b, q, x, y, z); why != "" {
				t.Fatalf("%s: %+v\na: %+v\nb: %+v\nset: %+v\n%s\n%s", why, q, x, y, z, a.Canonical(), b.Canonical())
			}
		}
	})
}

// TestUnderPathsOfEach compares the access to paths with that of each policy.
func TestUnderPathsOfEach(t *testing.T) {
	t.Parallel()
	places := []string{"/usr", "/usr/lib", "/usr/lib/x", "/srv", "/srv/a", "/srv/a/b", "/etc", "/opt/x"}
	rank := map[string]int{AccessAbsent: 0, AccessReadOnly: 1, AccessReadWrite: 2}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) *Policy {
			p := Default()
			if rapid.IntRange(0, 4).Draw(t, name) == 0 {
				return p
			}
			p.Filesystem = Filesystem{Given: true, IncludeWorkdir: rapid.Bool().Draw(t, name+" workdir")}
			for _, dir := range places {
				switch rapid.IntRange(0, 2).Draw(t, name+" "+dir) {
				case 1:
					p.Filesystem.ReadOnly = append(p.Filesystem.ReadOnly, dir)
				case 2:
					p.Filesystem.ReadWrite = append(p.Filesystem.ReadWrite, dir)
				}
			}
			p.Filesystem.ReadOnly, p.Filesystem.ReadWrite = sortedSet(p.Filesystem.ReadOnly), sortedSet(p.Filesystem.ReadWrite)
			return p
		}
		a, b := draw("a"), draw("b")
		both, err := Under(a, b)
		if err != nil {
			t.Fatal(err)
		}
		ctx := PathContext{Workspace: "/home/u/project"}
		for _, dir := range append(places, "/usr/lib/x/y", "/srv/z", "/opt", "/home/u/project/f", "/bin/sh", "/etc/ssl", "/var") {
			x, y, z := a.ExplainPath(dir, ctx), b.ExplainPath(dir, ctx), both.ExplainPath(dir, ctx)
			least := min(rank[x.Access], rank[y.Access])
			// A directory that only leads to a listed path is empty: it may be missing.
			leads := strings.HasPrefix(x.Reason, "an empty directory") || strings.HasPrefix(y.Reason, "an empty directory")
			if rank[z.Access] > least || rank[z.Access] < least && !leads {
				t.Fatalf("%s is %s and %s, together %s\n%s\n%s\n%s", dir, x.Access, y.Access, z.Access, a.Canonical(), b.Canonical(), both.Canonical())
			}
		}
	})
}

// TestUnderSent: a request is refused in the form in which one of the lists refuses it.
func TestUnderSent(t *testing.T) {
	t.Parallel()
	websocket := map[string][]string{"Upgrade": {"websocket"}}
	for _, c := range []struct {
		name, a, b string
		sent       SentRequest
		want       bool
	}{
		{"websocket of one", rest("protocol: rest, access: full"), rest("protocol: websocket, access: full"), SentRequest{Request: Request{Path: "/x"}, Header: websocket}, false},
		{"websocket of both", rest("protocol: websocket, access: full"), rest("protocol: websocket, access: read-write"), SentRequest{Request: Request{Path: "/x"}, Header: websocket}, true},
		{"websocket in a tunnel of the other", rest("protocol: websocket, access: full"), rest(""), SentRequest{Request: Request{Path: "/x"}, Header: websocket}, true},
		{"an encoded slash of one", rest("protocol: rest, access: full, allow_encoded_slash: true"), rest("protocol: rest, access: full"), SentRequest{Request: Request{Path: "/a%2fb"}}, false},
		{"another method by a header", rest("protocol: rest, access: full"), rest("protocol: rest, access: read-only"), SentRequest{Request: Request{Path: "/x"}, Header: map[string][]string{"X-Http-Method-Override": {"DELETE"}}}, false},
		{"plain HTTP of one", rest("protocol: rest, access: full, tls: off"), rest("protocol: rest, access: full"), SentRequest{Request: Request{Path: "/x", Scheme: HTTP}}, false},
		{"TLS of the other", rest("protocol: rest, access: full, tls: off"), rest("protocol: rest, access: full"), SentRequest{Request: Request{Path: "/x", Scheme: HTTPS}}, false},
	} {
		c.sent.Host, c.sent.Port = "api.example.com", 443
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			p, err := Under(parsed(t, pair[0]), parsed(t, pair[1]))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.ExplainSent(c.sent); got.Allowed != c.want {
				t.Errorf("%s: %+v", c.name, got)
			}
		}
	}
}
