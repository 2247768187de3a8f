package daemon_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// wordSchema is the part of a schema that says what a field takes, and whether its value is
// the operator's word.
type wordSchema struct {
	Ref        string `json:"$ref"`
	Type       any
	Enum       []any
	Items      *wordSchema
	Required   []string
	Properties map[string]*wordSchema
	Rule       string `json:"x-operator"`
}

// wordField is a field of a request that has the operator's word.
type wordField struct{ method, path, field, rule string }

// wordBook finds these fields in the description of the API.
type wordBook struct {
	Paths map[string]map[string]struct {
		Body struct {
			Content map[string]struct{ Schema *wordSchema }
		} `json:"requestBody"`
	}
	Components struct{ Schemas map[string]*wordSchema }
}

func (b *wordBook) resolve(s *wordSchema) *wordSchema {
	if s == nil || s.Ref == "" {
		return s
	}
	return b.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
}

// fields returns the fields of all bodies. Those of documents inside of a body are not
// looked for: TestOperatorFieldsAreAtTheTop says that there are none.
func (b *wordBook) fields() (list []wordField) {
	for path, methods := range b.Paths {
		for method, op := range methods {
			schema := b.resolve(op.Body.Content["application/json"].Schema)
			if schema == nil {
				continue
			}
			for name, p := range schema.Properties {
				if p.Rule != "" {
					list = append(list, wordField{method, path, name, p.Rule})
				}
			}
		}
	}
	return list
}

// body returns a body with the fields that an operation needs, and one more.
func (b *wordBook) body(f wordField, value any) map[string]any {
	schema := b.resolve(b.Paths[f.path][f.method].Body.Content["application/json"].Schema)
	body := map[string]any{}
	for _, name := range schema.Required {
		p := b.resolve(schema.Properties[name])
		switch {
		case name == "cell":
			body[name] = "a-one"
		case p.Type == "array":
			body[name] = []string{"true"}
		case p.Type == "integer":
			body[name] = 1
		default:
			body[name] = "a-new"
		}
	}
	if strings.HasSuffix(f.path, "/cells") {
		body["source"] = map[string]any{"empty": true}
	}
	body[f.field] = value
	return body
}

// wordValues are values that only the operator may send, by rule.
var wordValues = map[string]any{
	api.OperatorAdds:    []string{"a", "!.env"},
	api.OperatorRoot:    "host-overlay",
	api.OperatorMode:    "breakglass",
	api.OperatorOutput:  "65MiB",
	api.OperatorGrant:   []string{"bpf"},
	api.OperatorControl: []string{"**"},
	api.OperatorSetuid:  true,
	api.OperatorTarget:  "/tmp",
	"allow":             []string{"repo-mcp"},
	"acknowledged":      map[string]string{"breakglass": "2026-01-01"},
	"as_root":           true,
	"allow_degraded":    true,
}

// value returns a value of a field that only the operator may send.
func (f wordField) value() any {
	if f.rule == api.OperatorOnly {
		return wordValues[f.field]
	}
	return wordValues[f.rule]
}

// path returns the path of a request for the cell a-one.
func (f wordField) at() string { return inBraces.ReplaceAllString(f.path, "a-one") }

// readWords reads the description of the API.
func readWords(d *testDaemon) *wordBook {
	d.Helper()
	var b wordBook
	d.want(200, &b, "GET", "/openapi.json", nil)
	return &b
}

const narrowPolicy = "version: 1\nfilesystem_policy: { read_only: [/usr, /etc] }\n"

// boundedCallers are all kinds of callers over the network that are not the operator.
func boundedCallers(d *testDaemon) map[string]*testDaemon {
	return map[string]*testDaemon{
		"run and decide":    d.token(api.TokenBody{Name: "decider", Scopes: []string{"run", "decide"}}),
		"admin with cells":  d.token(api.TokenBody{Name: "admin-cells", Scopes: []string{"admin"}, Cells: "a-"}),
		"admin with policy": d.token(api.TokenBody{Name: "admin-policy", Scopes: []string{"admin"}, Policy: narrowPolicy}),
		"admin with quota":  d.token(api.TokenBody{Name: "admin-quota", Scopes: []string{"admin"}, Quota: &api.Quota{Runs: 100}}),
	}
}

