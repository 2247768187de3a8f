package preset

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
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
		text, _ := Text(t.Context(), name, nil, nil)
		if s := Summary(name); len(s) < 10 || len(s) > 80 || strings.ContainsAny(s, "#\n") {
			t.Errorf("%s: the summary is %q", name, s)
		}
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
	if text, _ := Text(t.Context(), "nobody", nil, nil); Known("nobody") || Known("../preset") || text != nil {
		t.Error("a preset that does not exist is known")
	}
}

func TestOfflineIsTheDefault(t *testing.T) {
	t.Parallel()
	text, _ := Text(t.Context(), "offline", nil, nil)
	p, err := policy.Parse("offline", text, policy.Options{})
	if err != nil || p.Hash() != policy.Default().Hash() {
		t.Errorf("%v", err)
	}
}

// dev gives the file of dev on a host whose tools say what is given; cargo is
// its configuration, and said["config.json"] what its index said once.
func dev(t *testing.T, said map[string]string, env map[string]string, cargo string, addrs ...netip.Addr) *policy.Policy {
	t.Helper()
	h := &tools{
		Run: func(_ context.Context, q question) (string, string, bool) {
			text, ok := said[q.tool]
			if q.tool == "cargo" && q.args[0] == "fetch" {
				return "", text, false
			}
			return text, "", ok
		},
		Getenv: func(name string) string { return env[name] },
		Glob: func(pattern string) ([]string, error) {
			return []string{strings.Replace(pattern, "*", "other.example-1", 1), strings.Replace(pattern, "*", "c.example-1", 1)}, nil
		},
		ReadFile: func(name string) ([]byte, error) {
			switch {
			case cargo != "" && strings.HasSuffix(name, "/config.toml"):
				return []byte(cargo), nil
			case strings.HasSuffix(name, "/c.example-1/config.json"):
				return []byte(said["config.json"]), nil
			case strings.HasSuffix(name, "/config.json"):
				return []byte(`{"dl": "https://wrong.example"}`), nil
			}
			return nil, fs.ErrNotExist
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
	text, _ = h.dev(t.Context(), text, false)
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
		"none":           {},
		"pip's own":      {said: map[string]string{"pip3": "", "python3": "https://i.example/simple https://f.example\n"}, hosts: "i.example:443 f.example:443"},
		"pip says none":  {said: map[string]string{"pip3": ""}},
		"no pip":         {said: map[string]string{"python3": "https://i.example/simple"}},
		"cargo's own":    {said: map[string]string{"cargo": "error: x\n\nCaused by:\n  failed to download from `https://c.example/config.json`\n"}, hosts: "c.example:443"},
		"cargo with git": {said: map[string]string{"cargo": "  failed to fetch `https://g.example/index`\n"}, hosts: "g.example:443"},
		"cargo's record": {
			said:  map[string]string{"cargo": "failed to download from `https://c.example/config.json`", "config.json": `{"dl": "https://d.example/{crate}"}`},
			hosts: "c.example:443 d.example:443",
		},
		"cargo's record of nonsense": {said: map[string]string{"cargo": "failed to fetch `https://c.example`", "config.json": `{"dl": 1}`}, hosts: "c.example:443"},
		"cargo says none":            {said: map[string]string{"cargo": "failed to fetch"}},
		"in the file already":        {said: map[string]string{"npm": "https://github.com/"}, vars: "npm_config_registry=https://github.com/"},
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
		"npm":        {said: map[string]string{"npm": "http://n.example:4873/\n"}, hosts: "http://n.example:4873", vars: "npm_config_registry=http://n.example:4873/"},
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
			said: map[string]string{"cargo": "failed to fetch `https://own.example`"}, hosts: "own.example:443",
			cargo: "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nreplace-with = \"crates-io\"\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dev(t, c.said, c.env, c.cargo)
			var hosts, vars []string
			for _, n := range p.Network {
				for _, e := range n.Endpoints {
					if n.Key != "code_hosts" && n.Key != "crate_files" {
						text := e.Host.String() + ":" + portText(e.Ports[0])
						if e.TLS == policy.TLSOff {
							text = "http://" + text
						}
						hosts = append(hosts, text)
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

// TestAddressesAreNoPolicy: where a mirror is never becomes part of the policy.
func TestAddressesAreNoPolicy(t *testing.T) {
	t.Parallel()
	p := dev(t, map[string]string{"npm": "https://n.example/"}, nil, "", netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("127.0.0.1"))
	for _, n := range p.Network {
		for _, e := range n.Endpoints {
			if len(e.AllowedIPs) > 0 {
				t.Errorf("%s: %v", e.Host, e.AllowedIPs)
			}
		}
	}
}

// TestMirrors: in the sources of apt each way to name a mirror is understood, and what is
// switched off does not count. Addresses are looked for only of what apt is set to use.
func TestMirrors(t *testing.T) {
	t.Parallel()
	const own = "deb.debian.org:80 deb.debian.org:443 security.debian.org:80 security.debian.org:443"
	for name, c := range map[string]struct {
		files map[string]string
		hosts string
		pins  string
	}{
		"no apt":        {},
		"no place":      {files: map[string]string{"/etc/apt/sources.list": "# deb http://a.example x main\ndeb\ndeb cdrom:[x]/ y\n"}, hosts: own},
		"lines":         {files: map[string]string{"/etc/apt/sources.list": "deb [arch=amd64 signed-by=/x] https://a.example/debian x main\n  deb-src http://b.example:3142/y x\n"}, hosts: own + " a.example:443 b.example:3142", pins: "a.example b.example"},
		"tabs":          {files: map[string]string{"/etc/apt/sources.list": "deb\thttps://a.example/debian\tx\tmain\ndeb\t[arch=amd64\tlang=en]\thttp://b.example x main\n"}, hosts: own + " a.example:443 b.example:80", pins: "a.example b.example"},
		"Debian's":      {files: map[string]string{"/etc/apt/sources.list": "deb http://deb.debian.org/debian x main\n"}, hosts: own, pins: "deb.debian.org"},
		"a list":        {files: map[string]string{"/etc/apt/sources.list.d/a.list": "deb mirror+file:/etc/apt/m.list x main\n", "/etc/apt/m.list": "http://m.example/debian priority:1\n\nhttps://n.example/debian\n"}, hosts: own + " m.example:80 n.example:443", pins: "m.example n.example"},
		"a lost list":   {files: map[string]string{"/etc/apt/sources.list": "deb mirror+file:/none x main\n"}},
		"a served list": {files: map[string]string{"/etc/apt/sources.list": "deb mirror+https://m.example/list x main\n"}, hosts: own + " m.example:443", pins: "m.example"},
		"stanzas": {
			files: map[string]string{"/etc/apt/sources.list.d/a.sources": "Types: deb\nURIs: http://a.example/x\n# a comment\n  http://b.example/y\nSuites: z\n\nURIs: http://off.example\nEnabled: no\n\nuris:http://c.example\nEnabled: yes\n"},
			hosts: own + " a.example:80 b.example:80 c.example:80", pins: "a.example b.example c.example",
		},
		"nonsense": {files: map[string]string{"/etc/apt/sources.list": "deb [\ndeb ] \x1b x\n", "/etc/apt/sources.list.d/a.sources": ":\n : \nURIs\n\x00"}, hosts: own},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := fileTools(c.files)
			base, err := files.ReadFile("policies/dev.yaml")
			if err != nil {
				t.Fatal(err)
			}
			text, list := h.dev(t.Context(), base, true)
			p, err := policy.Parse("dev", text, policy.Options{})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			var hosts, pins []string
			for _, n := range p.Network {
				for _, e := range n.Endpoints {
					if n.Key == "apt_registry" {
						hosts = append(hosts, e.Host.String()+":"+portText(e.Ports[0]))
						if e.Access != policy.ReadOnly {
							t.Errorf("%s may be written", e.Host)
						}
					}
				}
			}
			for _, r := range list {
				if len(r.Addrs) > 0 {
					pins = append(pins, r.Host)
				}
			}
			if diff := cmp.Diff(set(c.hosts), set(strings.Join(hosts, " "))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(set(c.pins), set(strings.Join(pins, " "))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEnvironment: tools are found by the PATH of the given environment, and run in it.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/npm", []byte("#!/bin/sh\necho \"$REGISTRY\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "given", "relative:" + dir: "given", "": "", "/nowhere": ""} {
		h := &tools{env: []string{"REGISTRY=not this", "REGISTRY=given", "PATH=" + path}}
		out, _, ok := h.withDefaults().Run(t.Context(), question{tool: "npm"})
		if got := strings.TrimSpace(out); got != want || ok != (want != "") {
			t.Errorf("with PATH=%q: %q %v, want %q", path, got, ok, want)
		}
	}
}

// TestWrittenTool: a tool that a cell can have written is not started, and no tool starts
// a program of the cell's.
func TestWrittenTool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"src/.venv/bin/npm":  "#!/bin/sh\n: > " + dir + "/started\n",
		"src/.venv/bin/node": "#!/bin/sh\n: > " + dir + "/started\n",
		"bin/npm":            "#!/bin/sh\nnode || echo https://registry.example\n",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h := &tools{
		env:    []string{"PATH=" + dir + "/src/.venv/bin:" + dir + "/bin"},
		closed: func() ([]string, error) { return []string{dir + "/src"}, nil },
	}
	out, _, ok := h.withDefaults().Run(t.Context(), question{tool: "npm"})
	if strings.TrimSpace(out) != "https://registry.example" || !ok {
		t.Errorf("npm says %q, %v", out, ok)
	}
	if _, err := os.Stat(dir + "/started"); err == nil {
		t.Error("a program of the cell was started")
	}
}

// fileTools is a host that has some files and no tool. Every name has an address.
func fileTools(has map[string]string) *tools {
	return &tools{
		Run:    func(context.Context, question) (string, string, bool) { return "", "", false },
		Getenv: func(string) string { return "" },
		Glob: func(pattern string) (names []string, err error) {
			for name := range has {
				if ok, _ := path.Match(pattern, name); ok {
					names = append(names, name)
				}
			}
			return names, nil
		},
		ReadFile: func(name string) ([]byte, error) {
			if text, ok := has[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
		},
	}
}

// FuzzApt: what sources say never breaks the file.
func FuzzApt(f *testing.F) {
	f.Add("deb [arch=amd64] http://a.example/debian x main\n", "Types: deb\nURIs: http://a.example/x\n http://b.example\nEnabled: no\n")
	f.Add("deb mirror+file:/etc/apt/sources.list x\n", "URIs: mirror+file:/etc/apt/sources.list.d/a.sources\n")
	f.Fuzz(func(t *testing.T, lines, stanzas string) {
		text, _ := fileTools(map[string]string{"/etc/apt/sources.list": lines, "/etc/apt/sources.list.d/a.sources": stanzas}).dev(t.Context(), []byte("version: 1\nnetwork_policies:\n  a: { endpoints: [{ host: a.example, port: 443 }], binaries: [{ path: /a }] }\n"), true)
		if _, err := policy.Parse("dev", text, policy.Options{}); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	})
}

// FuzzCargo: what a configuration says never breaks the file.
func FuzzCargo(f *testing.F) {
	f.Add("[source.crates-io]\nreplace-with = 'm'\n[source.m]\nregistry = \"sparse+https://c.example/\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		dev(t, map[string]string{"cargo": text, "config.json": text, "npm": text, "go": text, "pip3": text, "python3": text}, nil, text)
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

// TestRealTools: what this host's tools answer is understood. Which of them it
// has, and what they say, is the host's own.
func TestRealTools(t *testing.T) {
	t.Parallel()
	h := (&tools{}).withDefaults()
	if _, ok := h.ask(t.Context(), "cargo", "--version"); ok {
		if place := h.cargoDefault(t.Context()); !strings.HasPrefix(place, "https://") {
			t.Errorf("cargo names %q", place)
		}
	}
	if _, ok := h.ask(t.Context(), "python3", "-c", "import pip"); ok {
		if places := h.pipDefaults(t.Context()); len(places) != 2 || !strings.HasPrefix(places[1], "https://") {
			t.Errorf("pip names %q", places)
		}
	}
}
