package drivertest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// testLimitOfProcesses: a limit stops a command that wants more, and is counted.
func testLimitOfProcesses(t *testing.T, f *Fixture) {
	f.Spec.ID, f.Spec.Limits.PIDs = fmt.Sprintf("limit-%d", os.Getpid()), 64
	_, stderr, out, err := f.Try(nil, "/bin/sh", "-c", "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done")
	if err != nil || out.Code == 0 || !strings.Contains(stderr, "fork") {
		t.Errorf("%+v, %v, %q", out, err, stderr)
	}
	if out.Usage.PIDsHits == 0 {
		t.Errorf("the limit was met, and not counted: %+v", out.Usage)
	}
}