// TestOperatorFields sends every field that has the operator's word, in every request, as
// every caller who is not the operator. The field is named and refused. The operator is not
// refused.
func TestOperatorFields(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("a-one")
	words := readWords(d)
	fields := words.fields()
	if len(fields) == 0 {
		t.Fatal("the API has no field of the operator")
	}
	callers := boundedCallers(d)
	operators := map[string]*testDaemon{"socket": d, "admin": d.token(api.TokenBody{Name: "admin", Scopes: []string{"admin"}})}
	for _, f := range fields {
		value := f.value()
		if value == nil {
			t.Errorf("%+v: no value for the rule", f)
			continue
		}
		body := words.body(f, value)
		for who, c := range callers {
			var p api.Problem
			r := c.send(strings.ToUpper(f.method), f.at(), body)
			if err := json.Unmarshal(r.body, &p); err != nil || r.status != http.StatusForbidden || p.Code != api.CodeForbidden || !strings.HasPrefix(p.Detail, f.field+": ") {
				t.Errorf("%s: %s %s with %s: %d %s", who, f.method, f.path, f.field, r.status, r.body)
			}
		}
		body["name"] = "a-new"
		for who, c := range operators {
			if r := c.send(strings.ToUpper(f.method), f.at(), body); r.status == http.StatusForbidden && strings.Contains(string(r.body), `"detail":"`+f.field+": ") {
				t.Errorf("%s: %s %s with %s: %d %s", who, f.method, f.path, f.field, r.status, r.body)
			}
			d.send("DELETE", "/v1/cells/a-new?force=true", nil)
		}
	}
}

// TestOperatorFieldsAreAtTheTop: the fields are in bodies, where the test above sends them.
func TestOperatorFieldsAreAtTheTop(t *testing.T) {
	t.Parallel()
	words := readWords(newDaemon(t))
	top := map[*wordSchema]bool{}
	for _, methods := range words.Paths {
		for _, op := range methods {
			if s := words.resolve(op.Body.Content["application/json"].Schema); s != nil {
				top[s] = true
			}
		}
	}
	for name, s := range words.Components.Schemas {
		for field, p := range s.Properties {
			if p.Rule != "" && !top[s] {
				t.Errorf("%s.%s is in no body", name, field)
			}
		}
	}
}

// TestMCPOperatorFields: the tools have no field of the operator, but those that can only
// narrow, and these do.
func TestMCPOperatorFields(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	words := readWords(d)
	rules := map[string]string{}
	for _, f := range words.fields() {
		rules[f.field] = f.rule
	}
	stdio := newStdio(t, narrowPolicy).model
	models := map[string]*model{"stdio": stdio}
	for who, c := range boundedCallers(d) {
		models[who] = c.connect(nil)
	}
	for who, m := range models {
		for name, tool := range m.tools() {
			schema, ok := tool.InputSchema.(map[string]any)
			if !ok {
				t.Fatalf("%s: %T", name, tool.InputSchema)
			}
			properties, _ := schema["properties"].(map[string]any)
			for _, field := range slices.Sorted(maps.Keys(properties)) {
				if field == "to" && name != "apply" {
					continue // an end of a diff, or a turn
				}
				switch rules[field] {
				case "", api.OperatorAdds, api.OperatorMode, api.OperatorOutput:
				default:
					t.Errorf("%s: %s has the field %s", who, name, field)
				}
			}
		}
		if who != "stdio" {
			m.try(nil, "cell_create", map[string]any{"name": "a-one", "source": map[string]any{"empty": true}})
			m.fails(api.CodeForbidden, "run", map[string]any{"cell": "a-one", "command": []string{"true"}, "output_limit": "65MiB"})
		}
		m.fails(api.CodeForbidden, "cell_create", map[string]any{"name": "demo-x", "source": map[string]any{"empty": true}, "exclude": []string{"!.env"}})
	}
}

