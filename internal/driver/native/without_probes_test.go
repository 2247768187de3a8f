//go:build probes

package native

import (
	"context"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/driver"
)

func leaveOff() func([]driver.Control) driver.Driver {
	return func(off []driver.Control) driver.Driver { return New(Options{without: without{off}}) }
}

// leastShown is how many probes must be shown for each kind of caller.
const leastShown = 80

// TestProbes shows that every control stops something: without it, an attack
// succeeds.
func TestProbes(t *testing.T) {
	t.Parallel()
	shown := suite().Probes(t)
	if shown < leastShown {
		t.Errorf("only %d probes were shown", shown)
	}
	t.Logf("%d probes", shown)
}

// TestPlantedLinksWithout: the control alone keeps what is made in the cell.
func TestPlantedLinksWithout(t *testing.T) {
	made, err := madeOutside(t, Options{without: without{[]driver.Control{driver.ControlInRoot}}})
	if len(made) == 0 {
		t.Errorf("nothing was made outside of the cell (the run: %v)", err)
	}
}

// Each case takes a control of the cells away, for real, and expects the doctor
// to find out which one.
func TestDoctorFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	for control, name := range map[driver.Control]string{
		driver.ControlSeccomp: holdsSeccomp, driver.ControlLandlock: holdsLandlock, driver.ControlDeadSockets: holdsDeadSockets, driver.ControlCapabilities: holdsCapabilities,
		driver.ControlProcMasks: holdsProc, driver.ControlReadOnlyProc: holdsProc, driver.ControlReadOnly: holdsReadOnly, driver.ControlHiddenInit: holdsHiddenInit,
		driver.ControlNetNS: "net namespace", driver.ControlIPCNS: "ipc namespace", driver.ControlUTSNS: "uts namespace", driver.ControlCgroupNS: "cgroup namespace", driver.ControlPIDNS: "pid namespace",
	} {
		t.Run(string(control), func(t *testing.T) {
			t.Parallel()
			n := New(Options{without: without{[]driver.Control{control}}})
			found, err := n.examineCell(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range n.probes().controls(found) {
				if missing := c.Status == statusMissing; missing != (c.Name == name) {
					t.Errorf("%+v", c)
				} else if missing && c.Remedy == "" {
					t.Errorf("no remedy: %+v", c)
				}
			}
		})
	}
	t.Run("both that stop user namespaces", func(t *testing.T) {
		t.Parallel()
		n := New(Options{without: without{[]driver.Control{driver.ControlSeccomp, driver.ControlUserNSLimit}}})
		found, err := n.examineCell(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if c := find(t, found, holdsInside); c.Status != statusMissing {
			t.Errorf("%+v", c)
		}
	})
	t.Run("reports", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := New(Options{without: without{[]driver.Control{driver.ControlSeccomp}}}).probeNotices(ctx); err == nil {
			t.Error("reports without a filter")
		}
	})
}
