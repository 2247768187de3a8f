// Command forkcell turns a risky command into a transaction: checkpoint,
// governed run, signed receipt, then accept, restore or fork.
package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/app"
	"github.com/forkcell/forkcell/internal/carry"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/cli"
	"github.com/forkcell/forkcell/internal/driver"
	_ "github.com/forkcell/forkcell/internal/driver/first" // before anything heavier
	"github.com/forkcell/forkcell/internal/fsx"
)

func main() {
	if helper() {
		return
	}
	// A reader that goes away must not kill a run half-way: writes then fail
	// with EPIPE, which the command line takes as the end of the output.
	// Caught, not ignored: an ignored signal would be ignored by children too.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(cli.Main(context.Background(), os.Args[1:], streams, open, app.Version()))
}

// helper does the work of the processes that the program starts from its own
// file under other names. They must do nothing else first.
func helper() bool {
	switch os.Args[0] {
	case "forkcell-init":
		driver.InitMain()
	case "forkcell-reader":
		fsx.ServeReader()
	case app.SupervisorName:
		os.Exit(app.SupervisorMain())
	default:
		if cell.IsCarrier(os.Args) {
			os.Exit(carry.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		}
		return false
	}
	return true
}

// open connects the command line to the engine on a home.
func open(home string, mode cli.Mode) (cli.Engine, func() error, error) {
	if home == "" {
		var err error
		if home, err = app.DefaultHome(); err != nil {
			return nil, nil, err
		}
	}
	modes := map[cli.Mode]app.Mode{
		cli.Read: app.Read, cli.Write: app.Write, cli.Create: app.Create, cli.Rescue: app.Rescue, cli.Run: app.Run,
	}
	return opened(app.Open(home, modes[mode]))
}

// opened keeps a nil engine from becoming an interface that is not nil.
func opened[E cli.Engine](e E, release func() error, err error) (cli.Engine, func() error, error) {
	if err != nil {
		return nil, nil, err
	}
	return e, release, nil
}
