package daemon_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// TestRace races two commands, and accepts the better one.
func TestRace(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	body := api.RaceBody{
		Cell: "demo", Judge: []string{"sh", "-c", "wc -c < result"}, Best: "score", Accept: true,
		Attempts: []api.RaceAttemptBody{{Command: []string{"sh", "-c", "echo short > result"}}, {Command: []string{"sh", "-c", "echo much longer > result"}}},
	}
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}})
	runner.problem(403, api.CodeForbidden, "POST", "/v1/race", body)
	var res api.RaceResult
	d.want(200, &res, "POST", "/v1/race", body)
	if res.Winner == nil || *res.Winner != 2 || len(res.Attempts) != 2 || res.DecisionID == "" {
		t.Errorf("%+v", res)
	}
	r := runner.send("POST", "/v1/race", api.RaceBody{Cell: "demo", Command: []string{"false"}, N: 2}, "Accept", "text/event-stream")
	for _, want := range []string{"event: attempt\n", "event: result\n", `"winner":null`} {
		if !strings.Contains(string(r.body), want) {
			t.Errorf("no %q in %s", want, r.body)
		}
	}
	d.problem(400, api.CodeUsage, "POST", "/v1/race", api.RaceBody{Cell: "demo", Command: []string{"true"}, N: 2, Best: "score"})
	var cells api.List[api.CellInfo]
	d.want(200, &cells, "GET", "/v1/cells", nil)
	if len(cells.Items) != 1 {
		t.Errorf("left over: %+v", cells.Items)
	}
}

// TestRaceStreamFailure: the stream of a race whose winner cannot be applied has the
// problem before the result, for clients that read no further than the result.
func TestRaceStreamFailure(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.want(201, nil, "POST", "/v1/cells", map[string]any{"name": "demo", "source": map[string]bool{"empty": true}})
	body := api.RaceBody{Cell: "demo", Command: []string{"touch", "made"}, N: 1, Accept: true, Apply: true}
	r := d.send("POST", "/v1/race", body, "Accept", "text/event-stream")
	_, rest, found := strings.Cut(string(r.body), "event: problem\n")
	if !found || !strings.Contains(rest, `"code":"no_source"`) || !strings.Contains(rest, "event: result\n") {
		t.Errorf("%s", r.body)
	}
}

// TestRaceSettings: the settings of attempts are checked and bounded as those of runs.
func TestRaceSettings(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}})
	body := api.RaceBody{Cell: "demo", Command: []string{"true"}, N: 1}
	for _, set := range []api.RunSettings{{AllowDegraded: true}, {AsRoot: true}, {Root: "host-overlay"}, {Credentials: map[string]api.CredentialValue{"KEY": {Name: "KEY"}}}} {
		body.RunSettings = set
		runner.problem(403, api.CodeForbidden, "POST", "/v1/race", body)
	}
	body.RunSettings = api.RunSettings{Memory: "much"}
	runner.problem(400, api.CodeUsage, "POST", "/v1/race", body)
	// A policy that a token brings is enforced together with that of the cell, which shows
	// less of the host.
	const shows = "version: 1\nfilesystem_policy:\n  include_workdir: true\n  read_only: [/usr, /lib, /lib64, /bin%s]\n"
	d.want(200, nil, "PUT", "/v1/cells/demo/policy", map[string]string{"policy": fmt.Sprintf(shows, "")})
	body.RunSettings, body.Command = api.RunSettings{Policy: fmt.Sprintf(shows, ", /opt")}, []string{"ls", "/opt"}
	var res api.RaceResult
	runner.want(200, &res, "POST", "/v1/race", body)
	if res.Winner != nil || res.Attempts[0].Outcome != "failed" {
		t.Errorf("an attempt saw more than the cell's policy shows: %+v", res)
	}
	d.want(200, &res, "POST", "/v1/race", body) // the daemon's own user is not bound by it
	if res.Winner == nil {
		t.Errorf("%+v", res)
	}
}

