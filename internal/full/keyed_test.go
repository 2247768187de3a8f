package full_test

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/forkcell/forkcell/internal/api"
)

// TestRepeatedRequest sends requests twice with one key: the second is answered as
// the first, and not carried out.
func TestRepeatedRequest(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := api.RunBody{Command: []string{"sh", "-c", "echo x >> file; cat file"}}
	first := d.send("POST", "/v1/cells/demo/runs", run, "Idempotency-Key", "k1")
	again := d.send("POST", "/v1/cells/demo/runs", run, "Idempotency-Key", "k1")
	if first.status != 200 || string(first.body) != string(again.body) {
		t.Errorf("%s\n%s", first.body, again.body)
	}
	other := api.RunBody{Command: []string{"true"}}
	d.problem(422, api.CodeKeyReused, "POST", "/v1/cells/demo/runs", other, "Idempotency-Key", "k1")
	d.want(200, nil, "POST", "/v1/cells/demo/accept", nil, "Idempotency-Key", "k1") // the route is part of the key

	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.start(api.ServeOptions{})
	again = d.send("POST", "/v1/cells/demo/runs", run, "Idempotency-Key", "k1")
	if string(first.body) != string(again.body) {
		t.Errorf("after a restart: %s", again.body)
	}
	var list api.List[api.RunInfo]
	d.want(200, &list, "GET", "/v1/runs", nil)
	if len(list.Items) != 1 {
		t.Errorf("%d runs", len(list.Items))
	}
}

// TestRefusedRequestIsForgotten: a request that was refused had no effect, and can be
// repeated with the same key.
func TestRefusedRequestIsForgotten(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.problem(404, api.CodeNotFound, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}}, "Idempotency-Key", "k")
	d.cell("demo")
	d.want(200, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}}, "Idempotency-Key", "k")
	d.problem(400, api.CodeUsage, "POST", "/v1/cells/demo/accept", nil, "Idempotency-Key", "two words")
	d.problem(400, api.CodeUsage, "POST", "/v1/cells/demo/accept", nil, "Idempotency-Key", strings.Repeat("x", 256))
}

// TestManyWithOneKey sends the same request many times at once.
func TestManyWithOneKey(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	answers := make([]string, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i] = string(d.send("POST", "/v1/cells/demo/fork", api.ForkBody{Name: "copy"}, "Idempotency-Key", "once").body)
		})
	}
	all.Wait()
	for _, a := range answers {
		if a != answers[0] || !strings.Contains(a, `"copy"`) {
			t.Errorf("%s", a)
		}
	}
}

// TestRepeatedStream repeats requests whose first answer was a stream, or came at
// the beginning: the answer is the run.
func TestRepeatedStream(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	run := api.RunBody{Command: []string{"true"}}
	d.want(200, nil, "POST", "/v1/cells/demo/runs", run, "Idempotency-Key", "s", "Accept", "text/event-stream")
	var info api.RunInfo
	d.want(200, &info, "POST", "/v1/cells/demo/runs", run, "Idempotency-Key", "s", "Accept", "text/event-stream")
	if info.State != "ended" || info.Outcome != "succeeded" {
		t.Errorf("%+v", info)
	}
	var begun, repeated api.RunStarted
	long := api.RunBody{Command: []string{"sleep", "1000"}}
	d.want(http.StatusAccepted, &begun, "POST", "/v1/cells/demo/runs", long, "Idempotency-Key", "a", "Prefer", "respond-async")
	d.want(http.StatusAccepted, &repeated, "POST", "/v1/cells/demo/runs", long, "Idempotency-Key", "a", "Prefer", "respond-async")
	if begun != repeated {
		t.Errorf("%+v %+v", begun, repeated)
	}
	d.want(http.StatusAccepted, nil, "POST", "/v1/runs/"+begun.RunID+"/cancel", nil)
}

// TestCutRequest repeats a request whose run a dead daemon did not begin, many times at
// once. It is carried out once, as a run of another id: the first one may have been seen.
func TestCutRequest(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	const path = "/v1/cells/demo/runs"
	run := api.RunBody{Command: []string{"sh", "-c", "echo x >> file; cat file"}}
	var first api.RunAnswer
	d.want(200, &first, "POST", path, run, "Idempotency-Key", "k")
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.undoRun(first.RunID)
	d.start(api.ServeOptions{})
	answers := make([]string, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = string(d.send("POST", path, run, "Idempotency-Key", "k").body) })
	}
	all.Wait()
	for _, a := range answers {
		if a != answers[0] || !strings.Contains(a, `"stdout":"x\nx\n"`) || strings.Contains(a, first.RunID) {
			t.Errorf("%s", a)
		}
	}
}

// undoRun makes the only request with a key, and its run, what they were before the run
// began.
func (d *daemon) undoRun(id string) {
	d.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(d.home, "forkcell.db"))
	if err != nil {
		d.Fatal(err)
	}
	err = sqlitex.ExecuteTransient(conn, "UPDATE requests SET answer=x''", nil)
	if err == nil {
		err = sqlitex.ExecuteTransient(conn, "DELETE FROM runs WHERE id=?", &sqlitex.ExecOptions{Args: []any{id}})
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		d.Fatal(err)
	}
}
