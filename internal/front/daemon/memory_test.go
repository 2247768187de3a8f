package daemon_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// gvisorVariable names the runtime gvisor for tests.
const gvisorVariable = "FORKCELL_TEST_GVISOR"

// saved makes a cell with processes of the runtime gvisor, keeps its memory under the
// name warm, and stops it.
func (d *testDaemon) saved(name string, set api.RunSettings) api.CheckpointResult {
	d.Helper()
	d.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: name, Source: &api.Source{Path: d.source}, Runtime: "gvisor"})
	d.want(200, nil, "POST", "/v1/cells/"+name+"/start", api.StartBody{RunSettings: set})
	d.Cleanup(func() { d.remove(name) })
	d.exec(name, "sh", "-c", "mkfifo /dev/shm/in /dev/shm/out; (setsid sh -c 'x=$$; while read q </dev/shm/in; do echo $x >/dev/shm/out; done' >/dev/null 2>&1 &)")
	var res api.CheckpointResult
	d.want(201, &res, "POST", "/v1/cells/"+name+"/checkpoints", api.CheckpointRequest{Name: "warm", Memory: true})
	d.want(200, nil, "POST", "/v1/cells/"+name+"/stop", nil)
	return res
}

// policyOf returns the hash of the policy of the only run of a cell.
func (d *testDaemon) policyOf(name string) string {
	d.Helper()
	var runs api.List[api.RunInfo]
	d.want(200, &runs, "GET", "/v1/cells/"+name+"/runs", nil)
	if len(runs.Items) != 1 || runs.Items[0].PolicyHash == "" {
		d.Fatalf("%+v", runs)
	}
	return runs.Items[0].PolicyHash
}

// needGvisor skips a test if there is no runtime gvisor.
func needGvisor(t *testing.T) {
	t.Helper()
	if os.Getenv(gvisorVariable) == "" {
		t.Skip("make test-gvisor builds the runtime and runs this test")
	}
}

// TestGvisorBranchFrom keeps the memory of a cell, and makes branches of it when the cell
// has ended.
func TestGvisorBranchFrom(t *testing.T) {
	t.Parallel()
	needGvisor(t)
	d := newDaemon(t)
	at := d.saved("demo", api.RunSettings{})
	if !strings.HasPrefix(at.Memory, "sha256:") || !at.Live || at.Name != "warm" {
		t.Errorf("%+v", at)
	}
	var states api.List[api.CheckpointInfo]
	d.want(200, &states, "GET", "/v1/cells/demo/checkpoints", nil)
	kept := 0
	for _, s := range states.Items {
		if s.CheckpointID == at.CheckpointID && s.Memory == at.Memory {
			kept++
		} else if s.Memory != "" {
			t.Errorf("%+v", s)
		}
	}
	if kept != 1 {
		t.Errorf("%+v", states)
	}
	var status api.StatusResult
	header := d.want(200, &status, "GET", "/v1/cells/demo", nil)
	d.problem(412, api.CodeChanged, "POST", "/v1/cells/demo/branch", api.BranchBody{From: "warm"}, "If-Match", strconv.Quote(strconv.FormatInt(status.Revision-1, 10)))
	res := d.branch("demo", api.BranchBody{From: "warm", Name: "try", N: 2}, "If-Match", header.Get("ETag"), "Idempotency-Key", "from")
	if res.Source != "demo" || res.CheckpointID != at.CheckpointID || len(res.Children) != 2 {
		t.Errorf("%+v", res)
	}
	var again api.BranchResult
	d.want(201, &again, "POST", "/v1/cells/demo/branch", api.BranchBody{From: "warm", Name: "try", N: 2}, "If-Match", header.Get("ETag"), "Idempotency-Key", "from")
	if len(again.Children) != 2 || again.CheckpointID != res.CheckpointID {
		t.Errorf("%+v", again)
	}
	answers := map[string]bool{}
	for _, name := range res.Names() {
		answers[d.exec(name, "sh", "-c", "echo >/dev/shm/in; cat /dev/shm/out").Stdout] = true
	}
	if len(answers) != 1 || answers[""] {
		t.Errorf("the processes of the branches answer %v", answers)
	}
	d.problem(409, api.CodeNameTaken, "POST", "/v1/cells/demo/branch", api.BranchBody{From: "warm", Name: "try", N: 2})
}

