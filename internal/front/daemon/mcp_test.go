package daemon_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api"
)

// model is a client of the Model Context Protocol.
type model struct {
	testing.TB
	*sdk.ClientSession
}

// connect connects a model to the daemon.
func (d *testDaemon) connect(o *sdk.ClientOptions) *model {
	d.Helper()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(d.Context(),
		&sdk.StreamableClientTransport{Endpoint: d.site + "/mcp", HTTPClient: d.client}, nil)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = s.Close() })
	return &model{d.TB, s}
}

// try calls a tool, and decodes the document of its result into doc unless that is
// nil.
func (m *model) try(doc any, tool string, args map[string]any) *sdk.CallToolResult {
	m.Helper()
	res, err := m.CallTool(m.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		m.Fatalf("%s: %v", tool, err)
	}
	if len(res.Content) != 1 || text(res) == "" {
		m.Errorf("%s has no text: %+v", tool, res)
	}
	if doc == nil {
		return res
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, doc)
	}
	if err != nil {
		m.Fatalf("%s: %v", tool, err)
	}
	return res
}

// do calls a tool that succeeds.
func (m *model) do(doc any, tool string, args map[string]any) string {
	m.Helper()
	res := m.try(doc, tool, args)
	if res.IsError {
		m.Fatalf("%s: %s", tool, text(res))
	}
	return text(res)
}

// fails calls a tool that fails with a code.
func (m *model) fails(code api.Code, tool string, args map[string]any) {
	m.Helper()
	var doc struct {
		Code          api.Code
		Message, Hint string
	}
	if res := m.try(&doc, tool, args); !res.IsError || doc.Code != code || doc.Message == "" || !strings.HasPrefix(text(res), string(code)+": ") {
		m.Errorf("%s: %v %+v %s", tool, res.IsError, doc, text(res))
	}
}

func text(res *sdk.CallToolResult) string {
	if len(res.Content) == 0 {
		return ""
	}
	c, ok := res.Content[0].(*sdk.TextContent)
	if !ok {
		return ""
	}
	return c.Text
}

// tools returns the names of the tools.
func (m *model) tools() map[string]*sdk.Tool {
	m.Helper()
	tools := map[string]*sdk.Tool{}
	for t, err := range m.Tools(m.Context(), nil) {
		if err != nil {
			m.Fatal(err)
		}
		tools[t.Name] = t
	}
	return tools
}

// TestMCPStory makes a cell, runs, accepts and applies by tools.
func TestMCPStory(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	m := d.connect(nil)
	m.do(nil, "cell_create", map[string]any{"name": "demo", "source": map[string]any{"path": d.source}})
	var run api.RunAnswer
	said := m.do(&run, "run", map[string]any{"cell": "demo", "command": []string{"sh", "-c", "cat; echo oops >&2; echo hi > hello.txt"}, "stdin": "given", "timeout": "30s"})
	if run.Outcome != "succeeded" || run.Stdout != "given" || run.Stderr != "oops\n" || run.ChangedFiles != 1 || !strings.Contains(said, "oops") {
		t.Errorf("%+v %s", run, said)
	}
	said = m.do(nil, "diff", map[string]any{"cell": "demo", "run": run.RunID})
	if !strings.Contains(said, "1 change\n") || !strings.Contains(said, "\n-hello\n+hi\n") {
		t.Error(said)
	}
	m.do(nil, "checkpoint", map[string]any{"cell": "demo", "name": "good"})
	var failed api.RunAnswer
	m.do(&failed, "run", map[string]any{"cell": "demo", "command": []string{"sh", "-c", "rm hello.txt; exit 7"}})
	if failed.ExitCode != 7 || failed.Decision != "pending" {
		t.Errorf("%+v", failed)
	}
	m.do(nil, "restore", map[string]any{"cell": "demo", "run": failed.RunID, "reason": "it failed"})
	var forks api.ForkedCells
	m.do(&forks, "fork", map[string]any{"cell": "demo", "name": "try", "n": 2})
	if len(forks.Cells) != 2 {
		t.Errorf("%+v", forks)
	}
	m.do(nil, "accept", map[string]any{"cell": "demo", "run": run.RunID, "apply": true, "reason": "good"})
	if text, err := os.ReadFile(filepath.Join(d.source, "hello.txt")); err != nil || string(text) != "hi\n" {
		t.Errorf("%q, %v", text, err)
	}
	var verified api.ReceiptVerifyResult
	m.do(&verified, "receipt_verify", map[string]any{"cell": "demo"})
	if !verified.OK || verified.Checked == 0 {
		t.Errorf("%+v", verified)
	}
	m.do(nil, "receipt_show", map[string]any{"receipt": run.ReceiptID})
	m.do(nil, "policy_explain", map[string]any{"cell": "demo", "path": "/etc/passwd"})
	var cells api.List[api.CellInfo]
	m.do(&cells, "cell_list", nil)
	if len(cells.Items) != 3 {
		t.Errorf("%+v", cells)
	}
	m.do(nil, "cell_remove", map[string]any{"cell": "try-1"})
	m.fails(api.CodeNotFound, "run", map[string]any{"cell": "try-1", "command": []string{"true"}})
	if said := m.do(nil, "cell_undelete", map[string]any{"cell": "try-1"}); said != "cell try-1 is back" {
		t.Error(said)
	}
	m.do(nil, "run", map[string]any{"cell": "try-1", "command": []string{"true"}})
	m.fails(api.CodeUsage, "run", map[string]any{"cell": "demo", "command": []string{"true"}, "timeout": "soon"})
}

