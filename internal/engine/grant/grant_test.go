package grant

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Grant{
		"/a":     {Path: "/a"},
		"/a/":    {Path: "/a"},
		"/a:ro":  {Path: "/a"},
		"/a:rw":  {Path: "/a", Write: true},
		"/a:x":   {Path: "/a:x"},
		"/a/../": {},
		"a":      {},
		"":       {},
		":rw":    {},
		"/":      {},
		"/a\x00": {},
	} {
		got, err := ParsePath(text)
		if got != want || (err == nil) != (want != Grant{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "A=1", "A*", "A\x00"} {
		if _, err := ParseEnv(text); err == nil {
			t.Errorf("the name %q passes", text)
		}
	}
	for _, text := range []string{"", "BPF", "a-b", "*", strings.Repeat("a", 65)} {
		if _, err := ParseSyscall(text); err == nil {
			t.Errorf("the system call %q passes", text)
		}
	}
}

func TestHarmless(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"LANG": true, "LC_ALL": true, "LC_X": true, "TERM": true, "TZ": true, "COLORTERM": true, "NO_COLOR": true, "CI": true,
		"GITHUB_TOKEN": false, "PATH": false, "lang": false, "CI_TOKEN": false, "LC": false, "": false,
	} {
		if Harmless(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	hash := "sha256:" + strings.Repeat("a", 64)
	l := List{
		{Path: "/srv"},
		{Path: "/srv/w", Write: true},
		{Env: "A"},
		{Path: "/hash", Policy: hash},
		{Env: "DIR", Policy: "/pol/"},
		{Syscall: "bpf"},
		{Syscall: "mount", Policy: "/pol/"},
		{Address: netip.MustParsePrefix("10.0.0.0/8")},
	}
	any := l.For(Subject{})
	for _, c := range []struct {
		path  string
		write bool
		by    string
	}{
		{"/srv", false, "/srv"},
		{"/srv/x/y", false, "/srv"},
		{"/srv/x", true, ""},
		{"/srv/w/y", true, "/srv/w"},
		{"/srv/w/y", false, "/srv/w"},
		{"/srvx", false, ""},
		{"/", false, ""},
		{"/hash", false, ""},
	} {
		if g, ok := any.Path(c.path, c.write); g.Path != c.by || ok != (c.by != "") {
			t.Errorf("%s: %+v", c.path, g)
		}
	}
	if _, ok := any.Env("A"); !ok {
		t.Error("a variable is not granted")
	}
	for text, want := range map[string]bool{
		"10.0.0.0/8": true, "10.1.2.0/24": true, "10.0.0.1/32": true, "0.0.0.0/0": false, "11.0.0.1/32": false, "::a00:1/128": false,
	} {
		if _, ok := any.Address(netip.MustParsePrefix(text)); ok != want {
			t.Errorf("%s: %v", text, ok)
		}
	}
	if _, ok := any.Syscall("bpf"); !ok {
		t.Error("a system call is not granted")
	}
	for _, name := range []string{"", "A", "mount"} {
		if _, ok := any.Syscall(name); ok {
			t.Errorf("the system call %q is granted", name)
		}
	}
	for _, name := range []string{"", "B", "DIR", "bpf"} {
		if _, ok := any.Env(name); ok {
			t.Errorf("%q is granted", name)
		}
	}
	if _, ok := l.For(Subject{Hash: hash}).Path("/hash/x", false); !ok {
		t.Error("the policy with the hash is not granted its path")
	}
	for file, want := range map[string]bool{"/pol/p.yaml": true, "/pol/sub/p.yaml": true, "/pol": false, "/policy/p": false, "": false} {
		if _, ok := l.For(Subject{File: file}).Env("DIR"); ok != want {
			t.Errorf("%q: %v", file, ok)
		}
	}
}

func TestParseConfig(t *testing.T) {
	t.Parallel()
	hash := "sha256:" + strings.Repeat("0", 64)
	got, err := ParseConfig([]byte("grants:\n- {policy: \"" + hash + "\", path: /srv/x, mode: rw}\n- policy: /pol\u002f\n  env: NAME\n- {policy: /pol/, path: /srv/y/}\n- {policy: /pol/, syscall: bpf}\n- {policy: /pol/, address: fd00::/8}\n"))
	want := List{{Policy: hash, Path: "/srv/x", Write: true}, {Policy: "/pol/", Env: "NAME"}, {Policy: "/pol/", Path: "/srv/y"}, {Policy: "/pol/", Syscall: "bpf"}, {Policy: "/pol/", Address: netip.MustParsePrefix("fd00::/8")}}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, text := range []string{"", "# nothing\n", "grants: []\n", "{}\n"} {
		if got, err := ParseConfig([]byte(text)); len(got) > 0 || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"grants: x\n":                   "line 1: grants must be a list",
		"[]\n":                          "must be a mapping",
		"a: 1\n":                        `line 1: unknown key "a"`,
		"grants: []\ngrants: []\n":      "grants",
		"grants: []\n---\ngrants: []\n": "more than one document",
		"grants:\n- {policy: /p/, path: /x, extra: 1}\n":                            `line 2: unknown key "extra"`,
		"grants:\n- {policy: /p/, path: /x, env: A}\n":                              "line 2: a grant has one of the keys path, env, syscall, address",
		"grants:\n- {policy: /p/, syscall: bpf, env: A}\n":                          "line 2: a grant has one of the keys",
		"grants:\n- {policy: /p/}\n":                                                "one of the keys",
		"grants:\n- {policy: /p/, syscall: BPF}\n":                                  "not the name of a system call",
		"grants:\n- {policy: /p/, syscall: bpf, mode: ro}\n":                        "only a path has a mode",
		"grants:\n- {policy: /p/, address: 10.0.0.1/8}\n":                           "write 10.0.0.0/8",
		"grants:\n- {policy: /p/, address: fe80::1%a}\n":                            "not an address or a range",
		"grants:\n- {syscall: bpf}\n":                                               "line 2: policy must be",
		"grants:\n- {path: /x}\n":                                                   "line 2: policy must be",
		"grants:\n- {policy: /p, path: /x}\n":                                       "policy must be",
		"grants:\n- {policy: /, path: /x}\n":                                        "policy must be",
		"grants:\n- {policy: p/, path: /x}\n":                                       "policy must be",
		"grants:\n- {policy: \"sha256:12\", path: /x}\n":                            "policy must be",
		"grants:\n- {policy: /p/, path: x}\n":                                       "not absolute",
		"grants:\n- {policy: /p/, path: /}\n":                                       "the whole host",
		"grants:\n- {policy: /p/, path: /x, mode: r}\n":                             "mode is ro or rw",
		"grants:\n- {policy: /p/, env: A, mode: ro}\n":                              "only a path has a mode",
		"grants:\n- {policy: /p/, env: 1}\n":                                        "line 2: env must be text",
		"grants:\n- {policy: /p/, path: [/x]}\n":                                    "path must be text",
		"grants:\n- &a {policy: /p/, path: /x}\n- *a\n":                             "line 3: must be a mapping",
		"grants:\n- {policy: /p/, path: /x}\n- {policy: /p/, path: /y, path: /z}\n": "path",
	} {
		if got, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, got, err, want)
		}
	}
}

