package daemon_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api"
)

// TestMCPSession: a model starts an agent, speaks to it, takes it back and ends it.
func TestMCPSession(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	m := d.connect(nil)
	if said := m.do(nil, "agent_list", nil); !strings.Contains(said, "generic: ready") {
		t.Error(said)
	}
	var i api.AgentSession
	said := m.do(&i, "session_start", map[string]any{
		"cell": "demo", "agent": "generic", "allow_nongit": true, "turns": "1h", "arguments": listener("").Arguments,
	})
	t.Cleanup(func() { d.remove("demo-generic") })
	if i.Status != api.SessionRunning || !strings.Contains(said, "session demo-generic: generic running, mode strict, managed") {
		t.Errorf("%s: %+v", said, i)
	}
	about := map[string]any{"session": "demo-generic"}
	m.do(nil, "session_send", map[string]any{"session": "demo-generic", "message": "one"})
	for begin := time.Now(); !strings.Contains(d.said("demo-generic"), "one"); {
		if time.Since(begin) > time.Minute {
			t.Fatal("the agent did not hear")
		}
	}
	d.turn("demo-generic")
	if said := m.do(nil, "session_turns", about); !strings.Contains(said, "turn 1: chk_") {
		t.Error(said)
	}
	m.fails(api.CodeLive, "session_accept", map[string]any{"session": "demo-generic", "runs": i.RunIDs})
	if said := m.do(nil, "session_rewind", map[string]any{"session": "demo-generic", "to": 0}); !strings.Contains(said, "is back at turn 0") || d.said("demo-generic") != "" {
		t.Error(said)
	}
	if said := m.do(nil, "session_list", map[string]any{"status": "running"}); !strings.HasPrefix(said, "1 session\n") {
		t.Error(said)
	}
	if said := m.do(nil, "session_stop", about); !strings.Contains(said, "exited") {
		t.Error(said)
	}
	m.do(nil, "session_show", about)
	if said := m.do(nil, "session_timeline", about); !strings.Contains(said, "launch") {
		t.Error(said)
	}
	m.fails(api.CodeNotFound, "session_show", map[string]any{"session": "demo"})
}

// TestMCPSessionRights: who may not decide has no tools for it, and who is not the
// operator no arguments for what is the operator's.
func TestMCPSessionRights(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	m := d.connect(nil)
	if tools := m.tools(); tools["session_accept"] == nil || tools["session_publish"] == nil || !has(t, tools["session_start"], "acknowledged") {
		t.Error("the operator lacks a tool")
	}
	run := d.token(api.TokenBody{Name: "run", Scopes: []string{"run"}})
	tools := run.connect(nil).tools()
	if tools["session_accept"] != nil || tools["session_publish"] != nil || tools["session_start"] == nil {
		t.Errorf("%v", tools)
	}
	for _, name := range []string{"allow", "acknowledged", "as_root"} {
		if has(t, tools["session_start"], name) || has(t, tools["session_rewind"], name) {
			t.Errorf("a token has the argument %s", name)
		}
	}
}

// has reports whether a tool has an argument.
func has(t *testing.T, tool *sdk.Tool, argument string) bool {
	t.Helper()
	raw, err := json.Marshal(tool.InputSchema)
	var schema struct{ Properties map[string]any }
	if err == nil {
		err = json.Unmarshal(raw, &schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, ok := schema.Properties[argument]
	return ok
}
