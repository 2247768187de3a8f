package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
)

// revision returns the ETag of a cell.
func (d *testDaemon) revision(name string) string {
	d.Helper()
	var status api.StatusResult
	d.want(200, &status, "GET", "/v1/cells/"+name, nil)
	return strconv.Quote(strconv.FormatInt(status.Revision, 10))
}

// TestLiveIfMatch: verbs of live cells heed what the caller expects, before they do
// anything.
func TestLiveIfMatch(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	post := func(verb string, body any) {
		t.Helper()
		at := "/v1/cells/demo/" + verb
		d.problem(412, api.CodeChanged, "POST", at, body, "If-Match", `"9999"`)
		d.want(200, nil, "POST", at, body, "If-Match", d.revision("demo"))
	}
	stale := func(method, path string, body any) {
		t.Helper()
		d.problem(412, api.CodeChanged, method, "/v1/cells/demo"+path, body, "If-Match", `"9999"`)
		d.problem(409, map[string]api.Code{"live": api.CodeLive, "paused": api.CodePaused}[d.state("demo")], method, "/v1/cells/demo"+path, body)
	}
	post("start", nil)
	stale("POST", "/restore", api.RestoreRequest{Checkpoint: "base"})
	stale("POST", "/runs", api.RunBody{Command: []string{"true"}})
	stale("DELETE", "", nil)
	post("pause", api.PauseRequest{FSOnly: true})
	stale("POST", "/runs", api.RunBody{Command: []string{"true"}})
	stale("DELETE", "", nil)
	post("resume", nil)
	post("stop", nil)
	post("start", nil)
	post("restore", api.RestoreRequest{Checkpoint: "base", Force: true})
}

