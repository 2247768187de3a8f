package preset

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/policy"
)

func TestEveryPresetIsValid(t *testing.T) {
	t.Parallel()
	want := []string{"aider", "claude-code", "codex", "dev", "gemini-cli", "offline", "opencode"}
	if diff := cmp.Diff(want, Names()); diff != "" {
		t.Error(diff)
	}
	for _, name := range Names() {
		text := Text(t.Context(), name)
		p, err := policy.Parse(name, text, policy.Options{})
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		for _, n := range p.Network {
			for _, e := range n.Endpoints {
				if e.Protocol == policy.TCP || e.Access == policy.Full || e.TLS == policy.TLSSkip {
					t.Errorf("%s: %s is not read, or may do everything", name, e.Host)
				}
			}
		}
	}
	if Known("nobody") || Known("../preset") || Text(t.Context(), "nobody") != nil {
		t.Error("a preset that does not exist is known")
	}
}

func TestOfflineIsTheDefault(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("offline", Text(t.Context(), "offline"), policy.Options{})
	if err != nil || p.Hash() != policy.Default().Hash() {
		t.Errorf("%v", err)
	}
}

// dev gives the file of dev on a host whose tools say what is given.
func dev(t *testing.T, said map[string]string, env map[string]string, cargo string, addrs ...netip.Addr) *policy.Policy {
	t.Helper()
	h := &tools{
		Run: func(_ context.Context, tool string, _ ...string) (string, bool) {
			text, ok := said[tool]
			return text, ok
		},
		Getenv: func(name string) string { return env[name] },
		ReadFile: func(name string) ([]byte, error) {
			if cargo == "" || !strings.HasSuffix(name, "/config.toml") {
				return nil, fs.ErrNotExist
			}
			return []byte(cargo), nil
		},
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			if len(addrs) == 0 {
				return nil, errors.New("no such host")
			}
			return append([]netip.Addr{}, addrs...), nil
		},
	}
	text, err := files.ReadFile("policies/dev.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = extended(text, h.registries(t.Context()))
	p, err := policy.Parse("dev", text, policy.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

func TestRegistries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said  map[string]string
		env   map[string]string
		cargo string
		hosts string // that may be read
		vars  string
	}{
		"none": {},
		"defaults": {
			said:  map[string]string{"pip3": "", "cargo": "cargo 1.2"},
			hosts: "pypi.org:443 files.pythonhosted.org:443 index.crates.io:443 static.crates.io:443",
		},
		"go": {
			said:  map[string]string{"go": "https://a.example,https://b.example:1|direct\nsum.example\n"},
			hosts: "a.example:443 b.example:1 sum.example:443",
			vars:  "GOPROXY=https://a.example,https://b.example:1|direct GOSUMDB=sum.example",
		},
		"go with a database elsewhere": {
			said:  map[string]string{"go": "off\nsum.example+12+key https://db.example/x\n"},
			hosts: "db.example:443", vars: "GOPROXY=off GOSUMDB=sum.example+12+key https://db.example/x",
		},
		"go without": {said: map[string]string{"go": "direct\noff\n"}, vars: "GOPROXY=direct GOSUMDB=off"},
		"npm":        {said: map[string]string{"npm": "http://n.example:4873/\n"}, hosts: "n.example:4873", vars: "npm_config_registry=http://n.example:4873/"},
		"this host":  {said: map[string]string{"npm": "http://localhost:4873/\n", "go": "http://127.0.0.1:1\noff"}, vars: "GOPROXY=http://127.0.0.1:1 GOSUMDB=off npm_config_registry=http://localhost:4873/"},
		"a password": {said: map[string]string{"npm": "https://me:word@n.example/\n"}, hosts: "n.example:443"},
		"nonsense":   {said: map[string]string{"npm": "undefined\n", "go": "\x1b[31m\n", "pip3": "global.index-url='ftp://x'\n"}, vars: "PIP_INDEX_URL=ftp://x npm_config_registry=undefined"},
		"injection":  {said: map[string]string{"npm": "https://a.example\"}]/\n"}, vars: ""},
		"pip": {
			said:  map[string]string{"pip3": "global.index-url='https://p.example/simple'\nglobal.extra-index-url='https://q.example\\nhttps://r.example'\n"},
			hosts: "p.example:443 q.example:443 r.example:443", vars: "PIP_EXTRA_INDEX_URL=https://q.example https://r.example PIP_INDEX_URL=https://p.example/simple",
		},
		"pip by a variable": {env: map[string]string{"PIP_INDEX_URL": "https://v.example"}, hosts: "v.example:443", vars: "PIP_INDEX_URL=https://v.example"},
		"cargo": {
			said: map[string]string{"cargo": ""}, hosts: "c.example:443",
			cargo: "[source.crates-io]\nreplace-with = 'm'\n[source.m]\nregistry = \"sparse+https://c.example/\"\n[net]\nregistry = \"https://no.example\"\n",
		},
		"cargo in a circle": {
			said: map[string]string{"cargo": ""}, hosts: "index.crates.io:443 static.crates.io:443",
			cargo: "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nreplace-with = \"crates-io\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dev(t, c.said, c.env, c.cargo)
			var hosts, vars []string
			for _, n := range p.Network {
				for _, e := range n.Endpoints {
					if n.Key != "code_hosts" {
						hosts = append(hosts, e.Host.String()+":"+portText(e.Ports[0]))
						if e.Access != policy.ReadOnly {
							t.Errorf("%s may be written", e.Host)
						}
					}
				}
			}
			for _, v := range p.Environment.Set {
				vars = append(vars, v.Name+"="+v.Value)
			}
			if diff := cmp.Diff(set(c.hosts), set(strings.Join(hosts, " "))); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(vars, " "); got != c.vars {
				t.Errorf("variables %q, want %q", got, c.vars)
			}
		})
	}
}

func TestPrivateMirror(t *testing.T) {
	t.Parallel()
	said := map[string]string{"npm": "https://n.example/"}
	one, two := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("93.184.216.34")
	for _, c := range []struct {
		addrs []netip.Addr
		want  int
	}{{[]netip.Addr{one, two}, 2}, {[]netip.Addr{two}, 0}, {[]netip.Addr{netip.MustParseAddr("127.0.0.1")}, 0}, {[]netip.Addr{one, one}, 1}} {
		p := dev(t, said, nil, "", c.addrs...)
		for _, n := range p.Network {
			if n.Key == "npm_registry" && len(n.Endpoints[0].AllowedIPs) != c.want {
				t.Errorf("%v: %v", c.addrs, n.Endpoints[0].AllowedIPs)
			}
		}
	}
}

// FuzzCargo: what a configuration says never breaks the file.
func FuzzCargo(f *testing.F) {
	f.Add("[source.crates-io]\nreplace-with = 'm'\n[source.m]\nregistry = \"sparse+https://c.example/\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		dev(t, map[string]string{"cargo": "", "npm": text, "go": text, "pip3": text}, nil, text)
	})
}

func set(s string) map[string]bool {
	out := map[string]bool{}
	for part := range strings.FieldsSeq(s) {
		out[part] = true
	}
	return out
}

func portText(p uint16) string { return strconv.Itoa(int(p)) }
