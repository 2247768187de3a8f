package daemon_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/rest"
)

// credentialPolicy lets a command use two credentials at example.com.
const credentialPolicy = `version: 1
network_policies:
  api:
    endpoints: [{ host: example.com, port: 443, protocol: rest, access: read-only }]
    binaries: [{ path: "/**" }]
credentials:
  token:
    endpoints: [{ host: example.com, port: 443, path: "/**" }]
    expose_as: TOKEN
    replace_in_headers: [Authorization]
`

// nearEngine lets runs reach an upstream on loopback. Only an operator can grant that,
// so that no request has it.
type nearEngine struct {
	rest.Engine
	upstream *httptest.Server
}

func (e nearEngine) Run(ctx context.Context, r api.RunRequest, io engine.Stdio) (*api.RunResult, error) {
	r.Network.Resolve = api.Texts{"example.com:443=" + e.upstream.Listener.Addr().String()}
	r.Network.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.upstream.Certificate().Raw})
	return e.Engine.Run(ctx, r, io)
}

// credentialServer serves a home with a credentials file, and an upstream that answers
// with the Authorization header that it gets.
func credentialServer(t *testing.T, lines ...string) *testDaemon {
	t.Helper()
	upstream := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The proxy masks the value itself, not this spelling of it.
		_, _ = fmt.Fprintf(w, "upstream got %q\n", strings.ReplaceAll(r.Header.Get("Authorization"), "-", "+"))
	}))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	engine, release, err := local.Open(filepath.Join(dir, "home"), local.Serve, caller.Caller{Actor: func() string { return "test" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := release(); err != nil {
			t.Error(err)
		}
	})
	if _, err := engine.Init(t.Context(), api.InitRequest{Name: "demo", Empty: true}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "credentials")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "value"), "value-of-the-file")
	write(file, strings.ReplaceAll(strings.Join(lines, "\n"), "DIR", dir)+"\n")
	s := rest.New(rest.Config{
		Engine: func(c caller.Caller) rest.Engine { return nearEngine{engine.As(c), upstream} }, Tokens: engine.Tokens(),
		Hosts: []string{"127.0.0.1"}, CredentialsFile: api.Text(file),
	})
	front := httptest.NewServer(s.Handler())
	t.Cleanup(front.Close)
	d := &testDaemon{TB: t, home: filepath.Join(dir, "home"), addresses: []string{"", front.Listener.Addr().String()}}
	d.stop = func() error { return nil }
	made, err := engine.TokenCreate(t.Context(), api.TokenRequest{Name: "operator", Scopes: []string{"admin"}})
	if err != nil {
		t.Fatal(err)
	}
	return d.remote(made.Token)
}

// ask runs a command that sends a credential to the upstream.
func (d *testDaemon) ask(given map[string]api.CredentialValue) api.RunBody {
	return api.RunBody{
		Command:     []string{"sh", "-c", `curl -sS -H "Authorization: $TOKEN" https://example.com/; echo "cell has $TOKEN"`},
		RunSettings: api.RunSettings{Policy: credentialPolicy, Credentials: given},
	}
}

// TestCredentials sends values of credentials with requests, and names of the
// operator's file. The upstream gets the value, the cell does not.
func TestCredentials(t *testing.T) {
	t.Parallel()
	d := credentialServer(t, "token=file:DIR/value for example.com")
	d.want(200, nil, "PUT", "/v1/cells/demo/policy", api.ValidateBody{Policy: credentialPolicy})
	with := d.token(api.TokenBody{Name: "with", Scopes: []string{"run"}, Credentials: []string{"token"}})
	without := d.token(api.TokenBody{Name: "without", Scopes: []string{"run"}, Credentials: []string{"other"}})
	runs := "/v1/cells/demo/runs"
	upstreamGets := func(who *testDaemon, given map[string]api.CredentialValue, want string) {
		t.Helper()
		var out api.RunAnswer
		who.want(200, &out, "POST", runs, who.ask(given))
		if !strings.Contains(out.Stdout, `upstream got "`+strings.ReplaceAll(want, "-", "+")+`"`) || !strings.Contains(out.Stdout, "cell has fcph_") {
			t.Errorf("stdout %q, stderr %q", out.Stdout, out.Stderr)
		}
	}
	upstreamGets(without, map[string]api.CredentialValue{"token": {Value: "value-of-the-request"}}, "value-of-the-request")
	upstreamGets(with, map[string]api.CredentialValue{"token": {Name: "token"}}, "value-of-the-file")
	upstreamGets(with, nil, "value-of-the-file")

	byName := map[string]api.CredentialValue{"token": {Name: "token"}}
	without.problem(403, api.CodeForbidden, "POST", runs, without.ask(byName))
	without.problem(422, api.CodeCredential, "POST", runs, without.ask(nil))
	for _, bad := range []map[string]api.CredentialValue{
		{"token": {Value: "a", Name: "token"}}, {"token": {}}, {"token": {Name: "other"}}, {"token=env:HOME": {Name: "token=env:HOME"}},
	} {
		with.problem(400, api.CodeUsage, "POST", runs, with.ask(bad))
	}
}

// TestCredentialSources has lines in the operator's file that would read the daemon's
// environment, or run a command of it.
func TestCredentialSources(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"env:PATH", `command:["/bin/echo", "x"]`} {
		d := credentialServer(t, "token="+source+" for example.com")
		d.want(200, nil, "PUT", "/v1/cells/demo/policy", api.ValidateBody{Policy: credentialPolicy})
		with := d.token(api.TokenBody{Name: "with", Scopes: []string{"run"}, Credentials: []string{"token"}})
		p := with.problem(422, api.CodeCredential, "POST", "/v1/cells/demo/runs", with.ask(map[string]api.CredentialValue{"token": {Name: "token"}}))
		if !strings.Contains(p.Detail, "only file:PATH works") {
			t.Errorf("%s: %+v", source, p)
		}
	}
}
