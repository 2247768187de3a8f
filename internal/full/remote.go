package full

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/app"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/cli"
	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/remote"
)

// Remote opens the engine of a daemon for a caller of the command line. home is the
// caller's own state directory; "" is the default one.
func Remote(o api.DaemonOptions, home string, caller cell.Caller) (cli.Engine, func() error, error) {
	if home == "" {
		var err error
		if home, err = app.DefaultHome(); err != nil {
			return nil, nil, err
		}
	}
	home, err := filepath.Abs(home)
	if err != nil {
		return nil, nil, err
	}
	return remote.Open(o, caller, remote.Homes{
		Path: home,
		Mirrors: func(create bool) (remote.Home, func() error, error) {
			mode := app.Write
			if create {
				mode = app.Create
			}
			return app.Open(app.MirrorHome(home, o.URL), mode, caller)
		},
		Temporary: func() (remote.Home, func() error, error) { return temporary(caller) },
	})
}

// temporary opens an engine on a home that the returned function removes.
func temporary(caller cell.Caller) (remote.Home, func() error, error) {
	name := "forkcell-" + rand.Text()
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
