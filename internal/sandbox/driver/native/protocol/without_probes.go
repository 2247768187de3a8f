//go:build probes

package protocol

import (
	"slices"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
)

// Without lists controls that are left off. It exists for the tests that show of
// every control what it stops. Nothing outside of package native can fill the one
// of its Options, and the init takes its plan from its parent alone.
type Without struct{ Controls []control.Name }

// Has reports whether a control is left off.
func (w Without) Has(name control.Name) bool { return slices.Contains(w.Controls, name) }

func (w *Without) fields(wi *wire) { texts(wi, &w.Controls) }
