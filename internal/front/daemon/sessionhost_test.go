package daemon_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// helperAdapter is an agent of the operator's own.
const helperAdapter = `version: 1
name: helper
title: Helper
program: { names: [helper-agent], version_arguments: [--version] }
policy:
  network_policies:
    service: { endpoints: [{ host: service.example, port: 443, protocol: rest, access: full }], binaries: [{ path: "/**" }] }
credentials:
  - { key: helper_key, how: placeholder, variable: HELPER_KEY, endpoints: [{ host: service.example, port: 443 }], headers: [Authorization] }
turns: { by: quiet }
`

// operator is a host with an agent of the operator's own and a key for it.
type operator struct {
	testing.TB
	dir string
}

func newOperator(t *testing.T) operator {
	t.Helper()
	dir, err := os.MkdirTemp("", "fco")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	o := operator{t, dir}
	if err := os.Chmod(dir, 0o755); err != nil { // cells show the program
		t.Fatal(err)
	}
	o.write("config/agents/helper.yaml", helperAdapter, 0o600)
	o.write("bin/helper-agent", "#!/bin/sh\nenv > seen\n[ $# = 0 ] || { echo helper 1.2.3; exit; }\nexec sleep 1000\n", 0o755)
	o.write("secret", "the-real-key\n", 0o600)
	o.credential(`"` + o.dir + `/secret"`)
	return o
}

func (o operator) write(name, text string, mode os.FileMode) {
	o.Helper()
	path := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		o.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		o.Fatal(err)
	}
}

// credential sets the source of the agent's key.
func (o operator) credential(source string) {
	o.Helper()
	o.write("config/injection-policy.toml", "version = 1\n[credentials]\nhelper_key = "+source+"\n", 0o600)
}

func (o operator) options() api.Operator {
	return api.Operator{Config: o.dir + "/config", Home: o.dir, Path: o.dir + "/bin:/usr/bin:/bin", Env: []string{"HELPER_KEY=of-the-daemon"}}
}

func helper(cell string) api.CreateSession {
	return api.CreateSession{Cell: cell, Agent: "helper", AllowNonGit: true}
}

// credentials returns the credentials that a session would use.
func (d *testDaemon) credentials(b api.CreateSession) (keys []string) {
	d.Helper()
	var plan api.SessionPlan
	d.want(http.StatusOK, &plan, "POST", "/v1/sessions/plan", b)
	for _, c := range plan.UsedCredentials {
		keys = append(keys, c.Key+" "+c.How)
	}
	return keys
}

