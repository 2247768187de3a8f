package local

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
)

// carrierTest makes this program the one in a cell.
const carrierTest = "FORKCELL_TEST_CARRIER"

// TestCarrierIsHidden: the program in a cell cannot be dumped or traced by the cell's user,
// whatever it does.
func TestCarrierIsHidden(t *testing.T) {
	t.Parallel()
	if os.Getenv(carrierTest) != "" {
		os.Args = append([]string{supervise.CarrierFile}, "none")
		_, is := Helper()
		dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		if !is || err != nil || dumpable != 0 {
			t.Errorf("helper %v, dumpable %d, %v", is, dumpable, err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCarrierIsHidden$")
	cmd.Env = append(os.Environ(), carrierTest+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
