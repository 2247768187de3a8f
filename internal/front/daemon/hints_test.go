package daemon_test

import (
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestHints: hints name requests and fields to a caller of the API, tools and arguments
// to a model, and commands and flags to those who ask for them.
func TestHints(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	var run api.RunAnswer
	d.want(200, &run, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "echo a > file; false"}})
	m := d.connect(nil)
	for _, c := range []struct {
		status         int
		code           api.Code
		verb, tool     string
		body           any
		args           map[string]any
		hint, toolHint string
	}{
		{
			409, api.CodeFailedRun, "accept", "accept", nil,
			map[string]any{"run": run.RunID},
			"`POST /v1/cells/demo/accept {\"force\":true,\"run\":\"" + run.RunID + "\"}` accepts it all the same, `POST /v1/cells/demo/reject {\"run\":\"" + run.RunID + "\"}` takes it back",
			"`accept {\"cell\":\"demo\",\"force\":true,\"run\":\"" + run.RunID + "\"}` accepts it all the same, `reject {\"cell\":\"demo\",\"run\":\"" + run.RunID + "\"}` takes it back",
		},
		{
			409, api.CodeNotStarted, "exec", "exec",
			api.ExecBody{Command: []string{"true"}},
			map[string]any{"command": []string{"true"}},
			"`POST /v1/cells/demo/start` starts it", "`start {\"cell\":\"demo\"}` starts it",
		},
		{
			404, api.CodeNotFound, "restore", "restore",
			api.RestoreRequest{Checkpoint: "absent"},
			map[string]any{"checkpoint": "absent"},
			"`GET /v1/cells/demo/log` shows them", "`events {\"cell\":\"demo\"}` shows them",
		},
	} {
		if p := d.problem(c.status, c.code, "POST", "/v1/cells/demo/"+c.verb, c.body); p.Hint != c.hint {
			t.Errorf("%s: %s", c.verb, p.Hint)
		}
		args := map[string]any{"cell": "demo"}
		for name, value := range c.args {
			args[name] = value
		}
		var failed struct{ Hint string }
		if res := m.try(&failed, c.tool, args); !res.IsError || failed.Hint != c.toolHint {
			t.Errorf("%s: %s", c.tool, failed.Hint)
		}
	}
	var p api.Problem
	r := d.send("POST", "/v1/cells/demo/accept", nil, "Forkcell-Hints", "command-line")
	if decodeInto(t, r.body, &p); !strings.HasPrefix(p.Hint, "`forkcell accept demo --run "+run.RunID+" --force` accepts it") {
		t.Errorf("%s", r.body)
	}
	if p := d.problem(400, api.CodeUsage, "POST", "/v1/race", `{"cell":"demo","command":["true"],"n":2,"best":"score"}`); p.Detail != "best score needs judge" {
		t.Errorf("%s", p.Detail)
	}
}
