// Command forkcell-gvisor is the runtime of Forkcell's gVisor tier: gVisor's runsc at
// a pinned version, with the commands that a cell needs and nothing else.
//
// It is a module of its own, so that neither gVisor nor what it needs is linked into
// forkcell. Forkcell starts it as
//
//	forkcell-gvisor cell DIR SPEC
//
// in a cell's own namespaces, with an empty directory in memory and a container's
// specification (OCI) as JSON. The container's standard streams are those of the
// process, which ends with it, with its exit code. The other commands are runsc's
// own: those that it executes itself by, and those that pause, save and restore a
// container.
package main

import (
	"fmt"
	"os"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
)

// exitNoCell is the exit code when the container could not be prepared. It is runsc's
// own for such failures.
const exitNoCell = 128

func main() {
	if len(os.Args) > 1 && os.Args[1] == "cell" {
		args, err := prepare(os.Args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "forkcell-gvisor:", err)
			os.Exit(exitNoCell)
		}
		os.Args = append(os.Args[:1], args...)
	}
	cli.Run(nil, commands(), nil)
}

// commands are those of runsc that a cell needs. It starts boot, gofer and umount by
// executing its own file.
func commands() map[util.SubCommand]string {
	const container, internal = "", "internal use only"
	return map[util.SubCommand]string{
		new(cmd.Run):        container,
		new(cmd.Restore):    container,
		new(cmd.Checkpoint): container,
		new(cmd.Pause):      container,
		new(cmd.Resume):     container,
		new(cmd.Kill):       container,
		new(cmd.Delete):     container,
		new(cmd.State):      container,

		new(sentrycmd.Boot):   internal,
		new(cmd.Gofer):        internal,
		new(sentrycmd.Umount): internal,
	}
}