// TestExcludeOnlyAdds: a token cannot switch off a secret rule for a directory of the host.
func TestExcludeOnlyAdds(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.write(".env", "SECRET=1\n")
	d.write("!x", "a name\n")
	d.start(api.ServeOptions{Listen: []string{"unix:" + filepath.Join(d.home, daemon.SocketName), "127.0.0.1:0"}, AllowSource: []string{d.source}})
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}})
	source := &api.Source{Path: d.source}
	runner.problem(403, api.CodeForbidden, "POST", "/v1/cells", api.CreateCell{Name: "taken", Source: source, Exclude: []string{"!.env"}})
	var made api.InitResult
	runner.want(201, &made, "POST", "/v1/cells", api.CreateCell{Name: "more", Source: source, Exclude: []string{"hello.txt", `\!x`}})
	if made.Files != 0 {
		t.Errorf("%+v", made)
	}
	d.want(201, &made, "POST", "/v1/cells", api.CreateCell{Name: "whole", Source: source, Exclude: []string{"!.env"}})
	if made.Files != 3 {
		t.Errorf("the operator: %+v", made)
	}
	if _, err := os.Stat(filepath.Join(d.source, ".env")); err != nil {
		t.Error(err)
	}
}

// TestOperatorFieldsInSockets: the first message of a WebSocket is a request as others.
func TestOperatorFieldsInSockets(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("a-one")
	for who, c := range boundedCallers(d) {
		conn, _, err := websocket.Dial(t.Context(), c.site+"/v1/cells/a-one/run", &websocket.DialOptions{HTTPClient: c.client, Subprotocols: []string{execProtocol}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.CloseNow() }()
		text, err := json.Marshal(api.RunSocketBody{RunBody: api.RunBody{Command: []string{"true"}, RunSettings: api.RunSettings{AsRoot: true}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Write(t.Context(), websocket.MessageText, text); err != nil {
			t.Fatal(err)
		}
		if _, answer, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(answer), `"code":"forbidden"`) {
			t.Errorf("%s: %s, %v", who, answer, err)
		}
	}
}

// TestAllowControlOfTokens: a token has control files written that match a pattern of the
// token and one of the request, and writes to another directory. Others do neither.
func TestAllowControlOfTokens(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(d.source), "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	d.start(api.ServeOptions{Listen: []string{"unix:" + filepath.Join(d.home, daemon.SocketName), "127.0.0.1:0"}, AllowSource: []string{d.source, other}})
	d.cell("demo")
	d.want(200, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "mkdir .vscode; echo x >.vscode/tasks.json; echo x >.envrc"}, AcceptOnSuccess: true})
	scopes := []string{"run", "decide"}
	plain := d.token(api.TokenBody{Name: "plain", Scopes: scopes})
	some := d.token(api.TokenBody{Name: "some", Scopes: scopes, AllowControl: []string{".vscode"}})
	all := d.token(api.TokenBody{Name: "all", Scopes: scopes, AllowControl: []string{"**"}})
	const at = "/v1/cells/demo/apply"
	open := api.ApplyRequest{AllowControl: []string{"**"}, DryRun: true}
	plain.problem(403, api.CodeForbidden, "POST", at, open)
	plain.problem(403, api.CodeForbidden, "POST", at, api.ApplyRequest{To: other, DryRun: true})
	plain.problem(409, api.CodeHeldBack, "POST", at, api.ApplyRequest{To: d.source, DryRun: true})
	some.problem(409, api.CodeHeldBack, "POST", at, open)
	some.problem(403, api.CodeForbidden, "POST", at, api.ApplyRequest{AllowSetuid: true, DryRun: true})
	var res api.ApplyResult
	some.want(200, &res, "POST", at, api.ApplyRequest{AllowControl: []string{"**"}, Except: []string{".envrc"}, To: other})
	all.want(200, &res, "POST", at, api.ApplyRequest{AllowControl: []string{".vscode", ".envrc"}, AllowSetuid: true})
	if _, err := os.Stat(filepath.Join(other, ".vscode/tasks.json")); err != nil {
		t.Error(err)
	}
	d.problem(400, "token", "POST", "/v1/tokens", api.TokenBody{Name: "bad", Scopes: scopes, AllowControl: []string{"!x"}})
}

// TestWholeHome: what is about a whole home is for callers without bounds. A token with
// bounds makes no tokens, so none with more than it has, and ends none.
func TestWholeHome(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("a-one")
	d.token(api.TokenBody{Name: "other", Scopes: []string{"read"}})
	var doc struct {
		Paths map[string]map[string]struct {
			Scopes []string `json:"x-scopes"`
		}
	}
	d.want(200, &doc, "GET", "/openapi.json", nil)
	bodies := map[string]any{"/v1/tokens": api.TokenBody{Name: "more", Scopes: []string{"admin"}}, "/v1/gc": api.GCBody{DryRun: true}}
	free := d.token(api.TokenBody{Name: "free", Scopes: []string{"admin"}})
	callers, count := boundedCallers(d), 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if !slices.Contains(op.Scopes, "unbounded") {
				if slices.Contains(op.Scopes, "admin") && path != "/v1/cells/{cell}/policy" {
					t.Errorf("%s %s: needs admin, and is not about the whole home", method, path)
				}
				continue
			}
			count++
			at := strings.NewReplacer("{token}", "other", "{agent}", "claude").Replace(path)
			for who, c := range callers {
				if r := c.send(strings.ToUpper(method), at, bodies[path]); r.status != http.StatusForbidden {
					t.Errorf("%s: %s %s: %d %s", who, method, path, r.status, r.body)
				}
			}
			if r := free.send(strings.ToUpper(method), at, bodies[path]); r.status == http.StatusForbidden {
				t.Errorf("%s %s: %d %s", method, path, r.status, r.body)
			}
		}
	}
	if count < 9 {
		t.Errorf("only %d routes", count)
	}
	for who, c := range callers {
		if r := c.send("GET", "/v1/events?class=api_activity", nil); r.status != http.StatusForbidden {
			t.Errorf("%s: the journal of requests: %d", who, r.status)
		}
	}
}

