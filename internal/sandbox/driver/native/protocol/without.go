//go:build !probes

package protocol

import "github.com/forkcell/forkcell/internal/sandbox/driver/control"

// Without is empty in this build: no control can be left off. With the tag probes
// it lists controls to leave off, for the tests that show what each of them stops.
type Without struct{}

// Has reports whether a control is left off.
func (Without) Has(control.Name) bool { return false }

func (Without) fields(*wire) {}