// TestChoose chooses the winner of a race that has ended.
func TestChoose(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	var res api.RaceResult
	d.want(200, &res, "POST", "/v1/race", api.RaceBody{
		Cell: "demo", Judge: []string{"sh", "-c", "wc -c < result"}, Best: "score", Keep: true,
		Attempts: []api.RaceAttemptBody{{Command: []string{"sh", "-c", "echo short > result"}}, {Command: []string{"sh", "-c", "echo much longer > result"}}},
	})
	body := api.ChooseRequest{Attempt: "demo-race-1", Reason: "short"}
	const choose = "/v1/cells/demo/choose"
	d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}}).problem(403, api.CodeForbidden, "POST", choose, body)
	d.token(api.TokenBody{Name: "decider", Scopes: []string{"decide"}}).problem(403, api.CodeForbidden, "POST", choose, body)
	d.token(api.TokenBody{Name: "other", Scopes: []string{"run", "decide"}, Cells: "other"}).problem(404, api.CodeNotFound, "POST", choose, body)
	d.want(200, nil, "PATCH", "/v1/cells/demo-race-2", `{"name":"hidden"}`)
	bound := d.token(api.TokenBody{Name: "bound", Scopes: []string{"run", "decide"}, Cells: "demo"})
	bound.problem(404, api.CodeNotFound, "POST", choose, api.ChooseRequest{Attempt: "hidden"})
	bound.problem(409, api.CodeNoAttempt, "POST", choose, api.ChooseRequest{Attempt: "demo"})
	d.problem(400, api.CodeUsage, "POST", choose, `{}`)
	if r := d.send("POST", choose, body, "If-Match", `"99"`); r.status != 412 {
		t.Errorf("with the revision of another state: %d %s", r.status, r.body)
	}
	var done api.RaceResult
	for range 2 { // the second time nothing happens
		bound.want(200, &done, "POST", choose, body)
		if *done.Winner != 1 || done.DecisionID == "" || len(done.Attempts) != 2 || *done.Attempts[1].Score != *res.Attempts[1].Score || done.Attempts[1].Cell != "" || len(done.Kept) != 1 {
			t.Errorf("%+v", done)
		}
	}
	d.problem(409, api.CodeMoved, "POST", choose, api.ChooseRequest{Attempt: "hidden"})
	var decisions api.List[api.DecisionInfo]
	d.want(200, &decisions, "GET", "/v1/decisions?cell=demo", nil)
	if len(decisions.Items) != 1 || decisions.Items[0].Race == nil || decisions.Items[0].Reason != "short" || decisions.Items[0].Actor == "" {
		t.Errorf("%+v", decisions)
	}
}

// TestSettings changes labels and time limits, and lets a cell expire.
func TestSettings(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.want(201, nil, "POST", "/v1/cells", api.CreateCell{
		Name: "demo", Source: &api.Source{Path: d.source},
		CellSettings: api.CellSettings{Labels: map[string]string{"team": "a"}, TTL: "1h"},
	})
	d.cell("other")
	var list api.List[api.CellInfo]
	d.want(200, &list, "GET", "/v1/cells?label=team=a", nil)
	if len(list.Items) != 1 || list.Items[0].Name != "demo" {
		t.Errorf("%+v", list)
	}
	d.problem(400, api.CodeUsage, "GET", "/v1/cells?label=team", nil)
	var info api.CellInfo
	d.want(200, &info, "PATCH", "/v1/cells/demo", `{"labels":{"team":"b"},"ttl":null,"name":"renamed"}`)
	if info.Name != "renamed" || info.TTL != 0 || info.Labels["team"] != "b" {
		t.Errorf("%+v", info)
	}
	d.want(200, nil, "GET", "/v1/usage", nil)
	d.want(200, nil, "PATCH", "/v1/cells/renamed", `{"ttl":"1s","on_timeout":"remove"}`)
	for limit := time.Now().Add(time.Minute); len(list.Items) > 0 && time.Now().Before(limit); {
		d.want(200, &list, "GET", "/v1/cells?label=team=b", nil)
	}
	if len(list.Items) > 0 {
		t.Errorf("%+v", list)
	}
}