// TestMCPLive starts a cell and executes commands in it.
func TestMCPLive(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	m := d.connect(nil)
	m.fails(api.CodeNotStarted, "exec", map[string]any{"cell": "demo", "command": []string{"true"}})
	m.do(nil, "start", map[string]any{"cell": "demo"})
	var end api.ExecAnswer
	m.do(&end, "exec", map[string]any{"cell": "demo", "command": []string{"sh", "-c", "echo out; exit 3"}})
	if end.ExitCode != 3 || end.Stdout != "out\n" {
		t.Errorf("%+v", end)
	}
	var paused api.PauseResult
	m.do(&paused, "pause", map[string]any{"cell": "demo", "fs_only": true})
	if paused.State != api.StatePaused || !paused.FSOnly {
		t.Errorf("%+v", paused)
	}
	m.fails(api.CodePaused, "exec", map[string]any{"cell": "demo", "command": []string{"true"}})
	m.do(&paused, "resume", map[string]any{"cell": "demo"})
	if paused.State != api.StateLive || !paused.Changed {
		t.Errorf("%+v", paused)
	}
	m.do(nil, "stop", map[string]any{"cell": "demo", "grace": "0s"})
}

// TestMCPOutput runs a command that writes more than a model should read.
func TestMCPOutput(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	m := d.connect(nil)
	var run api.RunAnswer
	m.do(&run, "run", map[string]any{"cell": "demo", "command": []string{"sh", "-c", "echo begin; yes äö | head -c 5000000; echo; echo end; printf '\\377' >&2"}})
	if !run.Truncated || len(run.Stdout) > 20_000 || !strings.HasPrefix(run.Stdout, "begin\n") || !strings.HasSuffix(run.Stdout, "end\n") ||
		!strings.Contains(run.Stdout, "bytes left out") || string(run.StderrBase64) != "\xff" {
		t.Errorf("%v %d %q %q", run.Truncated, len(run.Stdout), run.Stdout[:20], run.StderrBase64)
	}
}

// TestMCPCancel cancels a call: the run ends, and is decided as its flags say.
func TestMCPCancel(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	began := make(chan struct{}, 100)
	m := d.connect(&sdk.ClientOptions{ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { began <- struct{}{} }})
	ctx, cancel := context.WithCancel(t.Context())
	params := &sdk.CallToolParams{Name: "run", Arguments: map[string]any{"cell": "demo", "command": []string{"sleep", "1000"}, "restore_on_fail": true}}
	params.SetProgressToken("p")
	ended := make(chan error, 1)
	go func() {
		_, err := m.CallTool(ctx, params)
		ended <- err
	}()
	<-began // the client is told that the run goes on
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call was not cancelled")
	}
	var runs api.List[api.RunInfo]
	for runs.Items == nil || runs.Items[0].State == "running" {
		d.want(200, &runs, "GET", "/v1/cells/demo/runs", nil)
	}
	if r := runs.Items[0]; r.Outcome != "interrupted" || r.Decision != "restored" {
		t.Errorf("%+v", r)
	}
}