// TestGvisorBranchFromAccess has tokens without the scope, the name, the source, the
// policy or the quota use the memory of a checkpoint.
func TestGvisorBranchFromAccess(t *testing.T) {
	t.Parallel()
	needGvisor(t)
	d := newRemote(t, api.ServeOptions{})
	at := d.saved("demo", api.RunSettings{})
	branch := "/v1/cells/demo/branch"
	reader := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read"}})
	reader.problem(403, api.CodeForbidden, "POST", branch, api.BranchBody{From: "warm"})
	reader.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/checkpoints", api.CheckpointRequest{Memory: true})
	bound := d.token(api.TokenBody{Name: "bound", Scopes: []string{"run"}, Cells: "demo"})
	bound.problem(403, api.CodeForbidden, "POST", branch, api.BranchBody{From: "warm", Name: "other"})

	one := d.token(api.TokenBody{Name: "one", Scopes: []string{"run"}, Quota: &api.Quota{LiveCells: 1}})
	one.problem(429, api.CodeQuota, "POST", branch, api.BranchBody{From: "warm", Name: "many", N: 2})
	one.problem(404, api.CodeNotFound, "GET", "/v1/cells/many-1", nil)
	less := d.token(api.TokenBody{Name: "less", Scopes: []string{"run"}, Quota: &api.Quota{Memory: 500 << 20}})
	less.problem(422, api.CodeQuota, "POST", branch, api.BranchBody{From: "warm", Name: "many"})
	less.problem(429, api.CodeQuota, "POST", branch, api.BranchBody{From: "warm", Name: "many", N: 2, Memory: "300MiB"})
	one.branch("demo", api.BranchBody{From: "warm", Name: "alone"})
	one.problem(429, api.CodeQuota, "POST", branch, api.BranchBody{From: at.CheckpointID})

	// A fork has the files of a checkpoint in its history, and not the memory.
	d.want(201, nil, "POST", "/v1/cells/demo/fork", api.ForkBody{Name: "my-fork", Checkpoint: "warm"})
	mine := d.token(api.TokenBody{Name: "mine", Scopes: []string{"run"}, Cells: "my-"})
	mine.problem(403, api.CodeForbidden, "POST", "/v1/cells/my-fork/branch", api.BranchBody{From: at.CheckpointID})
	mine.problem(403, api.CodeForbidden, "POST", "/v1/cells/my-fork/branch", api.BranchBody{From: "HEAD"})
}

// TestGvisorBranchFromLimits has tokens with quotas and a ceiling use memory that was
// saved with limits.
func TestGvisorBranchFromLimits(t *testing.T) {
	t.Parallel()
	needGvisor(t)
	if os.Geteuid() != 0 {
		t.Skip("limits of gVisor need control groups, which other users than root often have none of")
	}
	d := newRemote(t, api.ServeOptions{})
	d.saved("demo", api.RunSettings{Memory: "300MiB", CPUs: 1})
	branch := "/v1/cells/demo/branch"
	less := d.token(api.TokenBody{Name: "less", Scopes: []string{"run"}, Quota: &api.Quota{Memory: 500 << 20, CPUs: 1.5}})
	less.problem(429, api.CodeQuota, "POST", branch, api.BranchBody{From: "warm", N: 2, CPUs: 0.5})
	less.problem(429, api.CodeQuota, "POST", branch, api.BranchBody{From: "warm", N: 2, Memory: "200MiB"})
	less.branch("demo", api.BranchBody{From: "warm", Name: "free"})
	capped := d.token(api.TokenBody{Name: "capped", Scopes: []string{"run"}, Policy: "version: 1\nlimits:\n  memory: 250MiB\n"})
	capped.branch("demo", api.BranchBody{From: "warm", Name: "under"})
	if d.policyOf("under") == d.policyOf("free") {
		t.Error("the branch is not under the ceiling of the token")
	}
}

