package daemon_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// template makes a cell with a warm interpreter, which ends with the test.
func (d *testDaemon) template(name string, set api.RunSettings) {
	d.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		d.Skip("needs python3")
	}
	d.write("setup.py", "loaded = {'answer': 42}\nopen('made', 'w').write('by the script')\n")
	d.cell(name)
	d.want(200, nil, "POST", "/v1/cells/"+name+"/start", api.StartBody{
		RunSettings: set, Warm: &api.WarmBody{Python: &api.WarmPython{Modules: []string{"json", "os.path"}, Script: "setup.py"}},
	})
	d.Cleanup(func() { d.remove(name) })
}

// branch branches a template. The new cells end with the test.
func (d *testDaemon) branch(name string, b api.BranchBody, header ...string) api.BranchResult {
	d.Helper()
	var res api.BranchResult
	d.want(201, &res, "POST", "/v1/cells/"+name+"/branch", b, header...)
	d.Cleanup(func() {
		for _, c := range res.Names() {
			d.remove(c)
		}
	})
	return res
}

// eval runs code in a cell, and returns the value.
func (d *testDaemon) eval(name, code string) string {
	d.Helper()
	var res api.EvalResult
	d.want(200, &res, "POST", "/v1/cells/"+name+"/eval", api.EvalRequest{Code: code})
	if res.Error != nil {
		d.Fatalf("eval %s: %s", code, res.Error.Traceback)
	}
	return string(res.ValueJSON)
}

