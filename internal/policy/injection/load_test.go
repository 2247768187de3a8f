package injection_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy/injection"
)

// whole uses every section of the format.
const whole = `# a comment
version = 1
includes = ["more/extra.toml"]

[documents]
common = "rules.md"

[credentials]
codex_auth = "secrets/codex.json"

[credentials.claude_auth]
resolver = "claude-home-credentials-file"
materialization = "ephemeral"
write_back = true
modes = ["strict", "development"]

[credentials.claude_api_key]
source = "env:CLAUDE_KEY"
materialize = "copy"
providers = [
  "claude",
]

[ssh]
enabled = true
known_hosts = "~/.ssh/known_hosts"
identities = ["keys/id_a", "agent:SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"]
hosts = ["git@Example.com", "other.example:2222", "[2001:DB8::1]:22", "example.com:22"]
providers = ["codex"]

[[copies]]
source = "notes"
target = "~/notes"
classification = "public"

[[copies]]
source = "token"
target = "/state/injected/token"
classification = "secret"
modes = ["build"]

[network]
allow_endpoints = ["Example.com:443", "example.com.:0443"]
deny_endpoints = ["[2001:DB8::1]:443"]
`

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := private(t)
	name := write(t, dir, "policy.toml", whole)
	extra := write(t, dir, "more/extra.toml", `version = 1
[credentials.github_hosts]
source = "hosts.yml"
providers = ["codex"]
[documents]
claude = "claude.md"
[network]
allow_endpoints = ["10.1.2.3:8443"]
`)
	got, err := injection.Loader{Names: names(), Home: "/home/ada"}.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	at := func(rel string) string { return filepath.Join(dir, rel) }
	want := &injection.Policy{
		Path:      name,
		Documents: map[string]string{"common": at("rules.md"), "claude": at("more/claude.md")},
		Credentials: map[string]injection.Credential{
			"codex_auth":     {Key: "codex_auth", File: name, Source: at("secrets/codex.json"), Scalar: true},
			"claude_auth":    {Key: "claude_auth", File: name, Resolver: "claude-home-credentials-file", WriteBack: true, Selector: injection.Selector{Modes: []string{"strict", "development"}}},
			"claude_api_key": {Key: "claude_api_key", File: name, Source: "env:CLAUDE_KEY", Copy: true, Selector: injection.Selector{Agents: []string{"claude"}}},
			"github_hosts":   {Key: "github_hosts", File: extra, Source: at("more/hosts.yml"), Selector: injection.Selector{Agents: []string{"codex"}}},
		},
		SSH: &injection.SSH{
			Enabled: true, KnownHosts: "/home/ada/.ssh/known_hosts", Identities: []string{at("keys/id_a"), "agent:SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"}, Selector: injection.Selector{Agents: []string{"codex"}},
			Hosts: []injection.SSHHost{
				{User: "git", Endpoint: injection.Endpoint{Host: "example.com", Port: 22}},
				{Endpoint: injection.Endpoint{Host: "other.example", Port: 2222}},
				{Endpoint: injection.Endpoint{Host: "2001:db8::1", Port: 22}},
				{Endpoint: injection.Endpoint{Host: "example.com", Port: 22}},
			},
		},
		Copies: []injection.Copy{
			{Source: at("notes"), Target: "notes"},
			{Source: at("token"), Target: ".forkcell/injected/token", Secret: true, Selector: injection.Selector{Modes: []string{"build"}}},
		},
		Network: injection.Network{
			Allow: []injection.Endpoint{{Host: "10.1.2.3", Port: 8443}, {Host: "example.com", Port: 443}},
			Deny:  []injection.Endpoint{{Host: "2001:db8::1", Port: 443}},
		},
	}
	got.Sources = nil
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                                        "line 1: version is missing",
		"version = 2":                                             "line 1: version must be 1",
		"version = \"1\"":                                         "version must be 1",
		"version = 0x1":                                           "only decimal integers",
		"version = 1\nversion = 1":                                "line 2",
		"version = 1\nother = true":                               "unknown key other",
		"version = 1\na.b = 1":                                    "dotted keys",
		"version = 1\nincludes = {a = 1}":                         "inline tables",
		"version = 1\nincludes = [\"../x\"]":                      "an include is relative",
		"version = 1\nincludes = [\"/etc/x\"]":                    "an include is relative",
		"version = 1\nincludes = [\"x\"]":                         "does not exist",
		"version = 1\nincludes = [1]":                             "an array holds strings",
		"version = 1\nincludes = 1979-05-27":                      "a value is",
		"version = 1\n[documents]\ncommon = \"\"\"a\"\"\"":        "several lines",
		"version = 1\n[documents]\ncommon = \"a\\nb\"":            "control character",
		"version = 1\n[documents]\nother = \"a\"":                 "unknown key other",
		"version = 1\n[documents]\ncommon = true":                 "must be a string",
		"version = 1\n[[ssh]]":                                    "only copies is",
		"version = 1\n[copies]":                                   "[[copies]]",
		"version = 1\n[other]":                                    "unknown table",
		"version = 1\n[credentials.a.b]":                          "unknown table",
		"version = 1\n[credentials]\nnone = \"x\"":                "unknown key none",
		"version = 1\n[credentials]\ncodex_auth = 1":              "must be a string",
		"version = 1\n[credentials]\ngithub_hosts = \"x\"":        "with providers",
		"version = 1\n[credentials]\ncodex_auth = \"~/.codex/a\"": "where a program keeps its own login",
		"version = 1\n[credentials]\ncodex_auth = \"~/\"":         "where a program keeps its own login",
		"version = 1\n[credentials.none]\nsource = \"x\"":         "unknown credential none",
		"version = 1\n[credentials.codex_auth]":                   "either source or resolver",
		"version = 1\n[credentials.codex_auth]\nsource = \"x\"\nresolver = \"codex-home-auth-file\"":                   "either source or resolver",
		"version = 1\n[credentials.codex_auth]\nresolver = \"claude-home-credentials-file\"":                           "no resolver of codex_auth",
		"version = 1\n[credentials.codex_auth]\nresolver = \"codex-home-auth-file\"\nmaterialization = \"persistent\"": "persistent is refused",
		"version = 1\n[credentials.codex_auth]\nsource = \"x\"\nmaterialization = \"ephemeral\"":                       "belongs to a resolver",
		"version = 1\n[credentials.codex_auth]\nsource = \"x\"\nwrite_back = true":                                     "belongs to a resolver",
		"version = 1\n[credentials.codex_auth]\nsource = \"x\"\nproviders = []":                                        "providers is empty",
		"version = 1\n[credentials.codex_auth]\nsource = \"x\"\nproviders = [\"claude\"]":                              "claude does not use",
		"version = 1\n[credentials.codex_auth]\nsource = \"x\"\nmodes = [\"loose\"]":                                   "unknown or given twice",
		"version = 1\n[credentials.codex_auth]\nsource = \"x\"\nmaterialize = \"file\"":                                "must be one of",
		"version = 1\n[credentials.github_hosts]\nsource = \"x\"":                                                      "needs providers",
		"version = 1\n[credentials]\ncodex_auth = \"x\"\n[credentials.codex_auth]\nsource = \"x\"":                     "line 4",
		"version = 1\n[[copies]]\nsource = \"x\"\ntarget = \"~/x\"":                                                    "classification is missing",
		"version = 1\n[[copies]]\nsource = \"x\"\ntarget = \"~/../x\"\nclassification = \"public\"":                    "without ..",
		"version = 1\n[[copies]]\nsource = \"x\"\ntarget = \"/etc/x\"\nclassification = \"public\"":                    "below ~/",
		"version = 1\n[[copies]]\nsource = \"x\"\ntarget = \"~/.claude.json\"\nclassification = \"public\"":            "is reserved",
		"version = 1\n[[copies]]\nsource = \"x\"\ntarget = \"~/.config\"\nclassification = \"public\"":                 "is reserved",
		"version = 1\n[[copies]]\ntarget = \"~/x\"\nclassification = \"public\"":                                       "source is missing",
		"version = 1\n[network]\nallow_endpoints = [\"*.example.com:443\"]":                                            "is not HOST:PORT",
		"version = 1\n[network]\nallow_endpoints = [\"300.1.1.1:443\"]":                                                "is not HOST:PORT",
		"version = 1\n[network]\nallow_endpoints = [\"example.com\"]":                                                  "is not HOST:PORT",
		"version = 1\n[network]\nallow_endpoints = [\"example.com:0\"]":                                                "is not HOST:PORT",
		"version = 1\n[ssh]\nidentities = [\"a/id\", \"b/id\"]":                                                        "a name that is taken",
		"version = 1\n[ssh]\nidentities = [\"config\"]":                                                                "a name that is taken",
		"version = 1\n[ssh]\nidentities = [\"agent:SHA256:short\"]":                                                    "is not agent: and a fingerprint",
		"version = 1\n[ssh]\nhosts = [\"*.example.com\"]":                                                              "is not HOST, HOST:PORT",
		"version = 1\n[ssh]\nhosts = [\"@example.com\"]":                                                               "is not HOST, HOST:PORT",
		"version = 1\n[ssh]\nhosts = [\"a b@example.com\"]":                                                            "is not HOST, HOST:PORT",
		"version = 1\n[ssh]\nhosts = [\"example.com:0\"]":                                                              "is not HOST, HOST:PORT",
		"version = 1\n[ssh]\nenabled = \"yes\"":                                                                        "must be true or false",
		"version = 1\n[ssh\n":                                                                                          "line 2",
		"version = 1\n\xff":                                                                                            "line",
	} {
		_, err := injection.Loader{Names: names(), Home: "/home/ada"}.Load(write(t, private(t), "p.toml", text))
		if api.KindOf(err) != api.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error of usage with %q", text, err, want)
		}
	}
}

