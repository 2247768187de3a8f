package daemon_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestMCPAcceptsWhatItSaw: a model names what it accepts, by what diff told it. Work that
// came since it looked is not accepted.
func TestMCPAcceptsWhatItSaw(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.cell("demo")
	m := d.connect(nil)
	good := d.ran("demo", "touch good")
	var seen api.DiffResult
	m.do(&seen, "diff", map[string]any{"cell": "demo"})
	if !slices.Equal(seen.Runs, []string{good}) || len(seen.Changes) != 1 {
		t.Fatalf("the model sees %+v", seen)
	}
	evil := d.ran("demo", "touch evil")
	for _, tool := range []map[string]any{{"tool": "accept", "cell": "demo"}, {"tool": "session_accept", "session": "demo"}} {
		name := tool["tool"].(string)
		delete(tool, "tool")
		tool["apply"] = true
		m.fails(api.CodeNotShown, name, tool)
	}
	m.fails(api.CodeNotShown, "accept", map[string]any{"cell": "demo", "runs": []string{evil}})
	var res api.AcceptResult
	m.do(&res, "accept", map[string]any{"cell": "demo", "runs": seen.Runs, "apply": true})
	if res.RunID != good || len(res.Also) != 0 {
		t.Errorf("%+v", res)
	}
	if _, err := os.Stat(filepath.Join(d.source, "good")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(d.source, "evil")); err == nil {
		t.Error("the directory has what the model did not see")
	}

	// The diff of one run names what it does not show.
	last := d.ran("demo", "touch last")
	m.do(&seen, "diff", map[string]any{"cell": "demo", "run": last})
	if len(seen.Earlier) != 1 || seen.Earlier[0].ID != evil {
		t.Errorf("earlier: %+v", seen.Earlier)
	}
	m.do(nil, "accept", map[string]any{"cell": "demo", "runs": []string{last}, "leave_out": []string{evil}})
	m.fails(api.CodeNotShown, "accept", map[string]any{"cell": "demo"})

	// A fork names the undecided work that it begins with.
	pending := d.ran("demo", "touch more")
	var forks api.ForkedCells
	m.do(&forks, "fork", map[string]any{"cell": "demo", "name": "fork"})
	if !slices.Equal(forks.PendingRuns, []string{pending}) {
		t.Errorf("%+v", forks)
	}
}