// TestBranch makes a template, and branches with its memory.
func TestBranch(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.template("demo", api.RunSettings{})
	d.problem(409, api.CodeTemplate, "POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"true"}})
	res := d.branch("demo", api.BranchBody{Name: "try", N: 2, CellSettings: api.CellSettings{Labels: map[string]string{"of": "demo"}}})
	if res.Source != "demo" || res.CheckpointID == "" || !slices.Equal(res.Names(), []string{"try-1", "try-2"}) || res.Children[0].FirstAnswerUS == 0 {
		t.Errorf("%+v", res)
	}
	if got := d.eval("try-1", "loaded['answer'] += 1; loaded['answer']"); got != "43" {
		t.Errorf("first branch: %s", got)
	}
	for _, cell := range []string{"try-2", "demo"} {
		if got := d.eval(cell, "loaded['answer']"); got != "42" {
			t.Errorf("%s: %s", cell, got)
		}
	}
	if res := d.exec("try-2", "cat", "made"); res.Stdout != "by the script" {
		t.Errorf("%+v", res)
	}
	var status api.StatusResult
	d.want(200, &status, "GET", "/v1/cells/try-2", nil)
	if status.Labels["of"] != "demo" || status.Live == nil || status.Live.Branch == nil || status.Live.Branch.Source != "demo" {
		t.Errorf("%+v", status)
	}
	var raised api.EvalResult
	d.want(200, &raised, "POST", "/v1/cells/try-1/eval", api.EvalRequest{Code: "print('before'); 1 / 0"})
	if raised.Error == nil || raised.Error.Type != "ZeroDivisionError" || raised.Output != "before\n" || raised.Value != nil {
		t.Errorf("%+v", raised)
	}
	d.want(200, nil, "POST", "/v1/cells/demo/stop", nil)
	if got := d.eval("try-1", "loaded['answer']"); got != "43" {
		t.Errorf("without its template: %s", got)
	}
}

// TestBranchRefused asks for templates and branches that cannot be made.
func TestBranchRefused(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("idle")
	d.live("plain")
	for _, warm := range []api.WarmBody{
		{},
		{Command: []string{"true"}, Python: &api.WarmPython{}},
		{Python: &api.WarmPython{Modules: []string{"a; b"}}},
		{Python: &api.WarmPython{}, Stdin: "text"},
		{Python: &api.WarmPython{}, ReadyTimeout: "soon"},
	} {
		d.problem(400, api.CodeUsage, "POST", "/v1/cells/idle/start", api.StartBody{Warm: &warm})
	}
	d.problem(409, api.CodeRuntime, "POST", "/v1/cells/idle/start", api.StartBody{Warm: &api.WarmBody{Command: []string{"true"}, Ready: "notify"}})
	d.problem(404, api.CodeNotFound, "POST", "/v1/cells/none/branch", nil)
	d.problem(404, api.CodeNotFound, "POST", "/v1/cells/none/eval", api.EvalRequest{Code: "1"})
	d.problem(409, api.CodeNotStarted, "POST", "/v1/cells/idle/branch", nil)
	d.problem(409, api.CodeNotStarted, "POST", "/v1/cells/idle/eval", api.EvalRequest{Code: "1"})
	d.problem(400, api.CodeUsage, "POST", "/v1/cells/plain/branch", api.BranchBody{Memory: "much"})
	d.problem(404, api.CodeNotFound, "POST", "/v1/cells/none/branch", api.BranchBody{From: "base"})
	d.problem(404, api.CodeNotFound, "POST", "/v1/cells/idle/branch", api.BranchBody{From: "chk_none"})
	d.problem(409, api.CodeNoMemory, "POST", "/v1/cells/idle/branch", api.BranchBody{From: "base"})
	d.problem(409, api.CodeNoMemory, "POST", "/v1/cells/plain/branch", api.BranchBody{From: "base"})
	d.problem(404, api.CodeNotFound, "POST", "/v1/cells/none/checkpoints", api.CheckpointRequest{Memory: true})
	d.problem(409, api.CodeNotStarted, "POST", "/v1/cells/idle/checkpoints", api.CheckpointRequest{Memory: true})
	d.problem(409, api.CodeRuntime, "POST", "/v1/cells/plain/checkpoints", api.CheckpointRequest{Memory: true})
	for _, body := range []api.CheckpointRequest{{}, {Memory: true}} {
		d.problem(412, api.CodeChanged, "POST", "/v1/cells/plain/checkpoints", body, "If-Match", `"9999"`)
	}
	d.problem(412, api.CodeChanged, "POST", "/v1/cells/plain/branch", nil, "If-Match", `"9999"`)
	for _, verb := range []string{"branch", "eval"} {
		p := d.problem(409, api.CodeNotWarm, "POST", "/v1/cells/plain/"+verb, map[string]any{"branch": nil, "eval": api.EvalRequest{Code: "1"}}[verb])
		if !strings.Contains(p.Hint, "warm python") {
			t.Errorf("%+v", p)
		}
	}
}

// TestBranchAccess has tokens without the scope, the name, the policy or the quota
// branch a template.
func TestBranchAccess(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.template("demo", api.RunSettings{})
	reader := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read"}})
	reader.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/branch", nil)
	reader.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/eval", api.EvalRequest{Code: "1"})

	bound := d.token(api.TokenBody{Name: "bound", Scopes: []string{"run"}, Cells: "demo"})
	bound.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/branch", api.BranchBody{Name: "other"})
	if res := bound.branch("demo", api.BranchBody{}); !slices.Equal(res.Names(), []string{"demo-branch"}) {
		t.Errorf("%+v", res)
	}
	foreign := d.token(api.TokenBody{Name: "foreign", Scopes: []string{"run"}, Cells: "else"})
	foreign.problem(404, api.CodeNotFound, "POST", "/v1/cells/demo/branch", nil)

	three := d.token(api.TokenBody{Name: "three", Scopes: []string{"run"}, Quota: &api.Quota{LiveCells: 3}})
	three.problem(429, api.CodeQuota, "POST", "/v1/cells/demo/branch", api.BranchBody{Name: "many", N: 4})
	three.problem(404, api.CodeNotFound, "GET", "/v1/cells/many-1", nil)
	three.branch("demo", api.BranchBody{Name: "many", N: 3})
	three.problem(429, api.CodeQuota, "POST", "/v1/cells/demo/branch", nil)
	limited := d.token(api.TokenBody{Name: "limited", Scopes: []string{"run"}, Quota: &api.Quota{Memory: 256 << 20}})
	limited.problem(422, api.CodeQuota, "POST", "/v1/cells/demo/branch", nil)
	limited.problem(429, api.CodeQuota, "POST", "/v1/cells/demo/branch", api.BranchBody{N: 3, Memory: "100MiB"})
}

// TestBranchOnce sends a branch and code again with their keys: both are done once.
func TestBranchOnce(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.template("demo", api.RunSettings{})
	first := d.branch("demo", api.BranchBody{N: 2}, "Idempotency-Key", "branch")
	var again api.BranchResult
	d.want(201, &again, "POST", "/v1/cells/demo/branch", api.BranchBody{N: 2}, "Idempotency-Key", "branch")
	if fmt.Sprint(first) != fmt.Sprint(again) {
		t.Errorf("%+v, then %+v", first, again)
	}
	d.problem(422, api.CodeKeyReused, "POST", "/v1/cells/demo/branch", api.BranchBody{N: 3}, "Idempotency-Key", "branch")
	for range 2 {
		d.want(200, nil, "POST", "/v1/cells/demo-branch-1/eval", api.EvalRequest{Code: "loaded['answer'] += 1"}, "Idempotency-Key", "eval")
	}
	if got := d.eval("demo-branch-1", "loaded['answer']"); got != "43" {
		t.Errorf("the code was run again: %s", got)
	}
}

// TestMCPBranch has a model make a template, branch it and run code.
func TestMCPBranch(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	d.cell("demo")
	m := d.connect(nil)
	m.do(nil, "start", map[string]any{"cell": "demo", "warm": map[string]any{"python": map[string]any{"modules": []string{"json"}}}})
	t.Cleanup(func() { d.remove("demo") })
	var res api.BranchResult
	m.do(&res, "branch", map[string]any{"cell": "demo", "name": "try"})
	t.Cleanup(func() { d.remove("try") })
	if text := m.do(nil, "eval", map[string]any{"cell": "try", "code": "print('out'); json.dumps([1])"}); text != "out\n'[1]'" {
		t.Errorf("%q", text)
	}
	if text := m.do(nil, "eval", map[string]any{"cell": "try", "code": "1 / 0"}); !strings.HasPrefix(text, "the code raised ZeroDivisionError: division by zero\n") {
		t.Errorf("%q", text)
	}
}

// TestRaceWarm races code in branches of a template. All of them count as live cells.
func TestRaceWarm(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.template("demo", api.RunSettings{})
	body := api.RaceBody{
		Cell: "demo", Warm: true, Judge: []string{"cat", "made"}, Best: "score",
		Attempts: []api.RaceAttemptBody{{Code: "open('made', 'w').write('1')"}, {Code: "open('made', 'w').write(str(loaded['answer']))"}, {Command: []string{"false"}}},
	}
	two := d.token(api.TokenBody{Name: "two", Scopes: []string{"run"}, Quota: &api.Quota{LiveCells: 2}})
	two.problem(429, api.CodeQuota, "POST", "/v1/race", body)
	three := d.token(api.TokenBody{Name: "three", Scopes: []string{"run"}, Quota: &api.Quota{LiveCells: 3}})
	for range 2 { // the branches of the first race count no more
		var res api.RaceResult
		three.problem(412, api.CodeChanged, "POST", "/v1/race", body, "If-Match", `"9999"`)
		three.want(200, &res, "POST", "/v1/race", body, "If-Match", d.revision("demo"))
		if res.Winner == nil || *res.Winner != 2 || *res.Attempts[1].Score != 42 || len(res.Kept) != 1 || d.state(res.Kept[0]) != "idle" {
			t.Errorf("%+v", res)
		}
	}
	d.problem(400, api.CodeUsage, "POST", "/v1/race", api.RaceBody{Cell: "demo", Code: "1", N: 2})
	d.problem(400, api.CodeUsage, "POST", "/v1/race", api.RaceBody{Cell: "demo", Warm: true, Attempts: []api.RaceAttemptBody{{}}})
}
