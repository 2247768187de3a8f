package credentials_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/session/credentials"
)

func (w world) grant(r credentials.Request) *credentials.Grant {
	w.t.Helper()
	g, err := credentials.NewGrant(credentials.Decide(r), r.Host)
	if err != nil {
		w.t.Fatal(err)
	}
	// What is granted makes a valid policy.
	p := policy.Default()
	p.Credentials = g.Rules
	if _, err := policy.Parse("grant", p.Canonical(), policy.Options{}); err != nil {
		w.t.Errorf("%v in\n%s", err, p.Canonical())
	}
	return g
}

func TestGrantOfKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("key", "REAL")
	for _, c := range []struct{ agent, policy, key, env, lead, source string }{
		{"claude", "", "claude_api_key", "ANTHROPIC_API_KEY=REAL", "sk-ant-api03-", "env:ANTHROPIC_API_KEY"},
		{"copilot", "version = 1\n[credentials]\ncopilot_github_token = \"key\"\n", "copilot_github_token", "", "github_pat_", "file:" + w.home + "/key"},
		{"codex", "version = 1\n[credentials]\ncodex_api_key = 'command:[\"pass\"]'\n", "codex_api_key", "", "sk-", `command:["pass"]`},
	} {
		g := w.grant(w.request(c.agent, "strict", c.policy, c.env))
		if len(g.Rules) != 1 || g.Sources[0] != c.key+"="+c.source || !strings.HasPrefix(g.Placeholders[c.key], c.lead+"fcph_") || g.Used[c.key] != credentials.Placeholder {
			t.Errorf("%s: %+v", c.agent, g)
		}
	}
}

// TestGiven checks that the text of a source is only where the value is read from.
func TestGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.write("login.json", `{"claudeAiOauth": {"accessToken": "REAL"}}`)
	for _, c := range []struct{ key, source, shown, rule string }{
		{"claude_api_key", `command:["sh", "-c", "REAL"]`, "command:sh", "claude_api_key"},
		{"claude_api_key", "env:KEY", "env:KEY", "claude_api_key"},
		{"claude_api_key", "file:key", "file:key", "claude_api_key"},
		{"claude_auth", "file:" + file, "file:" + file, "claude_auth.accessToken"},
	} {
		spec, _ := adapterOf(t, "claude").Credential(c.key)
		d, err := credentials.DecideGiven(spec, c.source)
		if err != nil || d.Source != c.shown {
			t.Errorf("%s: %+v, %v", c.source, d, err)
		}
		source := c.source
		if d.Spec.Login != nil {
			source = "json:" + file + "#claudeAiOauth.accessToken"
		}
		if g, err := credentials.NewGrant([]credentials.Decision{d}, credentials.Host{}); err != nil || len(g.Sources) != 1 || g.Sources[0] != c.rule+"="+source {
			t.Errorf("%s: %+v, %v", c.source, g, err)
		}
	}
	for _, source := range []string{"REAL", "env:REAL VALUE", "command:REAL"} {
		if _, err := credentials.DecideGiven(adapter.Credential{Key: "k"}, source); api.KindOf(err) != api.Usage || strings.Contains(err.Error(), "REAL") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestGrantOfLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	github := "ghp_REAL" + strings.Repeat("a1B2", 8)
	file := w.write(".claude/.credentials.json", `{
		"claudeAiOauth": {"accessToken": "sk-ant-oat01-REAL1", "refreshToken": "sk-ant-ort01-REAL2", "expiresAt": 1700000000000, "scopes": ["user:inference"],
			"subscriptionType": "max", "clientSecret": "REAL3", "long": "REAL4-`+strings.Repeat("x", 70)+`", "inner": {"x": "REAL5"},
			"apiKeys": ["REAL7"], "also": "`+github+`", "list": ["fine", "`+github+`"]},
		"mcpOAuth": {"server": {"accessToken": "REAL6"}}}`)
	g := w.grant(w.request("claude", "strict", "version = 1\n[credentials.claude_auth]\nresolver = \"claude-home-credentials-file\"\nwrite_back = true\n"))
	if len(g.Files) != 1 || g.Files[0].Path != ".claude/.credentials.json" || g.Files[0].Secret || strings.Contains(string(g.Files[0].Text), "REAL") {
		t.Fatalf("files %s", g.Files[0].Text)
	}
	var in struct {
		Login struct {
			Access  string `json:"accessToken"`
			Refresh string `json:"refreshToken"`
			Expires int64  `json:"expiresAt"`
			Scopes  []string
			Kind    string `json:"subscriptionType"`
		} `json:"claudeAiOauth"`
	}
	if err := json.Unmarshal(g.Files[0].Text, &in); err != nil {
		t.Fatal(err)
	}
	l := in.Login
	if l.Access != g.Placeholders["claude_auth.accessToken"] || !strings.HasPrefix(l.Access, "sk-ant-fcph_") || l.Refresh != g.Placeholders["claude_auth.refreshToken"] ||
		l.Expires != 1700000000000 || len(l.Scopes) != 1 || l.Kind != "max" {
		t.Errorf("the cell's login is %s", g.Files[0].Text)
	}
	if len(g.Logins) != 1 || g.Logins[0].File != api.Text(file) || !g.Logins[0].WriteBack || len(g.Logins[0].Tokens) != 2 || g.Logins[0].Refresh[0].Host != "platform.claude.com" {
		t.Errorf("logins %+v", g.Logins)
	}
	// The token that renews goes to the token endpoint only, the other one not there.
	for _, r := range g.Rules {
		renews := r.Name == "claude_auth.refreshToken"
		for _, e := range r.Endpoints {
			if e.Covers("platform.claude.com", 443, "/v1/oauth/token") != renews || e.Covers("api.anthropic.com", 443, "/v1/messages") == renews {
				t.Errorf("%s goes to %v", r.Name, e)
			}
		}
	}
	if text, err := json.Marshal(g); err != nil || strings.Contains(string(text), "REAL") {
		t.Errorf("a secret is in the grant: %s, %v", text, err)
	}
}

