// Command forkcell turns a risky command into a transaction: checkpoint,
// governed run, signed receipt, then accept, restore or fork.
package main

import (
	"context"
	"io"
	"log" //nolint:depguard // only to silence what net/http writes to it
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/cli"
	"github.com/forkcell/forkcell/internal/front/local"
	_ "github.com/forkcell/forkcell/internal/sandbox/driver/first" // takes over in the first process of a cell
)

func main() {
	// net/http writes to the standard logger what an upstream sends unasked. This
	// program logs nothing there, and an upstream is not to write to the terminal.
	log.SetOutput(io.Discard)
	if code, is := local.Helper(); is {
		os.Exit(code)
	}
	streams := cli.Streams{In: os.Stdin, Out: duplicateStream(os.Stdout, 1), Err: duplicateStream(os.Stderr, 2)}
	os.Exit(cli.Main(context.Background(), os.Args[1:], streams, open, programs(), local.Version()))
}

// duplicateStream returns a standard stream under another number. A closed reader
// must not kill a run half-way, and Go ends a program whose write to descriptor
// 1 or 2 meets a broken pipe. A write to any other fails with EPIPE, which the
// command line takes as the end of the output.
func duplicateStream(f *os.File, fd uintptr) *os.File {
	other, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return f // it is closed: writes return an error
	}
	return os.NewFile(uintptr(other), f.Name())
}

// open connects the command line to the engine on a home.
func open(home string, mode cli.Mode, caller caller.Caller) (cli.Engine, func() error, error) {
	if home == "" {
		var err error
		if home, err = local.DefaultHome(); err != nil {
			return nil, nil, err
		}
	}
	modes := map[cli.Mode]local.Mode{
		cli.Read: local.Read, cli.Write: local.Write, cli.Create: local.Create, cli.Rescue: local.Rescue, cli.Run: local.Run, cli.Visit: local.Visit,
	}
	e, release, err := local.Open(home, modes[mode], caller)
	if err != nil {
		return nil, nil, err
	}
	return local.Local{Engine: e, Home: home, Caller: caller}, release, nil
}
