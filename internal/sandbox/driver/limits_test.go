package driver_test

import (
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// TestAchievedLimits: a record claims no limit that it says is not enforced.
func TestAchievedLimits(t *testing.T) {
	t.Parallel()
	all := driver.Limits{Memory: 1, CPUsMilli: 1500, PIDs: 30, OpenFiles: 40}
	noMemory, noCPU, noPIDs := driver.NotEnforced("memory", "why"), driver.NotEnforced("cpu", "why"), driver.NotEnforced("pids", "why")
	for _, test := range []struct {
		asked    driver.Limits
		degraded []string
		want     string
	}{
		{driver.Limits{}, []string{noMemory}, "none asked for"},
		{all, []string{"limit pids is held by a resource limit only: why"}, "memory 1 bytes, cpus 1.500, pids 30, open files 40"},
		{all, []string{noCPU, noMemory}, "pids 30, open files 40"},
		{all, []string{noCPU, noMemory, noPIDs}, "open files 40"},
		{driver.Limits{PIDs: 30}, []string{noPIDs}, "none of those asked for"},
	} {
		if got := test.asked.Achieved(test.degraded); got != test.want {
			t.Errorf("%+v, %q: %q instead of %q", test.asked, test.degraded, got, test.want)
		}
	}
}
