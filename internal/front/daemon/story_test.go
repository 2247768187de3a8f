package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

// TestStory makes a cell, runs, accepts and applies over the API.
func TestStory(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	var made api.InitResult
	h := d.want(http.StatusCreated, &made, "POST", "/v1/cells", api.CreateCell{Name: "demo", Source: &api.Source{Path: d.source}})
	if h.Get("Location") != "/v1/cells/demo" || made.Files != 1 {
		t.Errorf("%v %+v", h, made)
	}
	var run api.RunAnswer
	d.want(200, &run, "POST", "/v1/cells/demo/runs", api.RunBody{
		Command: []string{"sh", "-c", "cat; echo oops >&2; echo hi > hello.txt"}, Stdin: "given",
		RunSettings: api.RunSettings{Env: map[string]string{"A": "b"}, Timeout: "30s"},
	})
	if run.Outcome != "succeeded" || run.Stdout != "given" || run.Stderr != "oops\n" || run.Decision != "pending" || run.ChangedFiles != 1 {
		t.Errorf("%+v", run)
	}
	var accepted api.AcceptResult
	d.want(200, &accepted, "POST", "/v1/cells/demo/accept", api.AcceptRequest{Apply: true, Reason: "good"})
	if text, err := os.ReadFile(filepath.Join(d.source, "hello.txt")); err != nil || string(text) != "hi\n" {
		t.Errorf("%q, %v", text, err)
	}
	var info api.RunInfo
	d.want(200, &info, "GET", "/v1/runs/"+run.RunID, nil)
	if info.State != "ended" || info.Decision != "accepted" || info.Cell != "demo" {
		t.Errorf("%+v", info)
	}
	d.want(http.StatusNoContent, nil, "DELETE", "/v1/cells/demo", nil)
	d.problem(404, api.CodeNotFound, "GET", "/v1/cells/demo", nil)
}

// TestConditionalMoves sends the ETag of a cell with a change.
func TestConditionalMoves(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	old := d.want(200, nil, "GET", "/v1/cells/demo", nil).Get("ETag")
	d.want(200, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}}, "If-Match", old)
	d.problem(412, api.CodeChanged, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}}, "If-Match", old)
	d.problem(412, api.CodeChanged, "POST", "/v1/cells/demo/restore", nil, "If-Match", old)
	for _, malformed := range []string{"", "nonsense", "3", `W/"3"`, `"3", "4"`} {
		d.problem(400, api.CodeUsage, "POST", "/v1/cells/demo/restore", nil, "If-Match", malformed)
	}
	d.problem(400, api.CodeUsage, "POST", "/v1/cells/demo/restore", nil, "If-Match", "*", "If-Match", "*")
	d.want(200, nil, "POST", "/v1/cells/demo/accept", nil, "If-Match", "*")
	labels, fork := `{"labels": {"team": "a"}}`, api.ForkBody{Name: "try"}
	race := api.RaceBody{Cell: "demo", Command: []string{"true"}, N: 2}
	for _, r := range []struct {
		status       int
		method, path string
		body         any
	}{
		{200, "PATCH", "/v1/cells/demo", labels},
		{201, "POST", "/v1/cells/demo/fork", fork},
		{200, "POST", "/v1/race", race},
		{204, "DELETE", "/v1/cells/demo", nil},
	} {
		d.problem(412, api.CodeChanged, r.method, r.path, r.body, "If-Match", old)
		d.want(r.status, nil, r.method, r.path, r.body, "If-Match", d.revision("demo"))
	}
}

// TestStream reads the output of a run as it comes.
func TestStream(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	r := d.send("POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "echo one; echo two >&2; exit 3"}}, "Accept", "text/event-stream")
	var names []string
	var result api.RunResult
	for lines := bufio.NewScanner(bytes.NewReader(r.body)); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			names = append(names, name)
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && names[len(names)-1] == "result" {
			if err := json.Unmarshal([]byte(data), &result); err != nil {
				t.Fatal(err)
			}
		}
	}
	sorted := slices.Sorted(slices.Values(names)) // the command's output and the events of the run come in any order
	want := []string{"event", "event", "event", "event", "result", "started", "stderr", "stdout"}
	if names[0] != "started" || names[len(names)-1] != "result" || !slices.Equal(sorted, want) || result.ExitCode != 3 {
		t.Errorf("%v %+v", names, result)
	}
	d.problem(404, api.CodeNotFound, "POST", "/v1/cells/none/runs", api.RunBody{Command: []string{"true"}}, "Accept", "text/event-stream")
}

