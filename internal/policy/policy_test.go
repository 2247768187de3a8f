package policy_test

import (
	"bytes"
	"errors"
	"flag"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/testkit/golden"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// calls knows a few system calls.
type calls struct{}

func (calls) Known(name string) bool { return name == "read" || name == "bpf" }

func (calls) Denied(name string) (string, bool) {
	return "it loads programs into the kernel", name == "bpf"
}

func options() policy.Options {
	return policy.Options{Syscalls: calls{}, Homes: []string{"/home/me"}}
}

func parse(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("p.yaml", []byte(text), options())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// equal compares policies with what their patterns say.
func equal() cmp.Options {
	return cmp.Options{cmpopts.EquateComparable(netip.Prefix{}), cmpopts.EquateEmpty()}
}

func TestGood(t *testing.T) {
	t.Parallel()
	golden.Archive(t, *update, "good", func(t *testing.T, data []byte) []byte {
		p := parse(t, string(data))
		text := p.Canonical()
		again := parse(t, string(text))
		if d := cmp.Diff(p, again, equal()); d != "" {
			t.Errorf("the canonical text means something else: %s", d)
		}
		if p.Hash() != again.Hash() || !strings.HasPrefix(p.Hash(), "sha256:") {
			t.Errorf("hashes %s and %s", p.Hash(), again.Hash())
		}
		return text
	})
}

func TestBad(t *testing.T) {
	t.Parallel()
	golden.Archive(t, *update, "bad", func(t *testing.T, data []byte) []byte {
		_, err := policy.Parse("p.yaml", data, options())
		var e *policy.Error
		if !errors.As(err, &e) {
			t.Fatalf("error %v", err)
		}
		for _, p := range e.Problems {
			if p.Line < 1 || p.Column < 1 || p.File != "p.yaml" || p.Message == "" {
				t.Errorf("%+v", p)
			}
		}
		return []byte(err.Error() + "\n")
	})
}

// Text that a readable file cannot have.
func TestBadBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"not UTF-8":     {"version: 1\nx: \xff", "p.yaml:2:4: the file is not UTF-8"},
		"control":       {"version: 1\n\x01", "p.yaml:2:1: the file holds the control character U+0001; write it as an escape in double quotes"},
		"separator":     {"version: 1 #\u2028x: 1", "p.yaml:1:13: the file holds the character U+2028, which is invisible; write it as an escape in double quotes"},
		"lone CR":       {"version: 1 # x\rlimits: {}", "p.yaml:1:15: the file holds a carriage return without a line feed, which YAML takes for the end of a line"},
		"NUL":           {"version: 1\nenvironment: { set: { A: \"\\0\" } }", "p.yaml:2:26: environment.set.A: holds a NUL character"},
		"too large":     {"version: 1\n#" + strings.Repeat("x", 1<<20), "p.yaml:1:1: the file is larger than 1MiB"},
		"deep":          {"version: 1\nlimits: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "p.yaml:2:40: nested deeper than 32 levels"},
		"bomb":          {"version: 1\nlimits: " + strings.Repeat("[", 500_000), "p.yaml:2:10009: not YAML: exceeded max depth of 10000 while increasing flow level"},
		"drawing":       {"version: 1\n\"a\\u202eb\": 1", "p.yaml:2:1: unknown key \"a\\u202eb\"; known are version, filesystem_policy, landlock, process, limits, environment, network_policies, ceilings, credentials, network_middlewares"},
		"many problems": {"version: 1\nenvironment: { inherit: [" + strings.Repeat("1,", 150) + "] }", "p.yaml:2:26: environment.inherit[0]: must be text, not a number; write \"1\" in quotes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := policy.Parse("p.yaml", []byte(c.in), options())
			if err == nil {
				t.Fatal("accepted")
			}
			first, rest, _ := strings.Cut(err.Error(), "\n")
			if first != c.want {
				t.Errorf("error %s\nwant  %s", first, c.want)
			}
			if name == "many problems" && !strings.HasSuffix(rest, "\nand 50 more") {
				t.Errorf("ends with %q", rest[len(rest)-40:])
			}
		})
	}
}

