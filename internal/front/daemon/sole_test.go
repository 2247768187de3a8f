package daemon_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// TestSole makes a cell of a directory only if no cell was made from it.
func TestSole(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{AllowSource: []string{os.TempDir()}})
	source := &api.Source{Path: d.source}
	d.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "one", Source: source, Sole: true})
	d.problem(409, api.CodeNameTaken, "POST", "/v1/cells", api.CreateCell{Name: "two", Source: source, Sole: true})
	d.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "two", Source: source})
	// A caller who does not see the others does not learn of them.
	bound := d.token(api.TokenBody{Name: "bound", Scopes: []string{"run"}, Cells: "b-"})
	bound.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "b-one", Source: source, Sole: true})
}

// TestRefreshWaits refreshes a cell while a run is at work in it.
func TestRefreshWaits(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	var run api.RunStarted
	d.want(202, &run, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sleep", "1000"}}, "Prefer", "respond-async")
	d.problem(409, api.CodeBusy, "POST", "/v1/cells/demo/refresh", nil)
	d.problem(409, api.CodeBusy, "POST", "/v1/cells/demo/refresh", api.RefreshRequest{Wait: api.Duration(time.Millisecond)})
	d.problem(400, api.CodeUsage, "POST", "/v1/cells/demo/refresh", map[string]string{"wait": "soon"})
	answer := make(chan reply, 1)
	go func() {
		answer <- d.send("POST", "/v1/cells/demo/refresh", api.RefreshRequest{Wait: api.Duration(time.Minute)})
	}()
	d.want(202, nil, "POST", "/v1/runs/"+run.RunID+"/cancel", nil)
	if r := <-answer; r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestChooseWaits chooses an attempt while a run is at work in the cell.
func TestChooseWaits(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	var race api.RaceResult
	d.want(200, &race, "POST", "/v1/race", api.RaceBody{Cell: "demo", Command: []string{"touch", "made"}, N: 1, Keep: true})
	var run api.RunStarted
	d.want(202, &run, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sleep", "1000"}}, "Prefer", "respond-async")
	choose := api.ChooseRequest{Attempt: race.Attempts[0].Cell, Wait: api.Duration(time.Millisecond)}
	d.problem(409, api.CodeBusy, "POST", "/v1/cells/demo/choose", choose)
	answer := make(chan reply, 1)
	choose.Wait = api.Duration(time.Minute)
	go func() { answer <- d.send("POST", "/v1/cells/demo/choose", choose) }()
	d.want(202, nil, "POST", "/v1/runs/"+run.RunID+"/cancel", nil)
	if r := <-answer; r.status == 409 && strings.Contains(string(r.body), string(api.CodeBusy)) {
		t.Errorf("%d %s", r.status, r.body)
	}
}