// TestAsync begins a run, and ends it.
func TestAsync(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	var begun api.RunStarted
	h := d.want(http.StatusAccepted, &begun, "POST", "/v1/cells/demo/runs",
		api.RunBody{Command: []string{"sleep", "1000"}, RestoreOnFail: true}, "Prefer", "respond-async")
	if h.Get("Location") != "/v1/runs/"+begun.RunID {
		t.Errorf("%v", h)
	}
	var info api.RunInfo
	d.want(200, &info, "GET", h.Get("Location"), nil)
	if info.State != "running" {
		t.Errorf("%+v", info)
	}
	d.want(http.StatusAccepted, nil, "POST", h.Get("Location")+"/cancel", nil)
	for limit := time.Now().Add(time.Minute); info.State == "running" && time.Now().Before(limit); {
		d.want(200, &info, "GET", h.Get("Location"), nil)
	}
	if info.Outcome != "interrupted" || info.Decision != "restored" {
		t.Errorf("%+v", info)
	}
}

// TestOneDaemon starts a second daemon on a home.
func TestOneDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	err := daemon.Serve(context.Background(), d.home, api.ServeOptions{}, io.Discard, func([]string) error { return nil })
	if api.KindOf(err) != api.Busy || !strings.Contains(err.Error(), "process") {
		t.Error(err)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.start(api.ServeOptions{}) // the socket of the first is no obstacle
	d.want(200, nil, "GET", "/readyz", nil)
}

// TestMalformed sends what no route takes.
func TestMalformed(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	for _, c := range []struct {
		name, body string
	}{
		{"syntax", `{"command":`},
		{"type", `{"command":"true"}`},
		{"unknown", `{"command":["true"],"shell":true}`},
		{"empty", `{"command":[]}`},
		{"missing", `{}`},
		{"null", `null`},
		{"case", `{"Command":["true"]}`},
		{"duration", `{"command":["true"],"timeout":"soon"}`},
		{"size", `{"command":["true"],"memory":"lots"}`},
		{"policy", `{"command":["true"],"policy":"version: 9\n"}`},
		{"stdin twice", `{"command":["true"],"stdin":"a","stdin_base64":"Yg=="}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := *d
			d.TB = t
			var p api.Problem
			d.want(400, &p, "POST", "/v1/cells/demo/runs", c.body)
			if p.Detail == "" || p.Instance == "" {
				t.Errorf("%+v", p)
			}
		})
	}
	d.problem(400, api.CodeUsage, "GET", "/v1/cells?limit=0", nil)
	d.problem(400, api.CodeUsage, "GET", "/v1/cells?colour=red", nil)
	d.problem(400, api.CodeUsage, "GET", "/v1/cells?cursor=x", nil)
	d.problem(404, api.CodeNotFound, "GET", "/v2", nil)
}

// TestEndedRunLeavesItsCellFree removes a cell as soon as its run is said to have ended,
// in each of the ways in which that is said.
func TestEndedRunLeavesItsCellFree(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	for i, wait := range []func(run string){
		func(run string) {
			for info := (api.RunInfo{}); info.State != "ended"; {
				d.want(200, &info, "GET", "/v1/runs/"+run, nil)
			}
		},
		func(string) {
			for list := (api.List[api.RunInfo]{}); len(list.Items) == 0 || list.Items[len(list.Items)-1].State != "ended"; {
				list = api.List[api.RunInfo]{}
				d.want(200, &list, "GET", "/v1/runs", nil)
			}
		},
		func(run string) { d.want(200, nil, "GET", "/v1/runs/"+run+"/logs?follow=true", nil) },
		func(run string) { d.send("GET", "/v1/runs/"+run+"/events?follow=true", nil) },
	} {
		for n := range 4 {
			name := fmt.Sprintf("c%d-%d", i, n)
			d.cell(name)
			var begun api.RunStarted
			d.want(202, &begun, "POST", "/v1/cells/"+name+"/runs", api.RunBody{Command: []string{"sh", "-c", "echo new > new"}}, "Prefer", "respond-async")
			wait(begun.RunID)
			d.want(204, nil, "DELETE", "/v1/cells/"+name+"?force=true", nil)
		}
	}
}
