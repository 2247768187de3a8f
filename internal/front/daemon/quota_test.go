package daemon_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/storage/moments"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// started starts a cell for a caller, which ends with the test.
func (d *testDaemon) started(name string, b any, status int) http.Header {
	d.Helper()
	r := d.send("POST", "/v1/cells/"+name+"/start", b)
	if r.status == http.StatusOK {
		d.Cleanup(func() { d.remove(name) })
	}
	if r.status != status {
		d.Fatalf("start %s: %d %s, want %d", name, r.status, r.body, status)
	}
	return r.header
}

// TestLiveQuota starts more cells than a token may have live. What the token's holder
// stops, and what others have live, does not count.
func TestLiveQuota(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("base")
	d.live("foreign")
	two := d.token(api.TokenBody{Name: "two", Scopes: []string{"run"}, Quota: &api.Quota{LiveCells: 2}})
	for i := range 6 {
		d.want(201, nil, "POST", "/v1/cells/base/fork", api.ForkBody{Name: fmt.Sprintf("c%d", i)})
	}
	// All at once: exactly two become live.
	var mu sync.Mutex
	got := map[int][]string{}
	var all sync.WaitGroup
	for i := range 5 {
		name := fmt.Sprintf("c%d", i)
		all.Go(func() {
			r := two.send("POST", "/v1/cells/"+name+"/start", nil)
			mu.Lock()
			defer mu.Unlock()
			got[r.status] = append(got[r.status], name)
		})
	}
	all.Wait()
	for _, name := range got[200] {
		t.Cleanup(func() { d.remove(name) })
	}
	if len(got[200]) != 2 || len(got[429]) != 3 {
		t.Fatalf("statuses: %v", got)
	}
	p := two.problem(429, api.CodeQuota, "POST", "/v1/cells/c5/start", nil)
	if !strings.Contains(p.Detail, "live_cells") {
		t.Errorf("%+v", p)
	}
	two.problem(409, api.CodeLive, "POST", "/v1/cells/"+got[200][0]+"/start", nil)
	two.want(200, nil, "POST", "/v1/cells/"+got[200][0]+"/stop", nil)
	if h := two.started("c5", nil, 200); h.Get("Retry-After") != "" {
		t.Error(h)
	}
	if h := two.started(got[429][0], nil, 429); h.Get("Retry-After") == "" {
		t.Error(h)
	}
}

// TestLiveMemoryQuota has the limits of live cells count beside those of runs.
func TestLiveMemoryQuota(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	d.want(201, nil, "POST", "/v1/cells/demo/fork", api.ForkBody{Name: "other"})
	limited := d.token(api.TokenBody{Name: "limited", Scopes: []string{"run"}, Quota: &api.Quota{Memory: 256 << 20}})
	limited.problem(422, api.CodeQuota, "POST", "/v1/cells/demo/start", nil)
	if r := limited.send("POST", "/v1/cells/demo/start", api.StartBody{RunSettings: api.RunSettings{Memory: "200MiB"}}); r.status == 422 {
		t.Skipf("this host has no limits of memory: %s", r.body)
	} else if r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	t.Cleanup(func() { d.remove("demo") })
	run := api.RunBody{Command: []string{"true"}, RunSettings: api.RunSettings{Memory: "100MiB"}}
	limited.problem(429, api.CodeQuota, "POST", "/v1/cells/other/runs", run)
	run.Memory = "50MiB"
	limited.want(200, nil, "POST", "/v1/cells/other/runs", run)
}

// TestDaemonBounds uses up what the daemon carries out at once, for everybody.
func TestDaemonBounds(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{MaxLive: 1, MaxRuns: 2})
	d.cell("base")
	d.live("demo")
	for _, name := range []string{"a", "b", "c"} {
		d.want(201, nil, "POST", "/v1/cells/base/fork", api.ForkBody{Name: name})
	}
	d.problem(429, api.CodeQuota, "POST", "/v1/cells/a/start", nil)
	sleep := api.RunBody{Command: []string{"sleep", "1000"}}
	var one, two api.RunStarted
	d.want(202, &one, "POST", "/v1/cells/a/runs", sleep, "Prefer", "respond-async")
	d.want(202, &two, "POST", "/v1/cells/b/runs", sleep, "Prefer", "respond-async")
	d.problem(429, api.CodeQuota, "POST", "/v1/cells/c/runs", api.RunBody{Command: []string{"true"}})
	for _, id := range []string{one.RunID, two.RunID} {
		d.want(202, nil, "POST", "/v1/runs/"+id+"/cancel", nil)
	}
}