func TestIncludedTwice(t *testing.T) {
	t.Parallel()
	dir := private(t)
	name := write(t, dir, "p.toml", "version = 1\nincludes = [\"a.toml\"]\n")
	write(t, dir, "a.toml", "version = 1\nincludes = [\"p.toml\"]\n")
	_, err := injection.Loader{Names: names()}.Load(name)
	if err == nil || !strings.Contains(err.Error(), "included twice") {
		t.Errorf("a circle of includes: %v", err)
	}
	write(t, dir, "a.toml", "version = 1\n[credentials]\ncodex_auth = \"x\"\n")
	write(t, dir, "p.toml", "version = 1\nincludes = [\"a.toml\"]\n[credentials]\ncodex_auth = \"y\"\n")
	_, err = injection.Loader{Names: names()}.Load(name)
	if err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("one key in two files: %v", err)
	}
}

// TestUntrusted changes one thing about a good policy at a time.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir, file string) error{
		"writable by others": func(_, file string) error { return os.Chmod(file, 0o622) },
		"directory writable": func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"second name":        func(dir, file string) error { return os.Link(file, filepath.Join(dir, "other")) },
		"symbolic link": func(dir, file string) error {
			return errors.Join(os.Rename(file, filepath.Join(dir, "real")), os.Symlink("real", file))
		},
		"directory": func(_, file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
		"FIFO":      func(_, file string) error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)) },
		"file above": func(dir, _ string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		},
		"link above": func(dir, file string) error {
			moved := dir + ".moved"
			return errors.Join(os.Rename(dir, moved), os.Symlink(moved, dir))
		},
	} {
		dir := filepath.Join(private(t), "inner")
		file := write(t, dir, "p.toml", "version = 1\n")
		loader := injection.Loader{Names: names()}
		if _, err := loader.Load(file); err != nil {
			t.Fatalf("%s: without the fault: %v", name, err)
		}
		if err := spoil(dir, file); err != nil {
			t.Fatal(err)
		}
		if _, err := loader.Load(file); api.KindOf(err) != api.Refused {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

func TestForeignOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		// What root owns is another user's to everybody else.
		if _, err := (injection.Loader{Names: names()}).Load("/etc/hostname"); api.KindOf(err) != api.Refused {
			t.Errorf("a file of root: %v, want a refusal", err)
		}
		return
	}
	file := write(t, private(t), "p.toml", "version = 1\n")
	if err := os.Chown(file, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := (injection.Loader{Names: names()}).Load(file); api.KindOf(err) != api.Refused {
		t.Errorf("a file of another user: %v, want a refusal", err)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	open := private(t)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := (injection.Loader{}).Load(filepath.Join(open, "none.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a policy that is not there, where others can write: %v", err)
	}
	if _, err := (injection.Loader{}).Load(filepath.Join(private(t), "none.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a policy that does not exist: %v", err)
	}
}

func TestUnsafeDirective(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Host a\n  User git\n# ProxyCommand x": "",
		"ProxyCommand nc %h":                   "proxycommand",
		"ProxyCommand=nc %h":                   "proxycommand",
		"  \t\"ProxyCommand\" nc":              "proxycommand",
		"Match host a exec \"x\"":              "match exec",
		"Match !exec x":                        "match exec",
		"Match host a":                         "",
		"include other":                        "include",
		"ForwardAgent=yes":                     "forwardagent",
	} {
		if got, err := injection.UnsafeDirective(strings.NewReader(text)); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestPolicyInWorkspace: neither a policy nor a part of one comes from the workspace.
func TestPolicyInWorkspace(t *testing.T) {
	t.Parallel()
	dir := private(t)
	outer := write(t, dir, "p.toml", "version = 1\nincludes = [\"ws/part.toml\"]\n")
	inner := write(t, dir, "ws/part.toml", "version = 1\n")
	loader := injection.Loader{Names: names()}
	if _, err := loader.Load(outer); err != nil {
		t.Fatal(err)
	}
	loader.Workspace = dir + "/ws"
	for _, file := range []string{outer, inner} {
		if _, err := loader.Load(file); api.KindOf(err) != api.Refused || err == nil || !strings.Contains(err.Error(), "is in the workspace") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestInWorkspace: a file of the workspace is refused by whatever name the workspace is
// known, and one beside it is not.
func TestInWorkspace(t *testing.T) {
	t.Parallel()
	dir := private(t)
	beside, inside := write(t, dir, "mine", "text"), write(t, dir, "ws/sub/file", "text")
	if err := os.Symlink("ws", filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	for _, workspace := range []string{dir + "/ws", dir + "/other"} {
		if f, err := injection.OpenPublic(beside, workspace); err != nil {
			t.Error(err)
		} else {
			_ = f.Close() // nothing was written
		}
		for _, open := range []func(string, string) (*os.File, error){injection.OpenPublic, injection.OpenSecret} {
			if _, err := open(inside, workspace); api.KindOf(err) != api.Refused || err == nil || !strings.Contains(err.Error(), "is in the workspace") {
				t.Errorf("%s: %v", workspace, err)
			}
		}
	}
}
