package engine

import (
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// The preset dev pins registries at special addresses, because the operator's tools use
// them. The pins are no part of the policy: they hold for a run that is given the preset,
// and are kept beside the policy of a cell for the operator's own runs there.

// keptPins returns the pins that a cell keeps with a policy: those that the operator's
// command line sends with it. A policy of another caller has none.
func (e *Engine) keptPins(f api.PolicyFile) []string {
	if !e.Caller.CommandLine || e.Caller.Ceiling != nil {
		return nil
	}
	return quote.AllUTF8(f.Resolve)
}

// addPins adds the pins of the cell's policy to the options of a run that is under it, if
// the operator starts the run.
func (e *Engine) addPins(c store.Cell, o api.RunOptions) api.RunOptions {
	if e.Caller.CommandLine && e.Caller.Ceiling == nil && o.Policy == nil && !o.Offline {
		o.Network.Resolve = WithPins(o.Network.Resolve, c.Pins)
	}
	return o
}

// WithPins adds pins of a preset for hosts that the operator does not pin.
func WithPins(given, pins []string) []string {
	out := slices.Clone(given)
	for _, pin := range pins {
		from, _, _ := strings.Cut(pin, "=")
		host, _, _ := strings.Cut(from, ":")
		if !slices.ContainsFunc(given, func(f string) bool { return strings.HasPrefix(f, from+"=") || strings.HasPrefix(f, host+"=") }) {
			out = append(out, pin)
		}
	}
	return out
}
