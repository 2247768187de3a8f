package injection_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/injection"
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
		if removed, err := s.Unset("codex_auth"); err != nil || removed != want {
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
	if _, err := s.Unset("codex_auth"); err != nil {
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
		func() error { _, err := s.Unset("claude_api_key"); return err },
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
