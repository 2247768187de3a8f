package credentials_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/policy/injection"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
)

func catalogue(t *testing.T) []*adapter.Entry {
	t.Helper()
	list, err := adapter.NewCatalogue(filepath.Join(t.TempDir(), "none")).All()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func adapterOf(t *testing.T, name string) *adapter.Adapter {
	t.Helper()
	for _, e := range catalogue(t) {
		if e.Adapter.Name == name {
			return e.Adapter
		}
	}
	t.Fatalf("no adapter %s", name)
	return nil
}

// world is a home with a policy.
type world struct {
	t    *testing.T
	home string
}

func newWorld(t *testing.T) world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return world{t, dir}
}

func (w world) write(name, text string) string {
	w.t.Helper()
	full := filepath.Join(w.home, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return full
}

func (w world) request(name, mode, policy string, env ...string) credentials.Request {
	w.t.Helper()
	r := credentials.Request{Adapter: adapterOf(w.t, name), Mode: mode, Host: credentials.Host{Home: w.home, Env: env, Workspace: filepath.Join(w.home, "work")}}
	if policy != "" {
		p, err := injection.Loader{Names: credentials.Vocabulary(catalogue(w.t)), Home: w.home}.Load(w.write("policy.toml", policy))
		if err != nil {
			w.t.Fatal(err)
		}
		r.Policy = p
	}
	return r
}

func TestWhy(t *testing.T) {
	t.Parallel()
	type want struct {
		selected            bool
		how, readiness, has string
	}
	const login = "version = 1\n[credentials.claude_auth]\nresolver = \"claude-home-credentials-file\"\n"
	for name, c := range map[string]struct {
		agent, mode, key, policy string
		env                      []string
		want                     want
	}{
		"no policy":        {"claude", "strict", "claude_api_key", "", nil, want{false, "", credentials.Absent, "not configured in policy"}},
		"not configured":   {"claude", "strict", "claude_api_key", "version = 1\n", nil, want{false, "", credentials.Absent, "not configured in policy"}},
		"other agent's":    {"claude", "strict", "codex_auth", "", nil, want{false, "", credentials.OutOfScope, "not in scope for agent claude"}},
		"caller's":         {"claude", "strict", "claude_api_key", "", []string{"ANTHROPIC_API_KEY=k"}, want{true, "placeholder", credentials.Ready, "ANTHROPIC_API_KEY of the caller is used"}},
		"another variable": {"codex", "strict", "codex_api_key", "", []string{"OPENAI_API_KEY=k"}, want{true, "placeholder", credentials.Ready, "OPENAI_API_KEY of the caller is used"}},
		"caller's, empty":  {"claude", "strict", "claude_api_key", "", []string{"ANTHROPIC_API_KEY="}, want{false, "", credentials.Absent, "not configured"}},
		"scalar":           {"codex", "strict", "codex_api_key", "version = 1\n[credentials]\ncodex_api_key = \"key\"\n", nil, want{true, "placeholder", credentials.Ready, "scalar credential entry is selected"}},
		"missing file":     {"codex", "strict", "codex_api_key", "version = 1\n[credentials]\ncodex_api_key = \"none\"\n", nil, want{true, "placeholder", credentials.ConfiguredOnly, "does not exist"}},
		"open file":        {"codex", "strict", "codex_api_key", "version = 1\n[credentials]\ncodex_api_key = \"open\"\n", nil, want{true, "placeholder", credentials.ConfiguredOnly, "open to others"}},
		"in the workspace": {"codex", "strict", "codex_api_key", "version = 1\n[credentials]\ncodex_api_key = \"work/key\"\n", nil, want{true, "placeholder", credentials.ConfiguredOnly, "is in the workspace"}},
		"other mode":       {"codex", "strict", "codex_api_key", "version = 1\n[credentials.codex_api_key]\nsource = \"key\"\nmodes = [\"build\"]\n", nil, want{false, "", credentials.FilteredMode, "providers not restricted; mode does not match modes"}},
		"other mode, set":  {"codex", "strict", "codex_api_key", "version = 1\n[credentials.codex_api_key]\nsource = \"key\"\nmodes = [\"build\"]\n", []string{"CODEX_API_KEY=k"}, want{false, "", credentials.FilteredMode, "mode does not match modes"}},
		"other provider":   {"gemini", "strict", "github_hosts", "version = 1\n[credentials.github_hosts]\nsource = \"key\"\nproviders = [\"codex\"]\n", nil, want{false, "", credentials.FilteredProvider, "agent does not match providers; modes not restricted"}},
		"copy":             {"codex", "build", "codex_auth", "version = 1\n[credentials.codex_auth]\nsource = \"key\"\nmaterialize = \"copy\"\nmodes = [\"build\"]\n", nil, want{true, "copy", credentials.Ready, "mode matches modes"}},
		"only as a copy":   {"gemini", "strict", "gemini_projects", "version = 1\n[credentials]\ngemini_projects = \"key\"\n", nil, want{true, "", credentials.ConfiguredOnly, "no placeholder can stand"}},
		"login":            {"claude", "strict", "claude_auth", login, nil, want{true, "placeholder", credentials.HostSource, "not restricted"}},
		"keychain":         {"claude", "strict", "claude_auth", "version = 1\n[credentials.claude_auth]\nresolver = \"claude-macos-keychain\"\n", nil, want{true, "placeholder", credentials.ConfiguredOnly, "keychain"}},
		"configured first": {"claude", "strict", "claude_api_key", login, []string{"ANTHROPIC_API_KEY=k"}, want{false, "", credentials.Absent, "not configured"}},
		"excluded":         {"claude", "strict", "claude_auth", login + "[credentials.claude_api_key]\nsource = \"key\"\n", nil, want{false, "", credentials.HostSource, "left out: claude_api_key is used"}},
		"variable":         {"codex", "strict", "codex_api_key", "version = 1\n[credentials]\ncodex_api_key = \"env:MINE\"\n", []string{"MINE=k"}, want{true, "placeholder", credentials.Ready, "scalar"}},
		"variable, unset":  {"codex", "strict", "codex_api_key", "version = 1\n[credentials]\ncodex_api_key = \"env:MINE\"\n", nil, want{true, "placeholder", credentials.ConfiguredOnly, "MINE is not set"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write("key", "secret-value")
			w.write("work/key", "secret-value")
			w.write(".claude/.credentials.json", "{}")
			if err := os.Chmod(w.write("open", "secret-value"), 0o644); err != nil {
				t.Fatal(err)
			}
			d := credentials.Why(w.request(c.agent, c.mode, c.policy, c.env...), c.key)
			if d.Selected != c.want.selected || d.How != c.want.how || d.Readiness != c.want.readiness || !strings.Contains(d.Reason+d.Problem, c.want.has) {
				t.Errorf("%+v, want %+v", d, c.want)
			}
			if d.Usable() != (d.Selected && (d.Readiness == credentials.Ready || d.Readiness == credentials.HostSource)) {
				t.Errorf("usable: %v with readiness %s", d.Usable(), d.Readiness)
			}
		})
	}
}

func TestVocabularyHasWorkcellsKeys(t *testing.T) {
	t.Parallel()
	v := credentials.Vocabulary(catalogue(t))
	for _, key := range []string{
		"codex_auth", "claude_auth", "claude_api_key", "claude_mcp", "copilot_github_token", "gemini_env", "gemini_oauth", "gemini_projects",
		"gcloud_adc", "github_hosts", "github_config", "codex_api_key", "gemini_api_key", "opencode_auth",
	} {
		if err := v.CheckKey(key, ""); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	for resolver, key := range injection.Resolvers() {
		if err := v.CheckKey(key, ""); err != nil {
			t.Errorf("%s: %v", resolver, err)
		}
		if credentials.LoginFile(resolver) == "" && resolver != "claude-macos-keychain" {
			t.Errorf("%s has no file", resolver)
		}
	}
}
