// Package first makes a program that imports it a cell's first process, or that of a
// cell's guest, when it was started as one, before most of the program's other packages are initialised.
//
// The main package of a binary that runs cells imports it for this effect. A
// call of cellinit.Main at the top of main would do the same, but only after
// every package of the binary has been initialised, which for a database engine
// alone takes longer than building the cell. Go initialises packages in the
// order of their import paths, dependencies first, so this one must depend on
// little: it imports nothing but cellinit and minder, and TestFirstProcessStartsEarly holds what
// that may bring along.
package first

import (
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/minder"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
)

func init() {
	if minder.IsMinder() {
		minder.Main()
	}
	if cellinit.IsInit() {
		cellinit.Main()
	}
}
