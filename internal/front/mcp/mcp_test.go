package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api"
)

// answers is a client whose API gives one answer to every request, and keeps the
// last one.
type answers struct {
	status int
	kind   string
	body   string
	last   *http.Request
	sent   string
}

func (a *answers) Do(r *http.Request) (*http.Response, error) {
	a.last = r
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		a.sent = string(text)
	}
	return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status), Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// connect connects a model to the tools, in memory.
func connect(t *testing.T, session Session) *sdk.ClientSession {
	t.Helper()
	return connectTo(t, NewCatalog("v1"), session)
}

func connectTo(t *testing.T, c *Catalog, session Session) *sdk.ClientSession {
	t.Helper()
	here, there := sdk.NewInMemoryTransports()
	server, err := c.Server(session, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func callTool(t *testing.T, s *sdk.ClientSession, name string, args any) (*sdk.CallToolResult, string) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return &sdk.CallToolResult{IsError: true}, err.Error()
	}
	text := ""
	for _, c := range res.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			text += t.Text
		}
	}
	return res, text
}

// TestRights lists the tools of callers with different rights.
func TestRights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		rights   Rights
		has, not []string
		hidden   []string // arguments of run
	}{
		{"read", Rights{}, []string{"cell_list", "receipt_verify"}, []string{"run", "restore", "accept"}, nil},
		{"run", Rights{Run: true}, []string{"run", "restore", "fork"}, []string{"accept", "reject", "apply"}, []string{"accept_on_success", "as_root", "credentials"}},
		{"decide alone", Rights{Decide: true}, nil, []string{"run", "accept"}, nil},
		{"decide", Rights{Run: true, Decide: true}, []string{"accept", "apply"}, nil, []string{"root", "allow_degraded"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tools := map[string]*sdk.Tool{}
			for tool, err := range connect(t, Session{Rights: c.rights}).Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				tools[tool.Name] = tool
			}
			for _, name := range c.has {
				if tools[name] == nil {
					t.Errorf("%s is missing", name)
				}
			}
			for _, name := range c.not {
				if tools[name] != nil {
					t.Errorf("%s is there", name)
				}
			}
			if tools["run"] == nil {
				return
			}
			schema, err := json.Marshal(tools["run"].InputSchema)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range c.hidden {
				if strings.Contains(string(schema), `"`+name+`"`) {
					t.Errorf("%s is an argument: %s", name, schema)
				}
			}
		})
	}
}

