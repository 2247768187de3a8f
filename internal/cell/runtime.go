package cell

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/quote"
)

// Runtimes returns the names of the runtimes, the usual one first.
func Runtimes() []string { return []string{api.RuntimeNative, "gvisor", "microvm"} }

// available is implemented by drivers that need a program that may be missing.
type available interface {
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
		return nil, api.Refusef(api.CodeRuntime, "leave --runtime out: native works here", "the runtime %s does not work here: this version has no driver for it", name)
	}
	if a, ok := d.(available); ok {
		if err := a.Available(); err != nil {
			return nil, unavailable(name, err)
		}
	}
	return d, nil
}

// unavailable returns the error of a runtime that does not work here.
func unavailable(name string, err error) error {
	hint := "leave --runtime out: native works here"
	if no, ok := errors.AsType[*driver.UnenforceableError](err); ok && no.Remedy != "" {
		err, hint = errors.New(no.Reason), no.Remedy
	}
	return &api.Error{Kind: api.Refused, Code: api.CodeRuntime, Message: "the runtime " + name + " does not work here: " + err.Error(), Hint: hint, Err: err}
}

// Doctor reports what each runtime can do here.
func (e *Engine) Doctor(ctx context.Context) []driver.Check {
	checks := e.driver.Doctor(ctx)
	for _, name := range slices.Sorted(maps.Keys(e.runtimes)) {
		checks = append(checks, e.runtimes[name].Doctor(ctx)...)
	}
	return checks
}
