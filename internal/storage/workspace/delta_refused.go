package workspace

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// RefusedEntry is something that no state can hold.
type RefusedEntry struct {
	// Path is relative to the directory that was read.
	Path string
	// Attr is the extended attribute that cannot be kept; "" for a device node.
	Attr string
}

// RemoveRefused removes what SealLive refused from the live directory, so that the
// directory has the sealed state and can be switched from it. It ignores what is
// gone or has become something else.
func (s *Store) RemoveRefused(c Cell, refused []RefusedEntry) error {
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

func (r RefusedEntry) remove(live *fsx.Dir) error {
	info, err := live.Lstat(r.Path)
	if err == nil && r.Attr != "" {
		err = withOwnerAccess(live, r.Path, func() error { return live.RemoveXattr(r.Path, r.Attr) })
	} else if err == nil && tree.KindOf(info) == 0 {
		err = removeDevice(live, r.Path)
	}
	return ignoreMissing(err)
}

// ignoreMissing returns nil for an error about a path that does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}

// removeDevice removes a device node and restores the directory's time, which the
// seal recorded.
func removeDevice(live *fsx.Dir, name string) error {
	dir := path.Dir(name)
	was, err := live.Lstat(dir)
	if err != nil {
		return err
	}
	if err := withOwnerAccess(live, dir, func() error { return live.Remove(name) }); err != nil {
		return err
	}
	return live.Chtimes(dir, was.MTime)
}

// withOwnerAccess calls do, and once more with a mode that allows the owner
// everything if the mode was in the way.
func withOwnerAccess(live *fsx.Dir, name string, do func() error) error {
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
		return errors.Join(err, fmt.Errorf("restore the mode of %s: %w", name, modeErr))
	}
	return err
}
