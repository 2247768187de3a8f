package injection_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy/injection"
)

func newStore(t *testing.T) injection.Store {
	t.Helper()
	return injection.Store{Loader: injection.Loader{Names: names()}, Path: filepath.Join(private(t), "forkcell", "injection-policy.toml")}
}

func TestStore(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, first := range []bool{true, false} {
		if made, err := s.Init(); err != nil || made != first {
			t.Fatalf("Init: %v, %v", made, err)
		}
	}
	c := injection.Credential{Key: "codex_auth", Source: "/secrets/a \"b\" <c>", Selector: injection.Selector{Agents: []string{"codex"}}}
	if err := s.Set(c); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(injection.Credential{Key: "claude_auth", Resolver: "claude-home-credentials-file", WriteBack: true}); err != nil {
		t.Fatal(err)
	}
	c.Source = "command:[\"pass\",\"codex\"]"
	if err := s.Set(c); err != nil {
		t.Fatal(err)
	}
	p, err := s.Load(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Credentials["codex_auth"].Source; got != c.Source || len(p.Credentials) != 2 || !p.Credentials["claude_auth"].WriteBack {
		t.Errorf("credentials %+v", p.Credentials)
	}
	if info, err := os.Stat(s.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the policy: %v, %v", info.Mode(), err)
	}
	for _, want := range []bool{true, false} {
		if removed, err := s.Unset("codex_auth", ""); err != nil || removed != want {
			t.Errorf("Unset: %v, %v, want %v", removed, err, want)
		}
	}
}

// TestStoreKeepsTheRest checks that comments and other entries stay.
func TestStoreKeepsTheRest(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	write(t, filepath.Dir(s.Path), filepath.Base(s.Path), `# mine
version = 1
includes = ["more.toml"]

[credentials.codex_auth]
source = "a"
providers = [
  "codex", # only
]

# about claude
[credentials.claude_auth]
source = "b"
`)
	write(t, filepath.Dir(s.Path), "more.toml", "version = 1\n[credentials]\nclaude_api_key = \"c\"\n")
	if _, err := s.Unset("codex_auth", ""); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	want := "# mine\nversion = 1\nincludes = [\"more.toml\"]\n\n\n# about claude\n[credentials.claude_auth]\nsource = \"b\"\n"
	if string(text) != want {
		t.Errorf("the policy is now\n%s", text)
	}
	for _, change := range []func() error{
		func() error { _, err := s.Unset("claude_api_key", ""); return err },
		func() error { return s.Set(injection.Credential{Key: "claude_api_key", Source: "/x"}) },
	} {
		if err := change(); api.KindOf(err) != api.Refused || !strings.Contains(err.Error(), "more.toml") {
			t.Errorf("a key of an included file: %v", err)
		}
	}
}

func TestStoreRefusesBadEntries(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if err := s.Set(injection.Credential{Key: "none", Source: "/x"}); api.KindOf(err) != api.Usage {
		t.Errorf("an unknown key: %v", err)
	}
	if p, err := s.Load(s.Path); err != nil || len(p.Credentials) != 0 {
		t.Errorf("after a refused entry: %v, %v", p, err)
	}
}

func TestStoreAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var wg sync.WaitGroup
	for _, key := range []string{"codex_auth", "claude_auth", "claude_api_key"} {
		wg.Go(func() {
			if err := s.Set(injection.Credential{Key: key, Source: "/x"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if p, err := s.Load(s.Path); err != nil || len(p.Credentials) != 3 {
		t.Errorf("%v, %v", p, err)
	}
}

// TestStoreSharedEntry sets a key that several agents use.
func TestStoreSharedEntry(t *testing.T) {
	t.Parallel()
	const key = "github_hosts"
	entry := func(agents string, modes ...string) injection.Credential {
		return injection.Credential{Key: key, Source: "/x", Selector: injection.Selector{Agents: strings.Fields(agents), Modes: modes}}
	}
	changed := func(change func(*injection.Credential)) injection.Credential {
		c := entry("gemini", "build")
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		old, set injection.Credential
		agents   string // "" if it is refused
	}{
		"one more":        {entry("codex", "build"), entry("gemini", "build"), "codex gemini"},
		"order of modes":  {entry("codex", "strict", "build"), entry("gemini", "build", "strict"), "codex gemini"},
		"other modes":     {entry("codex", "build"), entry("gemini"), ""},
		"other source":    {entry("codex", "build"), changed(func(c *injection.Credential) { c.Source = "/y" }), ""},
		"a copy":          {entry("codex", "build"), changed(func(c *injection.Credential) { c.Copy = true }), ""},
		"its own":         {entry("codex", "build"), entry("codex"), "codex"},
		"one of two":      {entry("codex gemini"), entry("codex", "build"), ""},
		"one of two, too": {entry("codex gemini"), entry("codex"), "codex gemini"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			if err := s.Set(c.old); err != nil {
				t.Fatal(err)
			}
			err := s.Set(c.set)
			p, loadErr := s.Load(s.Path)
			if loadErr != nil {
				t.Fatal(loadErr)
			}
			got := p.Credentials[key]
			if c.agents == "" {
				if api.KindOf(err) != api.Refused || !strings.Contains(err.Error(), "also set for") || !slices.Equal(got.Agents, c.old.Agents) || !slices.Equal(got.Modes, c.old.Modes) {
					t.Errorf("%v, %+v", err, got)
				}
				return
			}
			if err != nil || strings.Join(got.Agents, " ") != c.agents || len(got.Modes) != len(c.set.Modes) {
				t.Errorf("%v, %+v", err, got)
			}
		})
	}
	s := newStore(t)
	var wg sync.WaitGroup
	for _, agent := range names().Keys[key] {
		wg.Go(func() {
			if err := s.Set(entry(agent)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if p, err := s.Load(s.Path); err != nil || len(p.Credentials[key].Agents) != 3 {
		t.Errorf("set at once: %+v, %v", p, err)
	}
	if removed, err := s.Unset(key, "codex"); err != nil || !removed {
		t.Errorf("%v, %v", removed, err)
	}
	if p, err := s.Load(s.Path); err != nil || !slices.Equal(p.Credentials[key].Agents, []string{"claude", "gemini"}) {
		t.Errorf("one removed: %+v, %v", p, err)
	}
}

// TestStoreEntryOfAll sets a key of one agent whose entry is for every agent.
func TestStoreEntryOfAll(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.Names.Keys["shared"] = []string{"claude", "codex"}
	for _, key := range []string{"shared", "codex_auth"} {
		if err := s.Set(injection.Credential{Key: key, Source: "/x"}); err != nil {
			t.Fatal(err)
		}
	}
	codex := injection.Selector{Agents: []string{"codex"}}
	if err := s.Set(injection.Credential{Key: "shared", Source: "/x", Selector: codex}); err != nil {
		t.Error(err)
	}
	if err := s.Set(injection.Credential{Key: "shared", Source: "/y", Selector: codex}); api.KindOf(err) != api.Refused {
		t.Error(err)
	}
	if err := s.Set(injection.Credential{Key: "codex_auth", Source: "/y", Selector: codex}); err != nil {
		t.Error(err)
	}
	p, err := s.Load(s.Path)
	if err != nil || len(p.Credentials["shared"].Agents) != 0 || p.Credentials["shared"].Source != "/x" || p.Credentials["codex_auth"].Source != "/y" {
		t.Errorf("%+v, %v", p, err)
	}
}
