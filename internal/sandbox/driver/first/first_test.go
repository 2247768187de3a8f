package first

import (
	"bytes"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native"
)

// TestInit runs a cell whose first process is this test binary, which has no
// TestMain: only the package's init can have taken over.
func TestInit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	got, err := native.New(native.Options{}).Run(t.Context(), driver.Spec{
		Command: driver.Command{Args: []string{"/bin/sh", "-c", "echo here; exit 3"}, Workdir: "/"},
	}, driver.Stdio{Out: &out})
	if err != nil || got.Code != 3 || out.String() != "here\n" {
		t.Fatalf("%+v, %v, %q", got, err, out.String())
	}
}