// TestRaceQuota counts each attempt that runs at once.
func TestRaceQuota(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	two := d.token(api.TokenBody{Name: "two", Scopes: []string{"run"}, Quota: &api.Quota{Runs: 2}})
	race := api.RaceBody{Cell: "demo", Command: []string{"true"}, N: 3, Jobs: 3}
	two.problem(429, api.CodeQuota, "POST", "/v1/race", race)
	race.Jobs = 2
	two.want(200, nil, "POST", "/v1/race", race)
	race.Jobs = 0 // as many as the quota allows
	two.want(200, nil, "POST", "/v1/race", race)
}

// TestDiskQuota fills the space of a token. The states of cells that it does not see
// do not count.
func TestDiskQuota(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.write("large", strings.Repeat("x", 4<<20))
	d.cell("foreign")
	small := d.token(api.TokenBody{Name: "small", Scopes: []string{"run"}, Cells: "my-", Quota: &api.Quota{Disk: 2 << 20}})
	small.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "my-cell", Source: &api.Source{Empty: true}})
	small.want(200, nil, "POST", "/v1/cells/my-cell/runs", api.RunBody{Command: []string{"sh", "-c", "head -c 3000000 /dev/urandom > file"}})
	for path, body := range map[string]any{
		"/v1/cells/my-cell/runs":  api.RunBody{Command: []string{"true"}},
		"/v1/cells/my-cell/fork":  api.ForkBody{Name: "my-fork"},
		"/v1/cells/my-cell/start": api.StartBody{},
		"/v1/cells":               api.CreateCell{Name: "my-other", Source: &api.Source{Empty: true}},
		"/v1/race":                api.RaceBody{Cell: "my-cell", Command: []string{"true"}, N: 1},
	} {
		p := small.problem(429, api.CodeQuota, "POST", path, body)
		if !strings.Contains(p.Detail, "disk") {
			t.Errorf("%s: %+v", path, p)
		}
	}
	small.problem(429, api.CodeQuota, "POST", "/v1/uploads", "an archive", "Content-Type", "application/x-tar")
	// A cell that can be brought back still counts. Undecided work goes at once only for those
	// who may decide; others restore the cell first.
	small.problem(403, api.CodeForbidden, "DELETE", "/v1/cells/my-cell?force=true&now=true", nil)
	small.want(200, nil, "POST", "/v1/cells/my-cell/restore", api.RestoreRequest{})
	small.want(204, nil, "DELETE", "/v1/cells/my-cell?now=true", nil)
	small.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "my-other", Source: &api.Source{Empty: true}})
}

// TestUploadQuota uploads more than the space of a token, in one upload and in several.
// What is cut off leaves nothing, and uploads of others do not count.
func TestUploadQuota(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	const tar = "application/x-tar"
	d.want(201, nil, "POST", "/v1/uploads", strings.Repeat("x", 4<<20), "Content-Type", tar)
	small := d.token(api.TokenBody{Name: "small", Scopes: []string{"run"}, Quota: &api.Quota{Disk: 2 << 20}})
	large := 8<<20 + 1<<16 // a client that is still sending may see the end of the connection instead
	small.problem(429, api.CodeQuota, "POST", "/v1/uploads", strings.Repeat("x", large), "Content-Type", tar)
	for range 2 {
		small.want(201, nil, "POST", "/v1/uploads", strings.Repeat("x", 3<<19), "Content-Type", tar)
	}
	small.problem(429, api.CodeQuota, "POST", "/v1/uploads", "x", "Content-Type", tar)
	small.problem(429, api.CodeQuota, "POST", "/v1/cells", api.CreateCell{Name: "other", Source: &api.Source{Empty: true}})
}

