package full

import (
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/cli"
	"github.com/forkcell/forkcell/internal/remote"
)

// Remote opens the engine of a daemon for a caller of the command line.
func Remote(o api.DaemonOptions, _ string, caller cell.Caller) (cli.Engine, func() error, error) {
	return remote.Open(o, caller)
}