// TestGrantOfClaims gives a program claims that it can read, without the signature.
func TestGrantOfClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claims := "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(`{"exp":1}`)) + "."
	w.write(".codex/auth.json", `{"OPENAI_API_KEY": null, "tokens": {"id_token": "`+claims+`REAL1", "access_token": "`+claims+`REAL2", "refresh_token": "REAL3", "account_id": "acct"}, "last_refresh": "2026-01-01T00:00:00Z"}`)
	g := w.grant(w.request("codex", "strict", "version = 1\n[credentials.codex_auth]\nresolver = \"codex-home-auth-file\"\n"))
	text := string(g.Files[0].Text)
	if strings.Contains(text, "REAL") || strings.Count(text, claims+"fcph_") != 2 || !strings.Contains(text, `"account_id": "acct"`) || !strings.Contains(text, `"OPENAI_API_KEY": null`) {
		t.Errorf("the cell's login is %s", text)
	}
	if len(g.Logins[0].Tokens) != 3 || g.Logins[0].WriteBack {
		t.Errorf("logins %+v", g.Logins)
	}
}

// TestGrantOfForm grants a login whose token endpoint takes a form.
func TestGrantOfForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claims := "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(`{"email":"a@example.com"}`)) + "."
	w.write(".gemini/oauth_creds.json", `{"access_token": "REAL1", "refresh_token": "REAL2", "id_token": "`+claims+`REAL3", "expiry_date": 5}`)
	g := w.grant(w.request("gemini", "strict", "version = 1\n[credentials.gemini_oauth]\nresolver = \"gemini-home-oauth-file\"\n"))
	if text := string(g.Files[0].Text); strings.Contains(text, "REAL") || strings.Count(text, "fcph_") != 3 || !strings.Contains(text, claims+"fcph_") || !strings.Contains(text, `"expiry_date": 5`) {
		t.Errorf("the cell's login is %s", text)
	}
	if e := g.Logins[0].Refresh[0]; !e.Form || !slices.Equal(e.Passed, []string{"client_secret"}) || g.Logins[0].Expires != "expiry_date" {
		t.Errorf("logins %+v", g.Logins)
	}
	for _, r := range g.Rules {
		renews := r.Name == "gemini_oauth.refresh_token"
		for _, e := range r.Endpoints {
			if e.Covers("oauth2.googleapis.com", 443, "/token") != renews || e.Covers("cloudcode-pa.googleapis.com", 443, "/v1internal:x") && renews {
				t.Errorf("%s goes to %v", r.Name, e)
			}
		}
	}
}

