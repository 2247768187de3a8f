package full

import (
	"crypto/rand"
	"errors"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/app"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/cli"
	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/remote"
)

// Remote opens the engine of a daemon for a caller of the command line.
func Remote(o api.DaemonOptions, _ string, caller cell.Caller) (cli.Engine, func() error, error) {
	return remote.Open(o, caller, stage)
}

// stage opens an engine on a home of its own, which the returned function removes.
func stage(caller cell.Caller) (remote.Stage, func() error, error) {
	name := "forkcell-upload-" + rand.Text()
	remove := func() error {
		temp, err := fsx.OpenRoot(os.TempDir())
		if err != nil {
			return err
		}
		return errors.Join(temp.RemoveAll(name), temp.Close())
	}
	e, release, err := app.Open(os.TempDir()+"/"+name, app.Create, caller)
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return e, func() error { return errors.Join(release(), remove()) }, nil
}
