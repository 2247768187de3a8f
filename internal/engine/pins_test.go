package engine

import (
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// TestPins: pins of registries are kept with a cell's policy by the operator's command
// line, and hold for what the operator runs under that policy.
func TestPins(t *testing.T) {
	t.Parallel()
	const pin = "registry.example:443=10.0.0.5"
	ceiling := &api.PolicyFile{Text: []byte("version: 1\n")}
	for name, c := range map[string]struct {
		caller caller.Caller
		kept   bool
	}{
		"the command line":     {caller.Caller{CommandLine: true}, true},
		"with a ceiling":       {caller.Caller{CommandLine: true, Ceiling: ceiling}, false},
		"a caller of a daemon": {caller.Caller{}, false},
		"a token":              {caller.Caller{Ceiling: ceiling, Prefix: "ci-"}, false},
	} {
		e := &Engine{Home: &home.Home{Caller: c.caller}}
		if got := e.keptPins(api.PolicyFile{Resolve: api.Texts{pin}}); slices.Contains(got, pin) != c.kept {
			t.Errorf("%s keeps %q", name, got)
		}
		with := store.Cell{Pins: []string{pin}}
		for what, o := range map[string]struct {
			options api.RunOptions
			want    []string
		}{
			"under the cell's policy":   {api.RunOptions{}, []string{pin}},
			"under another policy":      {api.RunOptions{Policy: &api.PolicyFile{}}, nil},
			"without a network":         {api.RunOptions{Offline: true}, nil},
			"with a pin of the command": {api.RunOptions{Network: api.NetworkRequest{Resolve: []string{"registry.example=192.0.2.1"}}}, []string{"registry.example=192.0.2.1"}},
		} {
			want := o.want
			if !c.kept {
				want = o.options.Network.Resolve
			}
			if got := e.addPins(with, o.options).Network.Resolve; !slices.Equal(got, want) {
				t.Errorf("%s, %s: %q, want %q", name, what, got, want)
			}
		}
	}
}
