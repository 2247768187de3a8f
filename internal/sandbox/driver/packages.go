package driver

import "github.com/forkcell/forkcell/internal/sandbox/driver/packages"

// PackagesDir is on PATH of commands that ask for package managers.
const PackagesDir = packages.Dir

// Packages lets the commands of a cell have package managers executed as the cell's
// root, with the capabilities of Spec.AsRoot. It decides which program is root, not what
// the program does: its options and its packages are the commands' own. Everything else
// that holds the cell holds its root too.
type Packages struct {
	// Shim is the file of a program of the host that asks for a package manager, by the
	// name that it has in PackagesDir.
	Shim string
	// Asked is called before a package manager is executed, with its command line. An
	// error refuses it. Ended is called when it has ended, with its exit code, or why it
	// was not executed. Only one of these calls is made at a time.
	Asked func(args []string) error
	Ended func(args []string, code int, failed error)
}
