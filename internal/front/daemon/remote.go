package daemon

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/cli"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/remote"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// Remote opens the engine of a daemon for a caller of the command line. home is the
// caller's own state directory; "" is the default one.
func Remote(o api.DaemonOptions, home string, caller caller.Caller) (cli.Engine, func() error, error) {
	if home == "" {
		var err error
		if home, err = local.DefaultHome(); err != nil {
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
			mode := local.Write
			if create {
				mode = local.Create
			}
			return local.Open(local.MirrorHome(home, o.URL), mode, caller)
		},
		Lock:      func(alone bool) (func(), bool, error) { return lockMirrors(local.MirrorHome(home, o.URL), alone) },
		Temporary: func() (remote.Home, func() error, error) { return temporary(caller) },
	})
}

// lockMirrors locks the home of mirrors, by a lock of its directory.
func lockMirrors(at string, alone bool) (unlock func(), ok bool, err error) {
	dir, err := fsx.OpenRoot(at)
	if err != nil {
		return nil, false, err
	}
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX | unix.LOCK_NB
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(dir.Fd(), how)
	}
	if err != nil {
		dir.Close()
		if alone && errors.Is(err, unix.EWOULDBLOCK) {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("lock %s: %w", at, err)
	}
	return func() {
		// A child that is about to be executed may still have the descriptor.
		_ = unix.Flock(dir.Fd(), unix.LOCK_UN)
		dir.Close()
	}, true, nil
}

// temporary opens an engine on a home that the returned function removes.
func temporary(caller caller.Caller) (remote.Home, func() error, error) {
	name := "forkcell-" + rand.Text()
	remove := func() error {
		temp, err := fsx.OpenRoot(os.TempDir())
		if err != nil {
			return err
		}
		return errors.Join(temp.RemoveAll(name), temp.Close())
	}
	e, release, err := local.Open(os.TempDir()+"/"+name, local.Create, caller)
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return e, func() error { return errors.Join(release(), remove()) }, nil
}