func TestReadConfig(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "config.yaml")
	if _, err := ReadConfig(name); !os.IsNotExist(err) {
		t.Errorf("missing: %v", err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o664: false, 0o602: false} {
		if err := os.WriteFile(name, []byte("grants: []\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConfig(name); (err == nil) != ok {
			t.Errorf("%04o: %v", mode, err)
		}
	}
	if _, err := ReadConfig(filepath.Dir(name)); err == nil {
		t.Error("a directory is read")
	}
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(name, 1, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConfig(name); err == nil || !strings.Contains(err.Error(), "another user") {
			t.Errorf("another user's: %v", err)
		}
	}
}

// FuzzParseConfig: whatever is read has one subject and a policy.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("grants:\n- {policy: /pol/, path: /srv/y/}\n- {policy: /pol/, env: A}\n- {policy: /pol/, syscall: bpf}\n- {policy: /pol/, address: 10.0.0.1}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := ParseConfig(text)
		for _, g := range list {
			subjects := slices.DeleteFunc([]string{g.Path, g.Env, g.Syscall, strings.TrimPrefix(g.Address.String(), "invalid Prefix")}, func(s string) bool { return s == "" })
			if err != nil || g.Policy == "" || len(subjects) != 1 || g.Path == "/" {
				t.Fatalf("%+v, %v", g, err)
			}
		}
	})
}
