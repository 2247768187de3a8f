package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/quote"
)

// mayUse refuses a path of the host that is outside of what the caller may use. The
// path has no links.
func (c Caller) mayUse(path string) error {
	if c.Within == nil {
		return nil
	}
	inside := slices.ContainsFunc(c.Within, func(dir string) bool {
		real, err := realPath(dir)
		return err == nil && within(path, real)
	})
	if inside {
		return nil
	}
	return outside(path)
}

func outside(path string) error {
	return api.Refusef(api.CodeForbidden, "the operator allows directories with `forkcell serve --allow-source`",
		"the caller may not use %s", quote.Path(path))
}

// mayDecide refuses what amounts to a decision to a caller who may not decide.
func (c Caller) mayDecide(what string) error {
	if !c.CannotDecide {
		return nil
	}
	return api.Refusef(api.CodeForbidden, "use a token with the scopes run and decide", "%s needs the scope decide", what)
}

// mayName refuses a name that leads outside of what the caller may use, whether or
// not something is there.
func (c Caller) mayName(path string) error {
	if c.Within == nil {
		return nil
	}
	real, err := realPath(path)
	if err != nil {
		return outside(path) // where it leads is not known
	}
	return c.mayUse(real)
}

// openHost opens a directory of the host for the caller. What was opened is checked,
// not the name: between two looks at a name others can replace a part of it by a
// link.
func (e *Engine) openHost(path string) (*fsx.Dir, error) {
	if err := e.caller.mayName(path); err != nil {
		return nil, err
	}
	d, err := fsx.OpenRoot(path)
	if err != nil || e.caller.Within == nil {
		return d, err
	}
	opened, err := os.Readlink(descriptorPath(d))
	if err == nil {
		err = e.caller.mayUse(opened)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// openHostFile opens a regular file of the host for the caller. As with openHost, what
// was opened is checked.
func (e *Engine) openHostFile(path string) (*os.File, error) {
	if err := e.caller.mayName(path); err != nil {
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
	if err == nil && e.caller.Within != nil {
		opened, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err == nil {
			err = e.caller.mayUse(opened)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// descriptorPath returns a path that leads to an open directory, whatever its name
// is now. It is the same in the process that reads with more rights.
func descriptorPath(d *fsx.Dir) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), d.Fd()) }

// SourceDir returns the directory of the host that a cell was made from; "" if it was
// made from something else. One that the caller may not use is an error.
func (e *Engine) SourceDir(_ context.Context, name string) (string, error) {
	c, err := e.findCell(name)
	if err != nil || c.SourceKind != "dir" {
		return "", err
	}
	return c.Source, e.caller.mayName(c.Source)
}