// A large file is read quickly, whatever its contents.
func TestBounds(t *testing.T) {
	t.Parallel()
	fill := func(head, item, tail string) string {
		n := (1<<18 - len(head) - len(tail)) / len(item)
		return head + strings.Repeat(item, n) + tail
	}
	const network = "version: 1\nnetwork_policies: {n: {binaries: [{path: /b}], endpoints: ["
	for name, c := range map[string]struct{ in, want string }{
		"endpoints": {fill(network, "{host: a.b, port: 1},", "]}}"), "p.yaml:2:21564: network_policies.n.endpoints[1024]: more than 1024 endpoints in all"},
		"paths":     {fill("version: 1\nfilesystem_policy: {read_only: [", "/usr,", "]}"), "p.yaml:2:1313: filesystem_policy.read_only[256]: more than 256 paths"},
		"duplicate": {fill("version: 1\nenvironment: {set: {", "A: x,", "}}"), `p.yaml:2:26: duplicate key "A"; it is first on line 2`},
	} {
		_, err := policy.Parse("p.yaml", []byte(c.in), options())
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if first, _, _ := strings.Cut(err.Error(), "\n"); first != c.want {
			t.Errorf("%s: %s\nwant %s", name, first, c.want)
		}
	}
}

func TestDefault(t *testing.T) {
	t.Parallel()
	d := policy.Default()
	if d.NeedsNetwork() || d.NeedsCredentials() || d.Limits != (policy.Limits{}) || !d.Filesystem.IncludeWorkdir || d.Filesystem.Given {
		t.Errorf("%+v", d)
	}
	if got := parse(t, "version: 1\n"); !bytes.Equal(got.Canonical(), d.Canonical()) {
		t.Errorf("an empty policy is not the default:\n%s", got.Canonical())
	}
}

// Policies with the same meaning have the same text.
func TestOneText(t *testing.T) {
	t.Parallel()
	const rest = "network_policies: {n: {endpoints: [%E], binaries: [{path: /b}]}}"
	endpoint := func(e string) string { return "version: 1\n" + strings.Replace(rest, "%E", e, 1) }
	for _, same := range [][]string{
		{"version: 1", "version: 1\nlimits: {}\nenvironment: {}\nnetwork_policies: {}\ncredentials: {}\nlandlock: {}\nprocess: {}", "version: 1\nenvironment: {inherit: [], set: {}}"},
		{"version: 1\nfilesystem_policy: {}", "version: 1\nfilesystem_policy: {include_workdir: true, read_only: [/proc], read_write: [/tmp, /dev/null]}"},
		{"version: 1\nlimits: {memory: 1GiB}", "version: 1\nlimits: {memory: 1024MiB}", "version: 1\nlimits: {memory: 1073741824}", "version: 1\nlimits: {memory: '1073741824B'}"},
		{"version: 1\nlimits: {wall_time: 90s, cpus: 1.50}", "version: 1\nlimits: {cpus: '1.5', wall_time: 1m30s}"},
		{"version: 1\nprocess: {run_as_user: 5}", "version: 1\nprocess: {run_as_user: '5'}"},
		{"version: 1\nenvironment: {inherit: [B, A]}", "version: 1\nenvironment: {inherit: [A, B, A]}"},
		{
			endpoint("{host: a.b, port: 1}"), endpoint("{host: A.B, ports: [1]}"), endpoint("{host: a.b, port: 1, protocol: tcp, tls: auto, enforcement: enforce}"),
		},
		{
			endpoint("{host: a.b, ports: [2, 1], protocol: rest, rules: [{allow: {method: get, path: /x/}}]}"),
			endpoint("{host: a.b, ports: [1, 2, 1], protocol: rest, path: '**', tls: terminate, rules: [{allow: {method: GET, path: /x, query: {}}}]}"),
		},
		{
			endpoint("{host: a.b, port: 1, protocol: mcp, rules: [{allow: {method: tools/call, tool: x}}]}"),
			endpoint("{host: a.b, port: 1, protocol: mcp, mcp: {strict_tool_names: true}, rules: [{allow: {method: tools/call, params: {name: {any: [x]}}}}]}"),
		},
	} {
		want := parse(t, same[0])
		for _, s := range same[1:] {
			if got := parse(t, s); got.Hash() != want.Hash() {
				t.Errorf("%s\n%s", s, cmp.Diff(string(want.Canonical()), string(got.Canonical())))
			}
		}
	}
}

