package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Runtimes returns the names of the runtimes, the usual one first.
func Runtimes() []string { return []string{api.RuntimeNative, "gvisor", "microvm"} }

// availability is implemented by drivers that need a program that may be missing.
type availability interface {
	// Available returns why the driver cannot work here, if it cannot.
	Available() error
}

// runtime returns the driver of a runtime; "" is native. There is no fallback to
// another one.
func (e *Engine) runtime(name string) (driver.Driver, error) {
	if cmp.Or(name, api.RuntimeNative) == api.RuntimeNative {
		return e.driver, nil
	}
	if !slices.Contains(Runtimes(), name) {
		return nil, api.Usagef("one of: "+strings.Join(Runtimes(), ", "), "bad value %s for --runtime", quote.Arg(name))
	}
	d, ok := e.runtimes[name]
	if !ok {
		return nil, api.Refusef(api.CodeRuntime, "leave --runtime out: native works here", "the runtime %s does not work here: "+noDriver, name)
	}
	if a, ok := d.(availability); ok {
		if err := a.Available(); err != nil {
			return nil, unavailableError(name, err)
		}
	}
	return d, nil
}

// driverOf returns the driver that made the cells of a runtime: only it can read their
// records. It need not be able to make more of them here.
func (e *Engine) driverOf(runtime string) driver.Driver {
	if d, ok := e.runtimes[runtime]; ok {
		return d
	}
	return e.driver
}

// unavailableError returns the error of a runtime that does not work here.
func unavailableError(name string, err error) error {
	hint := "leave --runtime out: native works here"
	if no, ok := errors.AsType[*driver.UnenforceableError](err); ok && no.Remedy != "" {
		err, hint = errors.New(no.Reason), no.Remedy
	}
	return &api.Error{Kind: api.Refused, Code: api.CodeRuntime, Message: "the runtime " + name + " does not work here: " + err.Error(), Hint: hint, Err: err}
}

// Doctor reports what each runtime can do here: the controls of the native one, and a line
// for each runtime.
func (e *Engine) Doctor(ctx context.Context) []driver.Check {
	checks := e.driver.Doctor(ctx)
	if i := slices.IndexFunc(checks, func(c driver.Check) bool { return c.Name == "namespaces" }); i >= 0 {
		native := checks[i] // by which a whole cell was built
		native.Name = api.RuntimeNative
		checks = append(checks, native)
	}
	for _, name := range Runtimes()[1:] {
		if d, ok := e.runtimes[name]; ok {
			checks = append(checks, d.Doctor(ctx)...)
		} else {
			checks = append(checks, driver.Check{Name: name, Status: "missing", Reason: noDriver})
		}
	}
	return checks
}

const noDriver = "this version has no driver for it"
