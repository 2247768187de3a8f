package daemon_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestRunThatCannotStart: a limit that cannot be had is a problem, though the run is
// recorded. The problem names its receipt.
func TestRunThatCannotStart(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := api.RunBody{Command: []string{"true"}, RunSettings: api.RunSettings{PIDs: 1}}
	r := d.send("POST", "/v1/cells/demo/runs", run)
	if r.status != http.StatusUnprocessableEntity {
		t.Fatalf("%d %s", r.status, r.body)
	}
	var p api.Problem
	d.want(http.StatusUnprocessableEntity, &p, "POST", "/v1/cells/demo/runs", run)
	// Where there are no control groups, no limit of processes can be had.
	if !slices.Contains([]api.Code{api.CodePIDs, api.CodeUnenforced}, p.Code) || p.Hint == "" || len(p.Details) != 2 {
		t.Fatalf("%+v", p)
	}
	id, ok := strings.CutPrefix(p.Details[1], "receipt ")
	if !ok {
		t.Fatalf("details %q", p.Details)
	}
	var doc map[string]any
	d.want(200, &doc, "GET", "/v1/receipts/"+id, nil)
	var info api.RunInfo
	d.want(200, &info, "GET", "/v1/runs/"+strings.TrimPrefix(p.Details[0], "run "), nil)
	if info.Outcome != "error" {
		t.Errorf("the run ended with %s", info.Outcome)
	}

	r = d.send("POST", "/v1/cells/demo/runs", run, "Accept", "text/event-stream")
	at := func(name string) int { return strings.Index(string(r.body), "event: "+name+"\n") }
	if r.status != 200 || at("problem") < 0 || at("result") < at("problem") {
		t.Errorf("%d %s", r.status, r.body)
	}
}