// TestCallers: callers of one daemon see the arguments that their own rights allow, whoever
// came before them.
func TestCallers(t *testing.T) {
	t.Parallel()
	all := Rights{Run: true, Decide: true, Operator: true, Credentials: true, Sessions: true}
	want := listTools(t, NewCatalog("v1"), all)
	shared := NewCatalog("v1")
	for _, r := range []Rights{{}, {Run: true}, {Run: true, Cell: "demo"}, {Run: true, Decide: true}} {
		listTools(t, shared, r)
	}
	if got := listTools(t, shared, all); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// listTools returns the tools of a new session, as its client gets them.
func listTools(t *testing.T, c *Catalog, r Rights) string {
	t.Helper()
	list, err := connectTo(t, c, Session{Rights: r}).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(list.Tools)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRequests checks what tools send.
func TestRequests(t *testing.T) {
	t.Parallel()
	a := &answers{status: 200, body: `{"cell":"a","decision_id":"dec_1"}`}
	s := connect(t, Session{Client: a, Rights: Rights{Run: true, Decide: true, Cell: "a"}})
	if res, text := callTool(t, s, "restore", map[string]any{"checkpoint": "chk_1"}); res.IsError {
		t.Fatal(text)
	}
	if a.last.Method != "POST" || a.last.URL.Path != "/v1/cells/a/restore" || a.sent != `{"checkpoint":"chk_1"}` {
		t.Errorf("%s %s %s", a.last.Method, a.last.URL, a.sent)
	}
	if res, text := callTool(t, s, "restore", map[string]any{"cell": "a/../b?x=#"}); res.IsError {
		t.Fatal(text)
	}
	if a.last.URL.RequestURI() != "/v1/cells/a%2F..%2Fb%3Fx=%23/restore" {
		t.Errorf("%s", a.last.URL.RequestURI())
	}
	for _, args := range []map[string]any{{"nonsense": 1}, {"checkpoint": 1}, {"Checkpoint": "x"}} {
		if res, text := callTool(t, s, "restore", args); !res.IsError {
			t.Errorf("%v: %s", args, text)
		}
	}
}

// TestForks: cell_create with fork_of says what it made, as fork does.
func TestForks(t *testing.T) {
	t.Parallel()
	a := &answers{status: 201, body: `{"from":"a","checkpoint_id":"chk_1","cells":[{"cell":"a-1"},{"cell":"a-2"}]}`}
	s := connect(t, Session{Client: a, Rights: Rights{Run: true}})
	for tool, args := range map[string]map[string]any{
		"cell_create": {"fork_of": "a", "name": "a", "n": 2},
		"fork":        {"cell": "a", "name": "a", "n": 2},
	} {
		if res, text := callTool(t, s, tool, args); res.IsError || text != "forked a at chk_1: a-1, a-2" {
			t.Errorf("%s: %s", tool, text)
		}
	}
}

// TestProblems checks errors of the API.
func TestProblems(t *testing.T) {
	t.Parallel()
	a := &answers{status: 409, kind: "application/problem+json", body: `{"code":"busy","detail":"cell a is busy","hint":"wait","details":["one"]}`}
	s := connect(t, Session{Client: a, Rights: Rights{Run: true, Cell: "a"}})
	res, text := callTool(t, s, "checkpoint", nil)
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil || !res.IsError || text != "busy: cell a is busy\none\nhint: wait" {
		t.Errorf("%v %s", err, text)
	}
	var doc errorDocument
	if err := json.Unmarshal(raw, &doc); err != nil || doc.Code != api.CodeBusy || doc.Hint != "wait" || len(doc.Details) != 1 {
		t.Errorf("%s", raw)
	}
	for hint, want := range map[string]string{
		"`forkcell exec a -- CMD` runs a command in it": "`exec {\"cell\":\"a\"}` runs a command in it",
		"`forkcell ls` shows them, or give --wait":      "`cell_list` shows them, or give wait",
		"`forkcell restore a chk_1`":                    "`restore {\"cell\":\"a\",\"checkpoint\":\"chk_1\"}`",
		"`forkcell accept a` accepts it":                "`forkcell accept a` accepts it", // the caller may not
		"wait until the run has ended":                  "wait until the run has ended",
		"the directory /srv/a--b is it":                 "the directory /srv/a--b is it",
	} {
		a.body = `{"code":"live","detail":"cell a is live","hint":"` + hint + `","details":[]}`
		if _, text := callTool(t, s, "checkpoint", nil); text != "live: cell a is live\nhint: "+want {
			t.Errorf("%s: %s", hint, text)
		}
	}
	for _, body := range []string{"", "{}", "nonsense"} {
		a.body = body
		if res, text := callTool(t, s, "checkpoint", nil); !res.IsError || !strings.Contains(text, "Conflict") {
			t.Errorf("%s", text)
		}
	}
}

// TestStreams reads streams of commands that do not end as they should.
func TestStreams(t *testing.T) {
	t.Parallel()
	a := &answers{status: 200, kind: eventStreamType}
	s := connect(t, Session{Client: a, Rights: Rights{Run: true, Cell: "a"}})
	for _, c := range []struct{ name, body, want string }{
		{"cut", "event: stdout\ndata: {\"data\":\"aGk=\"}\n\n", "ended before"},
		{"empty", "", "ended before"},
		{"problem", "event: problem\ndata: {\"code\":\"seal\",\"detail\":\"no\"}\n\n", "seal: no"},
		{"malformed", "event: result\ndata: {\n\n", "unexpected end"},
		{"not base64", "event: stdout\ndata: {\"data\":\"?\"}\n\n", "illegal base64"},
	} {
		a.body = c.body
		if res, text := callTool(t, s, "run", map[string]any{"command": []string{"true"}}); !res.IsError || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
	a.body = ":\n\nevent: stdout\ndata: {\"data\":\"aGk=\"}\n\nevent: unknown\ndata: {}\n\nevent: result\ndata: {\"outcome\":\"succeeded\"}\n\n"
	if res, text := callTool(t, s, "run", map[string]any{"command": []string{"true"}}); res.IsError || !strings.HasSuffix(text, "stdout:\nhi") {
		t.Errorf("%s", text)
	}
}

// FuzzStream keeps the beginning and the end of any output, and never half a
// character.
func FuzzStream(f *testing.F) {
	f.Add([]byte("hello"), 3)
	f.Add([]byte(strings.Repeat("ä", maxText)), 7)
	f.Add([]byte("\xff"), 1)
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		var s stream
		for rest := data; len(rest) > 0; {
			n := min(max(step, 1), len(rest))
			s.write(rest[:n])
			rest = rest[n:]
		}
		text, raw := s.text()
		switch {
		case len(data) <= maxText && utf8.Valid(data) && text != string(data):
			t.Errorf("%q is not %q", text, data)
		case utf8.Valid(data) && (raw != nil || !utf8.ValidString(text)):
			t.Errorf("half a character: %q", text)
		case len(text) > maxText+100 || len(raw) > maxText:
			t.Errorf("%d %d bytes", len(text), len(raw))
		case !utf8.Valid(data) && len(data) <= maxText && string(raw) != string(data):
			t.Errorf("%q is not %q", raw, data)
		}
	})
}

// TestSessions checks whose a session is.
func TestSessions(t *testing.T) {
	t.Parallel()
	h, ok := NewCatalog("v1").Handler(func(*http.Request) Session { return Session{} }, nil).(*handler)
	if !ok {
		t.Fatal("not a handler")
	}
	id := h.newID("a")
	if !h.owns("a", id) || h.owns("b", id) || h.owns("", id) || h.owns("a", "") || h.owns("a", id[:len(id)-1]) || h.owns("a", "x"+id) {
		t.Error(id)
	}
	for range 3 * maxSessions {
		if h.open(Session{ID: "a"}) == nil {
			t.Fatal("sessions that have not begun are counted")
		}
	}
	for range maxSessions {
		here, _ := sdk.NewInMemoryTransports()
		session, err := h.open(Session{ID: "a"}).Connect(context.WithoutCancel(t.Context()), here, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
	}
	if h.open(Session{ID: "a"}) != nil {
		t.Error("no bound")
	}
	if h.open(Session{ID: "b"}) == nil {
		t.Error("the bound of one caller is that of another")
	}
}