// TestGvisorMemoryRights has a token use memory that was saved with what only an operator
// may give.
func TestGvisorMemoryRights(t *testing.T) {
	t.Parallel()
	needGvisor(t)
	d := newRemote(t, api.ServeOptions{})
	d.saved("demo", api.RunSettings{AllowDegraded: true})
	run := d.token(api.TokenBody{Name: "run", Scopes: []string{"run"}})
	if p := run.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/branch", api.BranchBody{From: "warm"}); !strings.Contains(p.Detail, "allow_degraded") {
		t.Errorf("%+v", p)
	}
	admin := d.token(api.TokenBody{Name: "admin", Scopes: []string{"admin"}})
	admin.branch("demo", api.BranchBody{From: "warm"})
}

// TestGvisorMemoryCounts: memory on disk counts as disk space of a token, and holes in /tmp
// neither count nor take time.
func TestGvisorMemoryCounts(t *testing.T) {
	t.Parallel()
	needGvisor(t)
	d := newRemote(t, api.ServeOptions{})
	small := d.token(api.TokenBody{Name: "small", Scopes: []string{"run"}, Cells: "my-", Quota: &api.Quota{Disk: 1 << 20}})
	d.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "my-cell", Source: &api.Source{Empty: true}, Runtime: "gvisor"})
	d.want(200, nil, "POST", "/v1/cells/my-cell/start", nil)
	d.Cleanup(func() { d.remove("my-cell") })
	d.exec("my-cell", "truncate", "-s", "4T", "/tmp/hole")
	small.want(201, nil, "POST", "/v1/cells/my-cell/checkpoints", api.CheckpointRequest{Memory: true, Name: "one"})
	p := small.problem(429, api.CodeQuota, "POST", "/v1/cells/my-cell/checkpoints", api.CheckpointRequest{Memory: true, Name: "two"})
	if !strings.Contains(p.Detail, "disk") {
		t.Errorf("%+v", p)
	}
	var status api.StatusResult
	d.want(200, &status, "GET", "/v1/cells/my-cell", nil)
	if status.OwnBytes < 1<<20 || status.OwnBytes > 1<<40 {
		t.Errorf("the cell has %d bytes of its own", status.OwnBytes)
	}
}

// TestGvisorPauseCounts: the memory of a paused cell counts as disk space of a token, until
// the cell is resumed. A pause without room for it is refused, and the cell goes on.
func TestGvisorPauseCounts(t *testing.T) {
	t.Parallel()
	needGvisor(t)
	d := newRemote(t, api.ServeOptions{})
	small := d.token(api.TokenBody{Name: "small", Scopes: []string{"run"}, Cells: "my-", Quota: &api.Quota{Disk: 1 << 20}})
	for _, name := range []string{"my-one", "my-two"} {
		d.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: name, Source: &api.Source{Empty: true}, Runtime: "gvisor"})
		d.want(200, nil, "POST", "/v1/cells/"+name+"/start", nil)
		d.Cleanup(func() { d.remove(name) })
	}
	small.want(200, nil, "POST", "/v1/cells/my-one/pause", nil)
	var disk api.DiskResult
	d.want(200, &disk, "GET", "/v1/cells/my-one/disk", nil)
	if one := disk.Cells[0]; one.Areas["memory"] < 1<<20 || one.OwnBytes < one.Areas["memory"] || disk.TotalBytes < one.OwnBytes {
		t.Errorf("%+v", disk)
	}
	if p := small.problem(429, api.CodeQuota, "POST", "/v1/cells/my-two/pause", nil); !strings.Contains(p.Detail, "disk") {
		t.Errorf("%+v", p)
	}
	if out := d.exec("my-two", "echo", "on").Stdout; out != "on\n" {
		t.Errorf("after the refusal it says %q", out)
	}
	small.want(200, nil, "POST", "/v1/cells/my-two/pause", api.PauseRequest{FSOnly: true})
	small.want(200, nil, "POST", "/v1/cells/my-one/resume", nil)
	small.want(200, nil, "POST", "/v1/cells/my-two/resume", nil)
	small.want(200, nil, "POST", "/v1/cells/my-two/pause", nil)
}
