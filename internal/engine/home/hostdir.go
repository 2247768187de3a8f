package home

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// OpenHost opens a directory of the host for the caller. What was opened is checked,
// not the name: between two looks at a name others can replace a part of it by a
// link.
func (h *Home) OpenHost(path string) (*fsx.Dir, error) {
	if err := h.Caller.MayNamePath(path); err != nil {
		return nil, err
	}
	d, err := fsx.OpenRoot(path)
	if err != nil || h.Caller.Within == nil {
		return d, err
	}
	opened, err := os.Readlink(DescriptorPath(d))
	if err == nil {
		err = h.Caller.MayUsePath(opened)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// OpenHostFile opens a regular file of the host for the caller. What was
// opened is checked, as in OpenHost.
func (h *Home) OpenHostFile(path string) (*os.File, error) {
	if err := h.Caller.MayNamePath(path); err != nil {
		return nil, err
	}
	// A pipe that has taken the place of the file must not hold the engine up.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) //nolint:forbidigo // it reads, and what was opened is checked
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = api.Usagef("", "%s is not a regular file", quote.Path(path))
	}
	var opened string
	if err == nil && h.Caller.Within != nil {
		opened, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err == nil {
			err = h.Caller.MayUsePath(opened)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// DescriptorPath returns a path that leads to an open directory, whatever its name
// is now. It is the same in the process that reads with more rights.
func DescriptorPath(d *fsx.Dir) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), d.Fd()) }

// SourceDir returns the directory of the host that a cell was made from; "" if it was
// made from something else. One that the caller may not use is an error.
func (h *Home) SourceDir(_ context.Context, name string) (string, error) {
	c, err := h.FindCell(name)
	if err != nil || c.SourceKind != "dir" {
		return "", err
	}
	return c.Source, h.Caller.MayNamePath(c.Source)
}

// WrittenDirs returns the directories of the host that commands in cells can have
// written: the home, which has the workspaces, and what cells were made from, which their
// work is applied to. Those of removed cells are among them.
func (h *Home) WrittenDirs() ([]string, error) {
	dirs := []string{h.Path}
	err := h.View(func(tx *store.Tx) error {
		cells, err := tx.Cells(true)
		for _, c := range cells {
			if c.SourceKind == "dir" && !slices.Contains(dirs, c.Source) {
				dirs = append(dirs, c.Source)
			}
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil // there is no home yet
	}
	return dirs, err
}

// SourceGone is the error about a source directory that cannot be opened.
func SourceGone(c store.Cell, err error, hint string) error {
	return api.Refusef(api.CodeNoSource, "move it back, or "+hint, "source %s: %v", quote.Path(c.Source), quote.Cause(err))
}
