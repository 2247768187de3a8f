package cell

import (
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
)

// runtimeNative is the runtime whose driver every engine has.
const runtimeNative = "native"

// Runtimes returns the names of the runtimes, the usual one first.
func Runtimes() []string { return []string{runtimeNative, "gvisor", "microvm"} }

// checkRuntime refuses a runtime that has no driver in this engine. There is no
// fallback to another. "" is that of the cell.
func checkRuntime(name string) error {
	switch name {
	case "", runtimeNative:
		return nil
	case "gvisor", "microvm":
		return api.Refusef(api.CodeRuntime, "leave --runtime out: native works here", "the runtime %s does not work here: this version has no driver for it", name)
	}
	return api.Usagef("one of: "+strings.Join(Runtimes(), ", "), "bad value %s for --runtime", quote.Arg(name))
}