// TestSessionReaches: what a session reaches is told as it is under the ceiling of its
// caller, in the plan and in the record.
func TestSessionReaches(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{Operator: newOperator(t).options(), AllowAgents: []string{"helper"}})
	d.want(http.StatusCreated, nil, "POST", "/v1/cells", `{"name": "demo", "source": {"empty": true}}`)
	t.Cleanup(func() { d.remove("demo") })
	const rule = "version: 1\nnetwork_policies: { a: { endpoints: [{ host: %, port: 443, protocol: rest, access: full }], binaries: [{ path: /** }] } }\n"
	policy := func(host string) string { return strings.Replace(rule, "%", host, 1) }
	wide := helper("demo")
	wide.Policy = policy("other.example")
	for name, c := range map[string]struct {
		ceiling string
		want    []string
	}{
		"the cell's policy":    {"", []string{"service.example:443"}},
		"a ceiling of its own": {policy("other.example"), []string{"other.example:443"}},
		"a closed ceiling":     {"version: 1\n", nil},
	} {
		caller := d.token(api.TokenBody{Name: strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", ""), Scopes: []string{"run"}, Policy: c.ceiling})
		var plan api.SessionPlan
		caller.want(http.StatusOK, &plan, "POST", "/v1/sessions/plan", wide)
		if !slices.Equal(plan.Terms.Endpoints, c.want) {
			t.Errorf("%s: the plan has %q, want %q", name, plan.Terms.Endpoints, c.want)
		}
		if i := caller.session(wide); !slices.Equal(i.Endpoints, c.want) {
			t.Errorf("%s: the session has %q, want %q", name, i.Endpoints, c.want)
		}
	}
}

// TestSessionCredentials: a token uses the operator's agents and credentials only as
// far as the operator allowed it by name, and reads no value.
func TestSessionCredentials(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	d := newRemote(t, api.ServeOptions{Operator: o.options(), AllowAgents: []string{"helper"}})
	d.want(http.StatusCreated, nil, "POST", "/v1/cells", `{"name": "demo", "source": {"empty": true}}`)
	t.Cleanup(func() { d.remove("demo") })
	without := d.token(api.TokenBody{Name: "without", Scopes: []string{"run"}})
	with := d.token(api.TokenBody{Name: "with", Scopes: []string{"run"}, Credentials: []string{"helper_key"}})
	if got := without.credentials(helper("demo")); got != nil {
		t.Errorf("a token that may use none gets %q", got)
	}
	wanted := []string{"helper_key placeholder"}
	if got := with.credentials(helper("demo")); !slices.Equal(got, wanted) {
		t.Errorf("a token that may use the key gets %q", got)
	}
	named := helper("demo")
	named.Credentials = map[string]api.CredentialValue{"helper_key": {Name: "helper_key"}}
	without.problem(http.StatusForbidden, api.CodeForbidden, "POST", "/v1/sessions", named)
	if got := with.credentials(named); !slices.Equal(got, wanted) {
		t.Errorf("who names the key gets %q", got)
	}
	own := helper("demo")
	own.Credentials = map[string]api.CredentialValue{"helper_key": {Value: "a-key-of-the-caller"}}
	i := without.session(own)
	if !slices.Equal(i.Credentials, []string{"helper_key: placeholder, from the request"}) {
		t.Errorf("%q", i.Credentials)
	}
	theirs := with.session(named)
	if !slices.Equal(theirs.Credentials, []string{"helper_key: placeholder"}) {
		t.Errorf("%q", theirs.Credentials)
	}
	// Where the operator's values come from is the operator's alone.
	admin := d.token(api.TokenBody{Name: "admin", Scopes: []string{"admin"}})
	for _, path := range []string{"/v1/sessions/" + theirs.SessionID, "/v1/sessions", "/v1/runs/" + theirs.RunID, "/v1/cells/" + theirs.SessionID + "/runs"} {
		if r := with.send("GET", path, nil); !strings.Contains(string(r.body), "helper_key: placeholder") || strings.Contains(string(r.body), o.dir+"/secret") {
			t.Errorf("%s: %s", path, r.body)
		}
		if r := admin.send("GET", path, nil); !strings.Contains(string(r.body), "helper_key: placeholder, from "+o.dir+"/secret") {
			t.Errorf("as admin, %s: %s", path, r.body)
		}
	}
	for who, as := range boundedCallers(d) { // one with admin is not the operator
		if who != "admin with cells" { // which sees the use of its own
			as.problem(http.StatusForbidden, api.CodeForbidden, "GET", "/v1/usage", nil)
		}
		for _, path := range []string{"/v1/sessions/" + theirs.SessionID, "/v1/sessions", "/v1/runs/" + theirs.RunID, "/v1/cells/" + theirs.SessionID + "/runs", "/v1/agents", "/v1/agents/helper"} {
			r := as.send("GET", path, nil)
			if strings.Contains(string(r.body), o.dir+"/secret") || strings.HasPrefix(path, "/v1/agents") && strings.Contains(string(r.body), o.dir) {
				t.Errorf("%s, %s: %s", who, path, r.body)
			}
		}
	}
	if r := with.send("POST", "/v1/sessions/plan", named); strings.Contains(string(r.body), o.dir+"/secret") {
		t.Errorf("the plan: %s", r.body)
	}
	for _, i := range []api.AgentSession{i, theirs} {
		env := with.exec(i.SessionID, "sh", "-c", "until grep HELPER_KEY seen; do :; done").Stdout
		if !strings.HasPrefix(env, "HELPER_KEY=") || strings.Contains(env, "real-key") || strings.Contains(env, "of-the-") {
			t.Errorf("the agent has %q", env)
		}
	}
	var list api.List[api.AgentState]
	with.want(http.StatusOK, &list, "GET", "/v1/agents", nil)
	if r := with.send("GET", "/v1/agents", nil); strings.Contains(string(r.body), o.dir) || !strings.Contains(string(r.body), "helper") {
		t.Errorf("a token without admin sees %s", r.body)
	}
	var agent api.AgentDocument
	d.want(http.StatusOK, &agent, "GET", "/v1/agents/helper", nil)
	if !agent.Ready || agent.Program != o.dir+"/bin/helper-agent" || !strings.Contains(agent.Document, "service.example") {
		t.Errorf("%+v", agent)
	}
	d.problem(http.StatusNotFound, api.CodeNotFound, "GET", "/v1/agents/nobody", nil)
}

// TestSessionSources: a daemon reads no variable and runs no command for its callers, and
// copies no secret for those with a token.
func TestSessionSources(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	d := newRemote(t, api.ServeOptions{Operator: o.options(), AllowAgents: []string{"helper", "codex"}})
	d.want(http.StatusCreated, nil, "POST", "/v1/cells", `{"name": "demo", "source": {"empty": true}}`)
	t.Cleanup(func() { d.remove("demo") })
	mark := o.dir + "/ran"
	for _, source := range []string{`"env:HELPER_KEY"`, `"command:[\"touch\",\"` + mark + `\"]"`} {
		o.credential(source)
		d.problem(http.StatusUnprocessableEntity, api.CodeCredential, "POST", "/v1/sessions/plan", helper("demo"))
		var why api.List[api.CredentialDecision]
		d.want(http.StatusOK, &why, "GET", "/v1/agents/helper/credentials?mode=build", nil)
		if len(why.Items) != 1 || why.Items[0].Problem == "" || why.Items[0].Next == "" {
			t.Errorf("%+v", why.Items)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
	o.write("bin/codex", "#!/bin/sh\nexec sleep 1000\n", 0o755)
	o.write("secret", `{"tokens": {"access_token": "the-real-key"}}`, 0o600)
	o.write("config/injection-policy.toml", "version = 1\n[credentials.codex_auth]\nsource = \""+o.dir+"/secret\"\nmaterialize = \"copy\"\n", 0o600)
	b := helper("demo")
	b.Agent = "codex"
	if got := d.credentials(b); !slices.Equal(got, []string{"codex_auth copy"}) {
		t.Errorf("the operator gets %q", got)
	}
	token := d.token(api.TokenBody{Name: "token", Scopes: []string{"run"}, Credentials: []string{"codex_auth"}})
	p := token.problem(http.StatusUnprocessableEntity, api.CodeCredential, "POST", "/v1/sessions", b)
	if !strings.Contains(p.Detail, "could read it") {
		t.Errorf("%+v", p)
	}
}

// TestAgentCheck: an agent of the host is started in a cell that is removed again, for
// callers who may start it.
func TestAgentCheck(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	d := newRemote(t, api.ServeOptions{Operator: o.options(), AllowAgents: []string{"helper"}})
	var st api.AgentState
	d.want(http.StatusOK, &st, "POST", "/v1/agents/helper/check", nil)
	if st.Answer != "helper 1.2.3" || st.Version != "1.2.3" || st.Program == "" {
		t.Errorf("%+v", st)
	}
	token := d.token(api.TokenBody{Name: "token", Scopes: []string{"run"}, Cells: "theirs-", Quota: &api.Quota{Runs: 1}})
	st = api.AgentState{}
	token.want(http.StatusOK, &st, "POST", "/v1/agents/helper/check", nil)
	if st.Answer != "helper 1.2.3" || st.Program != "" {
		t.Errorf("for a token: %+v", st)
	}
	token.problem(http.StatusForbidden, api.CodeForbidden, "POST", "/v1/agents/claude/check", nil)
	d.problem(http.StatusUnprocessableEntity, api.CodeAgent, "POST", "/v1/agents/claude/check", nil)
	d.problem(http.StatusBadRequest, api.CodeUsage, "POST", "/v1/agents/generic/check", nil)
	var cells api.List[api.CellInfo]
	if d.want(http.StatusOK, &cells, "GET", "/v1/cells", nil); len(cells.Items) != 0 {
		t.Errorf("left behind: %+v", cells.Items)
	}
}

// TestHeldSession: the first client of a held session executes its agent, and no other.
func TestHeldSession(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	b := listener("demo")
	b.Hold, b.Arguments = true, []string{"sh", "-c", "echo out; echo err >&2; cat; exit 3"}
	i := d.session(b)
	if i.Status != api.SessionStarting {
		t.Errorf("%+v", i)
	}
	at := "/v1/sessions/" + i.SessionID + "/agent"
	d.problem(http.StatusUpgradeRequired, api.CodeUpgrade, "GET", at, nil)
	d.refusedSocket(at+"?term=a%0Ab", http.StatusBadRequest)
	s, _ := d.open(at)
	d.refusedSocket(at, http.StatusConflict)
	s.input("given")
	s.text(`{"type":"stdin_closed"}`)
	if m := s.message(); m.Type != "exit" || m.ExitCode != 3 || s.out[1].String() != "out\ngiven" || s.out[2].String() != "err\n" {
		t.Errorf("%+v, %q %q", m, s.out[1].String(), s.out[2].String())
	}
	d.want(http.StatusOK, &i, "GET", "/v1/sessions/"+i.SessionID, nil)
	if i.Status != api.SessionFailed || i.ReceiptID == "" {
		t.Errorf("%+v", i)
	}
	d.refusedSocket(at, http.StatusConflict)

	// Nothing is left of a session whose agent cannot be executed.
	b.Name, b.Arguments = "none", []string{"/no/such/program"}
	i = d.session(b)
	d.refusedSocket("/v1/sessions/none/agent", http.StatusUnprocessableEntity)
	d.problem(http.StatusNotFound, api.CodeNotFound, "GET", "/v1/sessions/none", nil)
}

// refusedSocket fails the test unless a WebSocket is refused with a status.
func (d *testDaemon) refusedSocket(path string, status int) {
	d.Helper()
	_, resp, err := d.dial(path, nil, execProtocol)
	if err == nil || resp == nil || resp.StatusCode != status {
		d.Errorf("%s: %v, %+v", path, err, resp)
	}
}