// The examples for users are valid.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	if len(blocks) < 5 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, b := range blocks {
		example, _, _ := strings.Cut(b, "```")
		if !strings.HasPrefix(example, "version") {
			example = "version: 1\n" + example
		}
		if _, err := policy.Parse("docs/reference/policy.md", []byte(example), policy.Options{}); err != nil {
			t.Errorf("%v\n%s", err, example)
		}
	}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text                 string
		network, credentials bool
	}{
		{"version: 1", false, false},
		{"version: 1\nnetwork_policies: {n: {endpoints: [{host: a.b, port: 1}], binaries: [{path: /b}]}}", true, false},
		{"version: 1\ncredentials: {c: {endpoints: [{host: a.b, port: 1}], expose_as: C, replace_in_headers: [Authorization]}}", false, true},
		{"version: 1\nnetwork_policies: {n: {endpoints: [{host: a.b, port: 1, protocol: rest, access: full, credential_signing: sigv4, signing_service: s3}], binaries: [{path: /b}]}}", true, true},
	} {
		if p := parse(t, c.text); p.NeedsNetwork() != c.network || p.NeedsCredentials() != c.credentials {
			t.Errorf("%s: network %v, credentials %v", c.text, p.NeedsNetwork(), p.NeedsCredentials())
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"good", "bad"} {
		a, err := txtar.ParseFile("testdata/" + name + ".txtar")
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if name == "good" || !strings.HasSuffix(file.Name, ".want") {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := policy.Parse("p", data, policy.Options{})
		if err != nil {
			var e *policy.Error
			if !errors.As(err, &e) || len(e.Problems) == 0 {
				t.Fatalf("error %v", err)
			}
			return
		}
		text := p.Canonical()
		again, err := policy.Parse("p", text, policy.Options{})
		if err != nil {
			t.Fatalf("the canonical text is refused: %v\n%s", err, text)
		}
		if !bytes.Equal(again.Canonical(), text) {
			t.Fatalf("the canonical text has another one:\n%s\n%s", text, again.Canonical())
		}
		if !cmp.Equal(p, again, equal()) {
			t.Fatalf("the canonical text means something else:\n%s", text)
		}
		if _, err := p.MarshalJSON(); err != nil {
			t.Fatal(err)
		}
		if d := policy.Diff(p, again); len(d) != 0 {
			t.Fatalf("equal policies differ: %v", d)
		}
	})
}

// TestEntriesForDifferentBinaries: entries for one host and port must agree only
// where one binary could match both.
func TestEntriesForDifferentBinaries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		one, two string
		ok       bool
	}{
		{"/usr/bin/curl", "/usr/bin/git", true},
		{"/usr/bin/curl", "/usr/bin/curl", false},
		{"/usr/bin/curl", "/usr/bin/*", false},
		{"/usr/bin/python3*", "/usr/bin/python3.11", false},
		{"/usr/bin/python3*", "/usr/bin/git*", true},
		{"/usr/bin/py*", "/usr/bin/python3*", false},
		{"/usr/bin/*", "/opt/**", true},
		{"/**", "/usr/bin/git", false},
		{"/**", "/**", false},
	} {
		for _, other := range []string{"", ", protocol: rest, access: read-only", ", allowed_ips: [10.0.0.1]"} {
			text := "version: 1\nnetwork_policies:\n" +
				"  a: { endpoints: [{ host: git.example, port: 443 }], binaries: [{ path: \"" + c.one + "\" }] }\n" +
				"  b: { endpoints: [{ host: git.example, port: 443" + other + " }], binaries: [{ path: \"" + c.two + "\" }] }\n"
			p, err := policy.Parse("p", []byte(text), policy.Options{})
			if (err == nil) != (c.ok || other == "") {
				t.Errorf("%s and %s, %q: %v", c.one, c.two, other, err)
			}
			if err != nil {
				continue
			}
			if again, err := policy.Parse("p", p.Canonical(), policy.Options{}); err != nil || again.Hash() != p.Hash() {
				t.Errorf("%s and %s: the canonical text: %v", c.one, c.two, err)
			}
		}
	}
}
