package full_test

import (
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.cell("demo")
	d.want(200, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}})
	d.want(200, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sh", "-c", "unshare -U true; false"}})
	d.problem(404, api.CodeNotFound, "GET", "/nosuch/secret-path", nil)
	reader := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read", "run", "decide"}})
	reader.problem(403, api.CodeForbidden, "GET", "/metrics", nil)
	r := d.send("GET", "/metrics", nil)
	text := string(r.body)
	if r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s", r.status, r.header)
	}
	for _, line := range []string{
		`forkcell_runs_total{outcome="succeeded"} 1`, `forkcell_runs_total{outcome="failed"} 1`, `forkcell_run_events_total{action="denied"} 1`,
		`forkcell_run_step_seconds_count{step="start"} 2`, `forkcell_run_step_seconds_count{step="seal"} 2`, `forkcell_run_step_seconds_count{step="decide"} 2`,
		`forkcell_api_request_seconds_count{method="POST",route="/v1/cells/{cell}/runs",status="2xx"} 2`,
		`forkcell_api_request_seconds_count{method="GET",route="/",status="4xx"} 1`,
		`forkcell_api_request_seconds_count{method="GET",route="/metrics",status="4xx"} 1`,
		`forkcell_cells{state="idle"} 1`, `forkcell_runs_now 0`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(text, "secret-path") || strings.Contains(text, "demo") {
		t.Error("a label has what a caller chose")
	}
}
