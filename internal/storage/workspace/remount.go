package workspace

import (
	"errors"
	"fmt"
	"os"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// Remount prepares a generation to be mounted again: the kernel refuses the
// scratch directory of an overlay that was mounted before. It must not be mounted
// now.
func (w *Work) Remount() error {
	dir, err := w.p.dir.OpenDir("work")
	if errors.Is(err, os.ErrNotExist) {
		return nil // not an overlay
	}
	if err != nil {
		return fmt.Errorf("mount again: %w", err)
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return fmt.Errorf("mount again: %w", err)
	}
	for _, name := range names {
		if err := emptyDir(dir, name); err != nil {
			return fmt.Errorf("mount again: %w", err)
		}
	}
	return nil
}

// emptyDir removes everything in a directory.
func emptyDir(d *fsx.Dir, name string) error {
	sub, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	names, err := sub.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := sub.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}
