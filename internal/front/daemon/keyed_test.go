package daemon_test

import (
	"bufio"
	"context"
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
	for _, malformed := range []string{"", "two words", strings.Repeat("x", 256), "\xc3\xa9"} {
		d.problem(400, api.CodeUsage, "POST", "/v1/cells/demo/accept", nil, "Idempotency-Key", malformed)
	}
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
func (d *testDaemon) undoRun(id string) {
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

// requestsKept returns the number of requests whose answers are kept.
func (d *testDaemon) requestsKept() (n int64) {
	d.Helper()
	db, err := sqlite.OpenConn(filepath.Join(d.home, "forkcell.db"), sqlite.OpenReadOnly)
	if err != nil {
		d.Fatal(err)
	}
	defer db.Close()
	err = sqlitex.Execute(db, "SELECT count(*) FROM requests", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		n = s.ColumnInt64(0)
		return nil
	}})
	if err != nil {
		d.Fatal(err)
	}
	return n
}

// TestReadingKeepsNoAnswer sends requests that change nothing with keys. A caller who may
// only read could fill the home with their answers.
func TestReadingKeepsNoAnswer(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	reader := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read"}})
	for path, body := range map[string]any{
		"/v1/cells/demo/files/list": api.ListFilesRequest{},
		"/v1/cells/demo/verify":     api.VerifyRequest{},
		"/v1/policies/explain":      api.ExplainBody{Cell: "demo", Path: "/etc/passwd"},
		"/v1/receipts/verify":       api.ReceiptVerifyRequest{Cell: "demo"},
	} {
		first := reader.send("POST", path, body, "Idempotency-Key", "a")
		again := reader.send("POST", path, body, "Idempotency-Key", "a")
		if first.status != again.status || first.status >= 500 {
			t.Errorf("%s: %d %s, again %d", path, first.status, first.body, again.status)
		}
	}
	if n := d.requestsKept(); n != 0 {
		t.Errorf("%d requests are kept", n)
	}
}

// TestRevokedWithKey revokes the token of a request with a key. That is no disconnect: the
// run ends, and shows its holder nothing more.
func TestRevokedWithKey(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	holder := d.token(api.TokenBody{Name: "holder", Scopes: []string{"run"}})
	ended := make(chan reply)
	go func() {
		ended <- holder.send("POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sleep", "60"}}, "Accept", "text/event-stream", "Idempotency-Key", "a")
	}()
	var runs api.List[api.RunInfo]
	for len(runs.Items) == 0 {
		d.want(200, &runs, "GET", "/v1/runs", nil)
	}
	d.want(204, nil, "DELETE", "/v1/tokens/holder", nil)
	if r := <-ended; !strings.Contains(string(r.body), `"outcome":"interrupted"`) {
		t.Errorf("%s", r.body)
	}
}

// TestRevokedAfterLeaving revokes the token of a request with a key whose caller has gone
// away. The run, which went on, ends.
func TestRevokedAfterLeaving(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	holder := d.token(api.TokenBody{Name: "holder", Scopes: []string{"run"}})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, holder.site+"/v1/cells/demo/runs", strings.NewReader(`{"command": ["sleep", "600"]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Idempotency-Key": {"a"}}
	resp, err := holder.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadByte(); err != nil {
		t.Fatal(err)
	}
	leave()
	d.want(204, nil, "DELETE", "/v1/tokens/holder", nil)
	for {
		var runs api.List[api.RunInfo]
		d.want(200, &runs, "GET", "/v1/runs", nil)
		if len(runs.Items) == 1 && runs.Items[0].FinishedAt != nil {
			return
		}
	}
}

// TestAnswerOfOtherRights repeats a request of a token with another one of its name, which
// sees other cells.
func TestAnswerOfOtherRights(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	body := api.RunBody{Command: []string{"echo", "for a few"}}
	first := d.token(api.TokenBody{Name: "ci", Scopes: []string{"run"}})
	first.want(200, nil, "POST", "/v1/cells/demo/runs", body, "Idempotency-Key", "a")
	d.want(204, nil, "DELETE", "/v1/tokens/ci", nil)
	same := d.token(api.TokenBody{Name: "ci", Scopes: []string{"run"}})
	same.want(200, nil, "POST", "/v1/cells/demo/runs", body, "Idempotency-Key", "a")
	d.want(204, nil, "DELETE", "/v1/tokens/ci", nil)
	for _, other := range []api.TokenBody{{Name: "ci", Scopes: []string{"run"}, Cells: "b-"}, {Name: "ci", Scopes: []string{"read"}}} {
		c := d.token(other)
		c.problem(422, api.CodeKeyReused, "POST", "/v1/cells/demo/runs", body, "Idempotency-Key", "a")
		d.want(204, nil, "DELETE", "/v1/tokens/ci", nil)
	}
	var runs api.List[api.RunInfo]
	if d.want(200, &runs, "GET", "/v1/runs", nil); len(runs.Items) != 1 {
		t.Errorf("%d runs", len(runs.Items))
	}
}
