//go:build !probes

package native

import (
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

func leavingOff() func([]control.Name) driver.Driver { return nil }

// TestNoControlCanBeLeftOff: without the tag probes there is nothing to fill.
func TestNoControlCanBeLeftOff(t *testing.T) {
	t.Parallel()
	if (Options{}).without != struct{}{} { //nolint:staticcheck // it does not compile if the type can hold anything
		t.Error("something can be left off")
	}
	for _, c := range controlsShown() {
		if (protocol.Without{}).Has(c) {
			t.Errorf("%s is left off", c)
		}
	}
}
