package gvisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native"
)

// runtimeName is the file name of the runtime.
const runtimeName = "forkcell-gvisor"

// Options configure a Driver. The zero value is right for use.
type Options struct {
	// Runtime is the path of forkcell-gvisor; empty means the one beside this
	// program, else the one that Find finds.
	Runtime string
	// Find finds a program of the host along the search path. nil finds none.
	Find func(name string) (string, error)
	// Native configures what holds the runtime. Its Runtime is set.
	Native native.Options
}

var _ driver.Driver = (*Driver)(nil)

// Driver runs commands in gVisor guests. It is safe for concurrent use.
type Driver struct {
	opt     Options
	native  *native.Driver
	digests digests
}

// New returns a driver. It does nothing to the system yet.
func New(opt Options) *Driver {
	opt.Native.Runtime = true
	return &Driver{opt: opt, native: native.New(opt.Native)}
}

// User implements driver.Driver.
func (d *Driver) User() int { return d.native.User() }

// HeldSpace implements driver.Driver: the guest's files are open in the runtime.
func (d *Driver) HeldSpace(r driver.Record, since time.Time) (int64, error) {
	return d.native.HeldSpace(r, since)
}

// Reap implements driver.Driver. The record is that of the native cell around the
// guest, and nothing of a guest is outside of it.
func (d *Driver) Reap(id string, r driver.Record, limit time.Duration) error {
	return d.native.Reap(id, r, limit)
}

// ProbeOverlay implements driver.Driver.
func (d *Driver) ProbeOverlay(ctx context.Context, dir string) error {
	return d.native.ProbeOverlay(ctx, dir)
}

// runtime returns the path of forkcell-gvisor.
func (d *Driver) runtime() (string, error) {
	if d.opt.Runtime != "" {
		return d.opt.Runtime, nil
	}
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), runtimeName)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := "", os.ErrNotExist
	if d.opt.Find != nil {
		path, err = d.opt.Find(runtimeName)
	}
	if err != nil {
		return "", &driver.UnenforceableError{
			Control: "the gvisor runtime",
			Reason:  runtimeName + " is neither beside forkcell nor in PATH",
			Remedy:  "build it with make gvisor and put it beside forkcell",
		}
	}
	return path, nil
}

// Available returns an error if there is no runtime.
func (d *Driver) Available() error {
	_, err := d.runtime()
	return err
}

// Resolve implements driver.Driver.
func (d *Driver) Resolve(s driver.Spec) (driver.Controls, error) {
	p, err := d.plan(s)
	if err != nil {
		return driver.Controls{}, err
	}
	if err := s.Command.Check(); err != nil {
		return driver.Controls{}, err
	}
	c, err := d.native.Resolve(p.outer)
	return p.controls(c), err
}

// Run implements driver.Driver.
func (d *Driver) Run(ctx context.Context, s driver.Spec, stdio driver.Stdio) (out driver.Outcome, err error) {
	begin := time.Now()
	if err := s.Command.Check(); err != nil {
		return driver.Outcome{}, err
	}
	c, err := d.start(ctx, s)
	if err != nil {
		return driver.Outcome{}, err
	}
	defer func() {
		// The command's outcome stands, whatever is left of its control group.
		if left := c.Close(); left != nil {
			out.Controls.Degraded = append(out.Controls.Degraded, left.Error())
		}
	}()
	e, err := c.order(s.Command, stdio, true)
	if err != nil {
		return driver.Outcome{}, err
	}
	if err := e.awaitStarted(ctx); err != nil {
		return driver.Outcome{}, err
	}
	out = driver.Outcome{Controls: c.controls, StartTook: time.Since(begin)}
	e.serve(ctx, &out)
	// The host may have known of the start late, when the command had run for a while.
	out.StartTook = min(out.StartTook, time.Since(begin)-out.CommandTook)
	out.Usage, out.Refused = c.Usage(), c.countRefused()
	return out, nil
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, s driver.Spec) (driver.Cell, error) {
	c, err := d.start(ctx, s)
	if err != nil {
		return nil, err // a nil *Cell would not be a nil driver.Cell
	}
	return c, nil
}

func (d *Driver) start(ctx context.Context, s driver.Spec) (*Cell, error) {
	p, err := d.plan(s)
	if err != nil {
		return nil, err
	}
	outer, err := d.native.Start(ctx, p.outer)
	if err != nil {
		return nil, err
	}
	c := newCell(outer, p)
	if err := c.boot(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