// TestListWithDamagedPause lists cells of which one is paused with memory that cannot be
// measured. It must not keep the others from being seen.
func TestListWithDamagedPause(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	d.cell("other")
	e, release, err := local.Open(d.home, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		t.Fatal(err)
	}
	err = e.Store.Update(func(tx *store.Tx) error {
		c, err := tx.Cell("demo")
		if err != nil {
			return err
		}
		c.Paused = &store.Pause{RunID: "run_1"}
		return tx.PutCell(c)
	})
	image := filepath.Join(d.home, moments.Dir, moments.PausedImage("run_1"))
	if err := errors.Join(err, release(), os.MkdirAll(image, 0o700), os.WriteFile(filepath.Join(image, "contents.json"), []byte("cut o"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var cells api.List[api.CellInfo]
	if d.want(200, &cells, "GET", "/v1/cells", nil); len(cells.Items) != 2 {
		t.Errorf("%+v", cells)
	}
	d.want(200, nil, "GET", "/v1/cells/demo", nil)
	d.want(200, nil, "GET", "/v1/usage", nil)
}

// TestResumeRights has a token resume a cell that was paused on disk with what only an
// operator may give. The cell stays paused until an operator resumes it.
func TestResumeRights(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	d.Cleanup(func() { d.remove("demo") })
	run := d.token(api.TokenBody{Name: "run", Scopes: []string{"run"}})
	pause := func() { run.want(200, nil, "POST", "/v1/cells/demo/pause", api.PauseRequest{FSOnly: true}) }
	d.want(200, nil, "POST", "/v1/cells/demo/start", api.StartBody{RunSettings: api.RunSettings{AllowDegraded: true}})
	pause()
	if p := run.problem(403, api.CodeForbidden, "POST", "/v1/cells/demo/resume", nil); !strings.Contains(p.Detail, "allow_degraded") {
		t.Errorf("%+v", p)
	}
	var status api.StatusResult
	if d.want(200, &status, "GET", "/v1/cells/demo", nil); status.State != api.StatePaused {
		t.Errorf("the cell is %s", status.State)
	}
	admin := d.token(api.TokenBody{Name: "admin", Scopes: []string{"admin"}})
	admin.want(200, nil, "POST", "/v1/cells/demo/resume", nil)
	d.want(200, nil, "POST", "/v1/cells/demo/stop", nil)
	run.want(200, nil, "POST", "/v1/cells/demo/start", nil)
	pause()
	run.want(200, nil, "POST", "/v1/cells/demo/resume", nil)
}

// TestStreamsOfACaller opens as many streams as a caller may have, of different kinds.
func TestStreamsOfACaller(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.live("demo")
	reader, other := d.token(api.TokenBody{Name: "reader", Scopes: []string{"run"}}), d.token(api.TokenBody{Name: "other", Scopes: []string{"run"}})
	open := func(method, path, body string, header ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, reader.site+path, bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := reader.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		// A stream begins with a comment.
		if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp.StatusCode, err)
		}
	}
	stream := []string{"Accept", "text/event-stream"}
	open("POST", "/v1/cells/demo/exec", `{"command":["sleep","1000"]}`, stream...)
	open("POST", "/v1/cells/demo/files/watch", `{}`)
	for range 256 - 2 {
		open("GET", "/v1/events?follow=true", "")
	}
	for _, r := range []reply{
		reader.send("GET", "/v1/events?follow=true", nil),
		reader.send("POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"true"}}, stream...),
		reader.send("POST", "/v1/cells/demo/files/watch", api.WatchBody{}),
		reader.send("POST", "/v1/race", api.RaceBody{Cell: "demo", Command: []string{"true"}, N: 1}, stream...),
	} {
		if r.status != 429 || r.header.Get("Retry-After") == "" {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
	}
	other.want(200, nil, "POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"true"}}, stream...)
}

// TestRaceMemoryQuota gives each attempt that runs at once its part of the quota: what
// needs more than half of it succeeds only alone.
func TestRaceMemoryQuota(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	limited := d.token(api.TokenBody{Name: "limited", Scopes: []string{"run"}, Quota: &api.Quota{Memory: 256 << 20, CPUs: 2}})
	race := api.RaceBody{Cell: "demo", Command: []string{"sh", "-c", "head -c 180M /dev/zero | tail -c 180M | wc -c | grep -q 188743680"}, N: 2, Judge: []string{"true"}}
	for jobs, wins := range map[int]bool{1: true, 2: false} {
		race.Jobs = jobs
		r := limited.send("POST", "/v1/race", race)
		if r.status == 422 && !strings.Contains(string(r.body), `"quota"`) {
			t.Skipf("needs limits of memory and processors, which not every user has: %s", r.body)
		}
		var res api.RaceResult
		if decodeInto(t, r.body, &res); r.status != 200 || (res.Winner != nil) != wins {
			t.Errorf("%d at once: %d %s", jobs, r.status, r.body)
		}
	}
}

// TestQuotaIsABudget: what is left of a quota bounds the work itself. An archive that
// unpacks to more is refused, and leaves nothing; a run that writes more is ended.
func TestQuotaIsABudget(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	const quota, large = 4 << 20, 64 << 20
	small := d.token(api.TokenBody{Name: "small", Scopes: []string{"run"}, Cells: "my-", Quota: &api.Quota{Disk: quota}})
	var up api.Upload
	small.want(201, &up, "POST", "/v1/uploads", packedZeros(t, large), "Content-Type", "application/zstd")
	for range 2 { // what was refused does not count
		p := small.problem(429, api.CodeQuota, "POST", "/v1/cells", api.CreateCell{Name: "my-bomb", Source: &api.Source{Upload: up.Upload}})
		if !strings.Contains(p.Detail, "disk") {
			t.Errorf("%+v", p)
		}
	}
	if left := d.bytesBelow("pending", "layers", "uploads"); left > 1<<20 {
		t.Errorf("%d bytes are left of what was refused", left)
	}
	small.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: "my-cell", Source: &api.Source{Empty: true}})
	small.problem(429, api.CodeQuota, "POST", "/v1/cells/my-cell/refresh", api.RefreshRequest{Upload: up.Upload})

	var out api.RunAnswer
	fill := []string{"sh", "-c", "while :; do head -c 100000 /dev/zero >> big; sleep 0.01; done"}
	small.want(200, &out, "POST", "/v1/cells/my-cell/runs", api.RunBody{Command: fill, RestoreOnFail: true, RunSettings: api.RunSettings{Timeout: "60s"}})
	if out.Outcome != "killed" || !strings.Contains(out.Error, "quota") {
		t.Errorf("a run past the quota: %+v", out)
	}
}

// TestQuotaOfTwoLive: two live cells of one token cannot each use what was left of its quota
// when they started.
func TestQuotaOfTwoLive(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	const quota, beforeLook = 24 << 20, 8 << 20
	small := d.token(api.TokenBody{Name: "small", Scopes: []string{"run"}, Cells: "my-", Quota: &api.Quota{Disk: quota}})
	names := []string{"my-one", "my-two"}
	for _, name := range names {
		small.want(201, nil, "POST", "/v1/cells", api.CreateCell{Name: name, Source: &api.Source{Empty: true}})
		small.want(200, nil, "POST", "/v1/cells/"+name+"/start", nil)
	}
	const fill = "i=0; while [ $i -lt 400 ]; do head -c 100000 /dev/zero >> big; i=$((i+1)); sleep 0.02; done; echo done"
	for _, name := range names {
		if r := small.send("POST", "/v1/cells/"+name+"/exec", api.ExecBody{Command: []string{"sh", "-c", fill}}); strings.Contains(string(r.body), "done") {
			t.Errorf("%s was not ended: %d %s", name, r.status, r.body)
		}
	}
	if took := d.bytesBelow("pending", "layers"); took > quota+beforeLook {
		t.Errorf("together they took %d bytes of %d", took, quota)
	}
}

// packedZeros is a compressed archive of one file with so many zeros.
func packedZeros(t *testing.T, size int) string {
	t.Helper()
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	err = w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(size)})
	if err == nil {
		_, err = w.Write(make([]byte, size))
	}
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// bytesBelow adds up the files below directories of the home.
func (d *testDaemon) bytesBelow(dirs ...string) (total int64) {
	d.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(d.home, dir), func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil //nolint:nilerr // what is gone has no size
			}
			if info, err := e.Info(); err == nil {
				total += info.Size()
			}
			return nil
		})
		if err != nil {
			d.Fatal(err)
		}
	}
	return total
}