// TestMCPLineage: a model sees its cell, the forks of it and what it made itself, also after
// it began again. The cell of another source does not exist for it, whatever its name.
func TestMCPLineage(t *testing.T) {
	t.Parallel()
	s := newStdio(t, narrowPolicy)
	for _, name := range []string{"demo-private", "other"} {
		if _, err := s.operator.Init(t.Context(), api.InitRequest{Name: name, Empty: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.operator.Fork(t.Context(), api.ForkRequest{Cell: "demo", Name: "fork"}); err != nil {
		t.Fatal(err)
	}
	s.do(nil, "cell_create", map[string]any{"name": "demo-own", "source": map[string]any{"empty": true}})
	s.do(nil, "fork", map[string]any{"cell": "demo-own", "name": "demo-own-fork"})
	again := serveModel(t, s.home, api.MCPOptions{Cell: "demo"})
	for who, m := range map[string]*model{"first": s.model, "again": again} {
		var list api.List[api.CellInfo]
		m.do(&list, "cell_list", map[string]any{})
		var names []string
		for _, c := range list.Items {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		if want := []string{"demo", "demo-own", "demo-own-fork", "fork"}; !slices.Equal(names, want) {
			t.Errorf("%s: the cells are %q", who, names)
		}
		m.do(nil, "run", map[string]any{"cell": "fork", "command": []string{"true"}})
		for _, name := range []string{"demo-private", "other"} {
			m.fails(api.CodeNotFound, "run", map[string]any{"cell": name, "command": []string{"true"}})
			m.fails(api.CodeNotFound, "fork", map[string]any{"cell": name, "name": "demo-copy"})
		}
		m.fails(api.CodeForbidden, "fork", map[string]any{"cell": "demo", "name": "demo-private"})
		m.fails(api.CodeForbidden, "fork", map[string]any{"cell": "demo", "name": "mine"})
	}
}
