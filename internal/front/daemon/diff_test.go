package daemon_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestDiff compares states in every format.
func TestDiff(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	d.cell("other")
	var run api.RunAnswer
	d.want(200, &run, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "echo hi > hello.txt; mkdir d; echo x > d/x"}})
	var doc struct{ Changes []api.ChangeJSON }
	d.want(200, &doc, "GET", "/v1/cells/demo/diff", nil)
	if len(doc.Changes) != 3 {
		t.Errorf("%+v", doc)
	}
	d.want(200, &doc, "GET", "/v1/cells/demo/diff?run="+run.RunID+"&path=hello.txt", nil)
	if len(doc.Changes) != 1 || doc.Changes[0].Path != "hello.txt" {
		t.Errorf("%+v", doc)
	}
	d.want(200, &doc, "GET", "/v1/cells/demo/diff?path=hello.txt&path=d", nil)
	if len(doc.Changes) != 3 {
		t.Errorf("%+v", doc)
	}
	for format, want := range map[string]string{"patch": "\n-hello\n+hi\n", "stat": "2 +-"} {
		r := d.send("GET", "/v1/cells/demo/diff?format="+format, nil)
		if r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") || !strings.Contains(string(r.body), want) {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
	}
	d.want(200, &doc, "GET", "/v1/cells/demo/diff?to=other", nil)
	d.problem(404, api.CodeNotFound, "GET", "/v1/cells/demo/diff?to=none", nil)
	d.problem(400, api.CodeUsage, "GET", "/v1/cells/demo/diff?format=html", nil)
	d.problem(400, api.CodeUsage, "GET", "/v1/cells/demo/diff?run="+run.RunID+"&from="+run.CheckpointBefore, nil)
}

// TestDiffOfOthers compares with cells and states that the caller does not see.
func TestDiffOfOthers(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("ci-a")
	d.cell("secret")
	var run api.RunAnswer
	d.want(200, &run, "POST", "/v1/cells/secret/runs", api.RunBody{Command: []string{"sh", "-c", "echo secret > file"}})
	var made api.TokenCreated
	d.want(http.StatusCreated, &made, "POST", "/v1/tokens", api.TokenRequest{Name: "ci", Scopes: []string{"read"}, Cells: "ci-"})
	for _, to := range []string{"secret", "secret~1", run.CheckpointAfter, run.CheckpointAfter[len(run.CheckpointAfter)-8:]} {
		p := d.problem(404, api.CodeNotFound, "GET", "/v1/cells/ci-a/diff?to="+to, nil, "Authorization", "Bearer "+made.Token)
		if strings.Contains(p.Hint, "secret") {
			t.Errorf("%+v", p)
		}
		d.want(200, nil, "GET", "/v1/cells/ci-a/diff?to="+to, nil)
	}
}