// TestLiveForkIfMatch: the state that is captured for a fork or a race of a live cell is a
// statement too, and no change that the caller did not expect.
func TestLiveForkIfMatch(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	d.exec("demo", "sh", "-c", "echo new > file")
	for _, fork := range []string{"captured", "again"} {
		r := d.send("POST", "/v1/cells/demo/fork", api.ForkBody{Name: fork}, "If-Match", d.revision("demo"))
		if lacksFreezer(r) {
			t.Skip("needs a freezer, which not every user has")
		}
		if r.status != 201 {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	race := api.RaceBody{Cell: "demo", Command: []string{"grep", "new", "file"}, N: 2}
	d.problem(412, api.CodeChanged, "POST", "/v1/race", race, "If-Match", `"9999"`)
	d.want(200, nil, "POST", "/v1/race", race, "If-Match", d.revision("demo"))
}

// TestLiveRaceOtherNames: a race whose names are taken in the instant before its cells
// are recorded takes others, on the state that it has captured, and does not say that
// the cell changed.
func TestLiveRaceOtherNames(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	d.exec("demo", "sh", "-c", "echo new > file")
	e, release, err := local.Open(d.home, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = release() }()
	expected := d.revision("demo")
	before, err := strconv.ParseInt(strings.Trim(expected, `"`), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var taken bool
	e.Now = func() time.Time { // new cells have the time at which they are made
		if !taken && d.revision("demo") != expected {
			taken = true
			d.cell("demo-race-2")
		}
		return time.Now()
	}
	race, err := e.BeginRace(t.Context(), engine.RaceOptions{Cell: "demo", Attempts: 2, Expect: &before})
	if api.CodeOf(err) == api.CodeFreezer {
		t.Skip("needs a freezer, which not every user has")
	}
	if err != nil {
		t.Fatal(err)
	}
	if names := race.Attempts(); !taken || !slices.Equal(names, []string{"demo-race2-1", "demo-race2-2"}) {
		t.Errorf("taken: %v; the attempts are %q", taken, names)
	}
	if _, err := race.End(t.Context()); err != nil {
		t.Error(err)
	}
	var states api.List[api.CheckpointInfo]
	d.want(200, &states, "GET", "/v1/cells/demo/checkpoints", nil)
	if len(states.Items) != 2 {
		t.Errorf("captured more than once: %+v", states.Items)
	}
}

// live makes a live cell, which ends with the test.
func (d *testDaemon) live(name string) api.StartResult {
	d.Helper()
	d.cell(name)
	var started api.StartResult
	d.want(200, &started, "POST", "/v1/cells/"+name+"/start", nil)
	d.Cleanup(func() { d.remove(name) })
	return started
}

// remove removes a cell without the daemon, which may have ended.
func (d *testDaemon) remove(name string) {
	d.Helper()
	e, release, err := local.Open(d.home, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		d.Fatal(err)
	}
	if err := errors.Join(e.Remove(context.Background(), name, true), release()); err != nil {
		d.Error(err)
	}
}

// exec executes a command in a live cell.
func (d *testDaemon) exec(cell string, command ...string) api.ExecAnswer {
	d.Helper()
	var res api.ExecAnswer
	d.want(200, &res, "POST", "/v1/cells/"+cell+"/exec", api.ExecBody{Command: command})
	return res
}

func (d *testDaemon) state(cell string) string {
	d.Helper()
	var status api.StatusResult
	d.want(200, &status, "GET", "/v1/cells/"+cell, nil)
	return status.State
}

// TestLive starts, uses, pauses, resumes and stops a live cell.
func TestLive(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	started := d.live("demo")
	if started.Cell != "demo" || started.RunID == "" || d.state("demo") != "live" {
		t.Errorf("%+v, %s", started, d.state("demo"))
	}
	d.problem(409, api.CodeLive, "POST", "/v1/cells/demo/start", nil)
	if res := d.exec("demo", "sh", "-c", "echo two > hello.txt; cat hello.txt; exit 3"); res.ExitCode != 3 || res.Stdout != "two\n" || res.ExecID == "" {
		t.Errorf("%+v", res)
	}
	if r := d.send("POST", "/v1/cells/demo/pause", nil); r.status == 200 {
		if d.state("demo") != "paused" {
			t.Error(d.state("demo"))
		}
		d.problem(409, api.CodePaused, "POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"true"}})
		d.want(200, nil, "POST", "/v1/cells/demo/resume", struct{}{})
	} else if r.status != 422 || !bytes.Contains(r.body, []byte(`"freezer"`)) {
		t.Errorf("%d %s", r.status, r.body)
	}
	var ended api.RunResult
	d.want(200, &ended, "POST", "/v1/cells/demo/stop", api.StopBody{Grace: "1s"})
	if ended.RunID != started.RunID || ended.ChangedFiles != 1 || d.state("demo") != "idle" {
		t.Errorf("%+v", ended)
	}
	for _, verb := range []string{"stop", "pause", "resume"} {
		d.problem(409, api.CodeNotStarted, "POST", "/v1/cells/demo/"+verb, nil)
	}
	d.problem(409, api.CodeNotStarted, "POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"true"}})
	d.problem(404, api.CodeNotFound, "POST", "/v1/cells/none/start", nil)
	d.problem(400, api.CodeUsage, "POST", "/v1/cells/demo/stop", api.StopBody{Grace: "soon"})
}

// TestLiveOutlivesTheDaemon stops the daemon that made a live cell.
func TestLiveOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	d.exec("demo", "sh", "-c", "sleep 1000 & echo $! > pid")
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.start(api.ServeOptions{})
	if res := d.exec("demo", "sh", "-c", "kill -0 $(cat pid)"); res.ExitCode != 0 {
		t.Errorf("%+v", res)
	}
	d.want(200, nil, "POST", "/v1/cells/demo/stop", api.StopBody{Grace: "0s"})
}

// TestSupervisorIsReaped looks for the supervisor of a stopped cell.
func TestSupervisorIsReaped(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	started := d.live("demo")
	d.want(200, nil, "POST", "/v1/cells/demo/stop", nil)
	for limit := time.Now().Add(time.Minute); processExists(started.PID); {
		if time.Now().After(limit) {
			t.Fatalf("process %d is still there", started.PID)
		}
	}
}

// TestExec gives a command everything that a body can have.
func TestExec(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	var res api.ExecAnswer
	d.want(200, &res, "POST", "/v1/cells/demo/exec", api.ExecBody{
		Command: []string{"sh", "-c", "pwd; echo $A; cat; echo oops >&2"}, Env: map[string]string{"A": "b c"}, Workdir: "/tmp", Stdin: "given",
	})
	if res.Stdout != "/tmp\nb c\ngiven" || res.Stderr != "oops\n" || res.Truncated || res.DurationUS <= 0 {
		t.Errorf("%+v", res)
	}
	d.want(200, &res, "POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"sleep", "1000"}, Timeout: "50ms"})
	if res.ExitCode != 124 || !res.TimedOut {
		t.Errorf("%+v", res)
	}
	res = api.ExecAnswer{}
	d.want(200, &res, "POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"sh", "-c", "head -c 1048577 /dev/zero; printf '\\377' >&2; kill -9 $$"}})
	if len(res.Stdout) != 1<<20 || !res.Truncated || string(res.StderrBase64) != "\xff" || res.Signal != 9 || res.ExitCode != 137 {
		t.Errorf("%d bytes, %v %v %d %d", len(res.Stdout), res.Truncated, res.StderrBase64, res.Signal, res.ExitCode)
	}
	if res = d.exec("demo", "true"); res.Stdout != "" || res.ExitCode != 0 {
		t.Errorf("%+v", res)
	}
	d.want(200, &res, "POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"tty"}, TTY: true})
	if !strings.HasPrefix(res.Stdout, "/dev/pts/") {
		t.Errorf("%+v", res)
	}
	d.problem(422, api.CodeExec, "POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"no-such-program"}})
	d.problem(422, api.CodeWorkdir, "POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"true"}, Workdir: "none"})
	for _, body := range []string{`{"command":[]}`, `{"command":[""]}`, `{"command":["a\u0000b"]}`, `{"command":["true"],"env":{"A=":"b"}}`, `{"command":["true"],"timeout":"-1s"}`, `{"command":["true"],"user":"root"}`} {
		d.want(400, nil, "POST", "/v1/cells/demo/exec", body)
	}
}

// TestLimitsOfNothing: a limit of nothing is refused, and is not taken as no limit.
func TestLimitsOfNothing(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	for _, limit := range []string{`"pids":0`, `"cpus":0`, `"memory":""`, `"memory":"0"`, `"timeout":""`} {
		for path, body := range map[string]string{
			"/v1/cells/demo/runs": `"command":["true"],`, "/v1/cells/demo/start": "", "/v1/cells/demo/branch": "", "/v1/race": `"cell":"demo","command":["true"],`,
		} {
			if r := d.send("POST", path, `{`+body+limit+`}`); r.status != 400 || !strings.Contains(string(r.body), strings.Trim(strings.Split(limit, ":")[0], `"`)) {
				t.Errorf("%s with %s: %d %s", path, limit, r.status, r.body)
			}
		}
	}
}

// TestExecStream reads the output of a command as it comes.
func TestExecStream(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.live("demo")
	r := d.send("POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"sh", "-c", "echo one; echo two >&2; exit 3"}}, "Accept", "text/event-stream")
	names, last := events(t, r.body)
	if names[0] != "started" || names[len(names)-1] != "result" || len(names) != 4 || !strings.Contains(last, `"exit_code":3`) {
		t.Errorf("%v %s", names, last)
	}
	d.problem(422, api.CodeExec, "POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"no-such-program"}}, "Accept", "text/event-stream")
}

// TestUsageOfFinishedRuns counts the processor time of runs that have ended. The kernel
// counts it for runs with a limit.
func TestUsageOfFinishedRuns(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	var last int64
	for range 2 {
		r := d.send("POST", "/v1/cells/demo/runs", api.RunBody{
			Command: []string{"sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"}, RunSettings: api.RunSettings{CPUs: 1},
		})
		var out api.RunAnswer
		if r.status != http.StatusOK || decodeInto(d, r.body, &out).Outcome != "succeeded" {
			t.Skipf("needs a limit of processor time, which not every user has: %d %s", r.status, r.body)
		}
		var usage api.UsageResult
		d.want(200, &usage, "GET", "/v1/usage", nil)
		if usage.Total.CPUUS <= last || usage.Cells[0].CPUUS != usage.Total.CPUUS {
			t.Errorf("%+v after %d", usage, last)
		}
		last = usage.Total.CPUUS
	}
}
