package daemon_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestResultOfEndedRun: who asks for a run after its end gets the result that who waited
// for it got, except notes and the time that the decision took.
func TestResultOfEndedRun(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	body := api.RunBody{Command: []string{"sh", "-c", "echo new > new; kill -9 $$"}}
	var waited api.RunResult
	d.want(200, &waited, "POST", "/v1/cells/demo/runs", body)
	var info api.RunInfo
	d.want(200, &info, "GET", "/v1/runs/"+waited.RunID, nil)
	got := info.Result
	if got == nil {
		t.Fatalf("no result: %+v", info)
	}
	if got.Cell != "demo" || got.Outcome != waited.Outcome || got.Signal != 9 || got.ExitCode != waited.ExitCode || got.ChangedFiles != 1 ||
		got.ReceiptID != waited.ReceiptID || got.Decision != "pending" || got.PolicyHash != waited.PolicyHash {
		t.Errorf("got %+v\nwant %+v", got, waited)
	}
	if got.CheckpointAfter != waited.CheckpointAfter || got.RootBefore != waited.RootBefore || got.RootAfter != waited.RootAfter || got.RootAfter == got.RootBefore {
		t.Errorf("states: got %+v\nwant %+v", got, waited)
	}
	if !slices.Equal(got.Degraded, waited.Degraded) || !maps.Equal(got.Events, waited.Events) || got.Controls.Seccomp != waited.Controls.Seccomp {
		t.Errorf("controls: got %+v\nwant %+v", got, waited)
	}
	if got.Timings.CommandUS != waited.Timings.CommandUS || got.Timings.TotalUS <= 0 {
		t.Errorf("timings: got %+v, want %+v", got.Timings, waited.Timings)
	}
	var list api.List[api.RunInfo]
	d.want(200, &list, "GET", "/v1/runs", nil)
	if len(list.Items) != 1 || list.Items[0].Result != nil {
		t.Errorf("the list: %+v", list.Items)
	}
}
