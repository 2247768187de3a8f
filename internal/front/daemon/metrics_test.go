package daemon_test

import (
	"fmt"
	"strconv"
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
	const policy = "version: 1\nnetwork_policies: {a: {endpoints: [{host: allowed.example, port: 443}], binaries: [{path: /usr/bin/none}]}}\n"
	var asked api.RunAnswer
	d.want(200, &asked, "POST", "/v1/cells/demo/runs",
		api.RunBody{Command: []string{"sh", "-c", "getent hosts denied.example; true"}, RunSettings: api.RunSettings{Policy: policy}})
	if asked.Denied.Attempts == 0 {
		t.Errorf("nothing was denied: %+v", asked.RunResult)
	}
	d.problem(404, api.CodeNotFound, "GET", "/nosuch/secret-path", nil)
	reader := d.token(api.TokenBody{Name: "reader", Scopes: []string{"read", "run", "decide"}})
	reader.problem(403, api.CodeForbidden, "GET", "/metrics", nil)
	r := d.send("GET", "/metrics", nil)
	text := string(r.body)
	if r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s", r.status, r.header)
	}
	for _, line := range []string{
		`forkcell_runs_total{outcome="succeeded"} 2`, `forkcell_runs_total{outcome="failed"} 1`, `forkcell_run_events_total{action="denied"} `,
		fmt.Sprintf("forkcell_egress_denied_total %d\n", asked.Denied.Attempts),
		`forkcell_run_step_seconds_count{step="start"} 3`, `forkcell_run_step_seconds_count{step="seal"} 3`, `forkcell_run_step_seconds_count{step="decide"} 3`,
		`forkcell_api_request_seconds_count{method="POST",route="/v1/cells/{cell}/runs",status="2xx"} 3`,
		`forkcell_api_request_seconds_count{method="GET",route="/",status="4xx"} 1`,
		`forkcell_api_request_seconds_count{method="GET",route="/metrics",status="4xx"} 1`,
		`forkcell_cells{state="idle"} 1`, `forkcell_runs_now 0`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no line %s", line)
		}
	}
	if ready, size := metric(t, text, "forkcell_pool_ready"), metric(t, text, "forkcell_pool_size"); size == 0 || ready > size {
		t.Errorf("%v of %v first processes are ready", ready, size)
	}
	if strings.Contains(text, "secret-path") || strings.Contains(text, "demo") {
		t.Error("a label has what a caller chose")
	}
}

// metric returns the value of a metric without labels.
func metric(t *testing.T, text, name string) float64 {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n"+name+" ")
	line, _, _ := strings.Cut(rest, "\n")
	value, err := strconv.ParseFloat(line, 64)
	if !found || err != nil {
		t.Errorf("no metric %s: %v", name, err)
	}
	return value
}
