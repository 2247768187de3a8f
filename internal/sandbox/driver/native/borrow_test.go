package native

import (
	"io"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// TestNoBorrowing: where the sockets of other processes cannot be looked at, as
// with kernel.yama.ptrace_scope=3, connects are not watched, and the receipt and
// the doctor say so.
func TestNoBorrowing(t *testing.T) {
	t.Parallel()
	if !hasNetfilter() {
		t.Skip("this kernel cannot capture connections")
	}
	for _, refused := range []bool{false, true} {
		var probes Probes
		if refused {
			probes.Borrow = func(int) error { return errBorrow }
		}
		n := New(Options{Probes: probes, ProbeDir: t.TempDir()})
		out, err := n.Run(t.Context(), driver.Spec{
			Hostname: "probe", Command: driver.Command{Args: []string{"true"}, Workdir: "/"},
			Guard: driver.Guard{LandlockBestEffort: true},
			Network: &driver.Network{Serve: func(c driver.Captured) (func(), error) {
				c.Close()
				return func() {}, nil
			}},
		}, driver.Stdio{Out: io.Discard, Err: io.Discard})
		if err != nil || out.Code != 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		said := strings.Contains(strings.Join(out.Controls.Degraded, "; "), "ptrace_scope=3")
		if said != refused {
			t.Errorf("refused %v: degraded %q", refused, out.Controls.Degraded)
		}
		c := n.probes().egress(t.Context(), true)
		if degraded := c.Status == statusDegraded; degraded != refused {
			t.Errorf("refused %v: %+v", refused, c)
		}
	}
}
