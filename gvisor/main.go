// Command forkcell-gvisor is the runtime of Forkcell's gVisor tier: gVisor's runsc at
// a pinned version, with the commands that a cell needs and nothing else.
//
// It is a module of its own, so that neither gVisor nor what it needs is linked into
// forkcell. Forkcell starts it as
//
//	forkcell-gvisor cell DIR SPEC [SAVED]
//
// in a cell's own namespaces, with an empty directory in memory and a container's
// specification (OCI) as JSON; SAVED is a directory with a container that was saved,
// which is restored instead of started. The container's standard streams are those of
// the process, which ends with it, with its exit code.
//
//	forkcell-gvisor offline DIR SPEC [SAVED]
//
// does the same for a container without a network, and writes a line on the standard
// error for each address that a program of the container connects to.
//
//	forkcell-gvisor save DIR
//
// stops the container in DIR, says "still", and when it is told "save", saves the
// container to DIR/image. Then, or when its input ends, the container goes on. When it is
// told "suspend", it also saves the container, and says "saved". The container then stands
// still until it is killed, unless the process is told "go on".
//
//	forkcell-gvisor resume DIR
//
// lets the container go on if such a process was killed while it stood still.
//
//	forkcell-gvisor forget DIR
//
// removes the image. The other commands are runsc's own: those that it executes itself by.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
)

// exitNoCell is the exit code when the container could not be prepared. It is runsc's
// own for such failures.
const exitNoCell = 128

func main() {
	spareCollector(startTime)
	if len(os.Args) == 3 && os.Args[1] == "forget" {
		check(forget(os.Args[2]))
		return
	}
	args, err := arguments(os.Args[1:])
	check(err)
	registerConnects()
	if args != nil {
		os.Args = append(os.Args[:1], args...)
	}
	cli.Run(nil, commands(), nil)
}

// startTime is the time in which a container has started or was restored, mostly.
const startTime = time.Second

// startMemory is what a process may have on its heap in that time, without any garbage
// being collected: more than a start needs, and a bound for what a container causes.
const startMemory = 128 << 20

// spareCollector has no garbage collected for a time, and closes the channel when it is
// again. A start makes much garbage; to collect it takes a third of the processor time of
// a start, in each of the container's processes.
func spareCollector(d time.Duration) <-chan struct{} {
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(startMemory)
	done := make(chan struct{})
	time.AfterFunc(d, func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
		close(done)
	})
	return done
}

// check ends the process if there is no container for a reason of its own.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "forkcell-gvisor:", err)
		os.Exit(exitNoCell)
	}
}

// commands are those of runsc that a cell needs. It starts boot, gofer and umount by
// executing its own file.
func commands() map[util.SubCommand]string {
	const container, internal = "", "internal use only"
	return map[util.SubCommand]string{
		new(cmd.Run):     container,
		new(cmd.Restore): container,
		new(moment):      container,
		new(cmd.Kill):    container,
		new(cmd.Delete):  container,
		new(cmd.State):   container,

		new(sentrycmd.Boot):   internal,
		new(cmd.Gofer):        internal,
		new(sentrycmd.Umount): internal,
	}
}