// TestMCPTools looks at the list of tools.
func TestMCPTools(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	m := d.connect(nil)
	tools := m.tools()
	want := map[string]bool{ // whether it only reads
		"cell_create": false, "cell_list": true, "cell_remove": false, "cell_undelete": false, "run": false, "start": false, "stop": false, "pause": false, "resume": false, "exec": false, "branch": false, "eval": false,
		"read_file": true, "write_file": false, "list_files": true, "search_files": true,
		"checkpoint": false, "restore": false, "fork": false, "diff": true, "accept": false, "reject": false, "apply": false, "race": false,
		"policy_explain": true, "policy_suggest": true, "events": true, "receipt_show": true, "receipt_verify": true, "wait_for_text": true,
		"agent_list": true, "session_start": false, "session_list": true, "session_show": true, "session_send": false, "session_turns": true,
		"session_timeline": true, "session_rewind": false, "session_stop": false, "session_accept": false, "session_publish": false,
	}
	for name, reads := range want {
		if tools[name] == nil || tools[name].Description == "" || tools[name].Title == "" || tools[name].Annotations.ReadOnlyHint != reads ||
			tools[name].Annotations.DestructiveHint == nil || reads && *tools[name].Annotations.DestructiveHint {
			t.Errorf("%s: %+v", name, tools[name])
		}
	}
	if len(tools) != len(want) {
		t.Errorf("%d tools", len(tools))
	}
	if a := tools["cell_remove"].Annotations; !*a.DestructiveHint || !a.IdempotentHint {
		t.Errorf("%+v", a)
	}
	schema, err := json.Marshal(tools["run"].InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Required             []string
		AdditionalProperties *bool
		Properties           map[string]struct {
			Type, Description string
		}
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Required, []string{"cell", "command"}) || s.AdditionalProperties == nil || *s.AdditionalProperties ||
		s.Properties["command"].Type != "array" || s.Properties["stdin_base64"].Type != "string" {
		t.Errorf("%s", schema)
	}
	for name, p := range s.Properties {
		if p.Description == "" {
			t.Errorf("%s is not described", name)
		}
	}
}

// TestMCPResources reads documents by their URIs.
func TestMCPResources(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	var run api.RunAnswer
	d.want(200, &run, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}})
	m := d.connect(nil)
	for _, uri := range []string{"cells", "policies", "cells/demo", "cells/demo/policy", "cells/demo/diff", "cells/demo/runs/" + run.RunID + "/diff", "runs/" + run.RunID, "receipts/" + run.ReceiptID} {
		res, err := m.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "forkcell://" + uri})
		if err != nil || len(res.Contents) != 1 || !json.Valid([]byte(res.Contents[0].Text)) {
			t.Errorf("%s: %v %+v", uri, err, res)
		}
	}
	for _, uri := range []string{"receipts/rcpt_none", "cells/..", "cells/%2e%2e", "receipts/..%2fkeys", "keys"} {
		if res, err := m.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "forkcell://" + uri}); err == nil {
			t.Errorf("%s: %+v", uri, res.Contents[0])
		}
	}
}

// TestMCPForeignSession sends the id of a session that does not exist, and requests
// without one.
func TestMCPForeignSession(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	m := d.connect(nil)
	accept := []string{"Accept", "application/json, text/event-stream"}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	id := m.ID()
	forged := strings.Repeat("A", 26) + id[strings.Index(id, "."):]
	for _, session := range []string{"x", forged, id + "x", "." + id} {
		if r := d.send("POST", "/mcp", ping, append(accept, "Mcp-Session-Id", session)...); r.status != http.StatusNotFound {
			t.Errorf("%q: %d %s", session, r.status, r.body)
		}
	}
	if r := d.send("POST", "/mcp", ping, append(accept, "Mcp-Session-Id", id)...); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := d.send("GET", "/mcp", nil, accept...); r.status != http.StatusBadRequest {
		t.Errorf("%d %s", r.status, r.body)
	}
}
