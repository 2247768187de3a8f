//go:build probes

package native

import (
	"context"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

func leavingOff() func([]control.Name) driver.Driver {
	return func(off []control.Name) driver.Driver { return New(Options{without: protocol.Without{Controls: off}}) }
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
	made, err := madeOutside(t, Options{without: protocol.Without{Controls: []control.Name{control.InRoot}}})
	if len(made) == 0 {
		t.Errorf("nothing was made outside of the cell (the run: %v)", err)
	}
}

// Each case takes a control of the cells away, for real, and expects the doctor
// to find out which one.
func TestDoctorFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	for off, name := range map[control.Name]string{
		control.Seccomp: protocol.HoldsSeccomp, control.Landlock: protocol.HoldsLandlock, control.DeadSockets: protocol.HoldsDeadSockets, control.Capabilities: protocol.HoldsCapabilities,
		control.ProcMasks: protocol.HoldsProc, control.ReadOnlyProc: protocol.HoldsProc, control.ReadOnly: protocol.HoldsReadOnly, control.HiddenInit: protocol.HoldsHiddenInit,
		control.NetNS: "net namespace", control.IPCNS: "ipc namespace", control.UTSNS: "uts namespace", control.CgroupNS: "cgroup namespace", control.PIDNS: "pid namespace",
	} {
		t.Run(string(off), func(t *testing.T) {
			t.Parallel()
			n := New(Options{without: protocol.Without{Controls: []control.Name{off}}})
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
		n := New(Options{without: protocol.Without{Controls: []control.Name{control.Seccomp, control.UserNSLimit}}})
		found, err := n.examineCell(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if c := find(t, found, protocol.HoldsInside); c.Status != statusMissing {
			t.Errorf("%+v", c)
		}
	})
	t.Run("reports", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := New(Options{without: protocol.Without{Controls: []control.Name{control.Seccomp}}}).probeNotices(ctx); err == nil {
			t.Error("reports without a filter")
		}
	})
}
