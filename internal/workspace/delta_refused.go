package workspace

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/tree"
)

// Refused is one thing that no state can hold.
type Refused struct {
	// Path is beneath the root of what was read.
	Path string
	// Attr is the extended attribute that cannot be kept; "" if the thing itself,
	// a device node, cannot.
	Attr string
}

// RemoveRefused takes what SealLive refused out of the live directory, so that it
// is the state that was sealed and can be switched from. What is gone by now, or
// has become something else, is left alone.
func (s *Store) RemoveRefused(c Cell, refused []Refused) error {
	if len(refused) == 0 {
		return nil
	}
	live, err := fsx.OpenRoot(c.Live)
	if err != nil {
		return err
	}
	defer live.Close()
	for _, r := range refused {
		err = errors.Join(err, r.remove(live))
	}
	return err
}

func (r Refused) remove(live *fsx.Dir) error {
	info, err := live.Lstat(r.Path)
	if err == nil && r.Attr != "" {
		err = loosened(live, r.Path, func() error { return live.RemoveXattr(r.Path, r.Attr) })
	} else if err == nil && tree.KindOf(info) == 0 {
		err = removeDevice(live, r.Path)
	}
	return gone(err)
}

// gone takes no offence at a path that is not there any more.
func gone(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}

// removeDevice leaves the directory's time as the seal has seen it.
func removeDevice(live *fsx.Dir, name string) error {
	dir := path.Dir(name)
	was, err := live.Lstat(dir)
	if err != nil {
		return err
	}
	if err := loosened(live, dir, func() error { return live.Remove(name) }); err != nil {
		return err
	}
	return live.Chtimes(dir, was.MTime)
}

// loosened does something again with a mode that lets an ordinary owner do it,
// where the mode was in the way.
func loosened(live *fsx.Dir, name string, do func() error) error {
	err := do()
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	info, lookErr := live.Lstat(name)
	if lookErr != nil || info.IsSymlink() {
		return err
	}
	if modeErr := live.Chmod(name, info.Mode|0o700); modeErr != nil {
		return errors.Join(err, modeErr)
	}
	err = do()
	if modeErr := live.Chmod(name, info.Mode); modeErr != nil {
		return errors.Join(err, fmt.Errorf("give %s its mode back: %w", name, modeErr))
	}
	return err
}