// TestGrantOfProviders grants a login with entries of several services: each has a
// placeholder for its own places, and those that the adapter does not know stay out.
func TestGrantOfProviders(t *testing.T) {
	t.Parallel()
	const file = `{
		"anthropic": {"type": "api", "key": "REAL-anthropic"},
		"openai": {"type": "oauth", "refresh": "REAL-refresh", "access": "REAL-access", "expires": 7, "accountId": "acct"},
		"google": {"type": "oauth", "access": "REAL-google", "refresh": "REAL-google-2"},
		"groq": {"type": "api", "key": "REAL-groq"}, "version": 1
	}`
	w := newWorld(t)
	w.write(".local/share/opencode/auth.json", file)
	policy := "version = 1\n[credentials.opencode_auth]\nresolver = \"opencode-home-auth-file\"\nwrite_back = true\n"
	g := w.grant(w.request("opencode", "strict", policy))
	var in map[string]map[string]any
	text := string(g.Files[0].Text)
	if err := json.Unmarshal([]byte(strings.Replace(text, `"version": 1`, `"version": {}`, 1)), &in); err != nil || strings.Contains(text, "REAL") || len(in) != 3 ||
		in["anthropic"]["key"] != g.Placeholders["opencode_auth.anthropic.key"] || in["openai"]["refresh"] != g.Placeholders["opencode_auth.chatgpt.refresh"] ||
		in["openai"]["access"] != g.Placeholders["opencode_auth.chatgpt.access"] || in["openai"]["accountId"] != "acct" || in["openai"]["expires"] != 7.0 {
		t.Errorf("%v; the cell's login is %s", err, text)
	}
	if note := g.Notes["opencode_auth"]; note != ": anthropic, openai; unknown and left out: google, groq" {
		t.Errorf("the note is %q", note)
	}
	goes := map[string]string{"opencode_auth.anthropic.key": "api.anthropic.com /v1/messages", "opencode_auth.chatgpt.access": "chatgpt.com /backend-api/codex/responses", "opencode_auth.chatgpt.refresh": "auth.openai.com /oauth/token"}
	for _, r := range g.Rules {
		for name, to := range goes {
			host, path, _ := strings.Cut(to, " ")
			if covers := r.Endpoints[0].Covers(host, 443, path); covers != (name == r.Name) || len(r.Endpoints) != 1 {
				t.Errorf("%s goes to %v", r.Name, r.Endpoints)
			}
		}
	}
	if len(g.Rules) != 3 || len(g.Logins) != 2 || len(g.Policies) != 2 || !g.Logins[1].Refresh[0].Form || !g.Logins[1].WriteBack || g.Logins[0].Key != "opencode_auth" {
		t.Errorf("%+v", g)
	}
	w.write(".local/share/opencode/auth.json", `{"groq": {"type": "api", "key": "REAL-groq"}}`)
	r := w.request("opencode", "strict", policy)
	if _, err := credentials.NewGrant(credentials.Decide(r), r.Host); api.KindOf(err) != api.Refused || !strings.Contains(err.Error(), "holds no login") {
		t.Errorf("a login without a known provider: %v", err)
	}
	w.write("copy.json", file)
	if g := w.grant(w.request("opencode", "strict", "version = 1\n[credentials.opencode_auth]\nsource = \"copy.json\"\nmaterialize = \"copy\"\n")); len(g.Policies) != 2 || string(g.Files[0].Text) != file {
		t.Errorf("the copy: %+v", g)
	}
}

func TestGrantOfCopies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("oauth.json", "REAL")
	g := w.grant(w.request("gemini", "strict", "version = 1\n[credentials.gemini_oauth]\nsource = \"oauth.json\"\nmaterialize = \"copy\"\n"))
	if len(g.Files) != 1 || g.Files[0].Path != ".gemini/oauth_creds.json" || !g.Files[0].Secret || string(g.Files[0].Text) != "REAL" || g.Used["gemini_oauth"] != credentials.Copy || len(g.Rules) != 0 {
		t.Errorf("%+v", g)
	}
}

// TestCopiesOverlap: a copy does not replace another, nor is it below one.
func TestCopiesOverlap(t *testing.T) {
	t.Parallel()
	for target, ok := range map[string]bool{"~/notes": false, "~/notes/a": false, "~/note": true, "~/.config/notes": true} {
		w := newWorld(t)
		w.write("a", "text")
		copied := "[[copies]]\nsource = \"a\"\nclassification = \"public\"\ntarget = "
		r := w.request("claude", "strict", "version = 1\n"+copied+"\"~/notes\"\n"+copied+"\""+target+"\"\n")
		err := w.grant(r).Inject(r.Policy, "claude", "strict", r.Host)
		if ok && err != nil || !ok && api.KindOf(err) != api.Usage {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func TestGrantRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ policy, file, has string }{
		"no file":         {"resolver = \"claude-home-credentials-file\"", "", "does not exist"},
		"no JSON":         {"resolver = \"claude-home-credentials-file\"", "REAL", "no JSON object"},
		"no tokens":       {"resolver = \"claude-home-credentials-file\"", `{"other": "REAL"}`, "holds no login"},
		"from a variable": {"source = \"env:HOME\"", `{}`, "a login is a file"},
		"key as a copy":   {"source = \"env:HOME\"\nmaterialize = \"copy\"", `{}`, "a login is a file"},
	} {
		w := newWorld(t)
		if c.file != "" {
			w.write(".claude/.credentials.json", c.file)
		}
		r := w.request("claude", "strict", "version = 1\n[credentials.claude_auth]\n"+c.policy+"\n", "HOME=/x")
		_, err := credentials.NewGrant(credentials.Decide(r), r.Host)
		if api.KindOf(err) != api.Refused || !strings.Contains(err.Error(), c.has) || strings.Contains(err.Error(), "REAL") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWorld(t)
	r := w.request("claude", "strict", "version = 1\n[credentials.claude_api_key]\nsource = \"env:K\"\nmaterialize = \"copy\"\n", "K=REAL")
	if _, err := credentials.NewGrant(credentials.Decide(r), r.Host); api.KindOf(err) != api.Refused || !strings.Contains(err.Error(), "no file to copy") {
		t.Errorf("a copy of a variable: %v", err)
	}
}
