//go:build failpoints

package main

import (
	"encoding/json"
	"testing"
)

// TestBranchKilledAtFailpoints kills the supervisor while it makes branches. None of
// them is left, and the run of the template is finished.
func TestBranchKilledAtFailpoints(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"live.captured", "branch.forked", "branch.started"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			need(t, "/usr/bin/python3")
			l := newLab(t)
			l.write("load.py", "open('made', 'w').write('1')")
			l.env = append(l.env, "FORKCELL_FAILPOINT="+point)
			w := &warmLab{lab: l}
			w.warm()
			if code, out, _ := w.forkcell("branch", "box", "--name", "try", "-n", "3"); code == 0 {
				t.Fatalf("it did not die: %s", out)
			}
			l.env = nil
			w.must("checkpoint", "box")
			var status struct {
				LastOutcome string `json:"last_outcome"`
			}
			w.ok(json.Unmarshal([]byte(w.must("status", "box", "--json")), &status))
			if status.LastOutcome != "interrupted" {
				t.Errorf("the outcome is %s", status.LastOutcome)
			}
			w.warm()
			w.onlyTemplate()
		})
	}
}

// TestWarmKilled kills the supervisor of a template that has just become warm.
func TestWarmKilled(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/python3")
	l := newLab(t)
	l.write("load.py", "")
	l.must("init", "box", "--from", "work")
	l.env = []string{"FORKCELL_FAILPOINT=live.warm"}
	if code, _, errs := l.forkcell("warm", "python", "box"); code == 0 {
		t.Fatalf("it did not die: %s", errs)
	}
	l.env, l.made = nil, true
	l.must("checkpoint", "box")
	w := &warmLab{lab: l}
	w.warm()
	w.onlyTemplate()
	l.must("stop", "box")
}
