package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// family is a command family of ForkCell 0.1: aliases of the verbs for cells of
// certain backends. A nil family stands for the verbs themselves.
type family struct {
	name     string
	backends []string // its init makes the first
}

func overlayFamily(s *frame) *cobra.Command {
	return (&family{name: "overlay", backends: []string{"overlay"}}).command(s)
}

// nativeFamily accepts clone cells too: run-layer is an ordinary run there.
func nativeFamily(s *frame) *cobra.Command {
	return (&family{name: "native", backends: []string{"overlay", "clone"}}).command(s)
}

func volumeFamily(s *frame) *cobra.Command {
	return (&family{name: "volume", backends: []string{"delta"}}).command(s)
}

func (f *family) command(s *frame) *cobra.Command {
	subs := []*cobra.Command{
		newInit(s, f.backends[0]), newRun(s, runVariant{family: f}), newStatus(s, f), newCheckpoint(s, f), newRestore(s, f),
		newFork(s, f), newAccept(s, f), newVerify(s, f), f.optionalCell(newGC(s, f)), f.optionalCell(newDoctor(s, f)),
		rename(newRemove(s, f), "delete"),
	}
	if f.name == "native" {
		subs = append(subs, newRun(s, runVariant{use: "run-layer", family: f}))
	}
	for _, c := range subs {
		name, _, _ := strings.Cut(c.Use, " ")
		target := map[string]string{"delete": "rm", "run-layer": "run"}[name]
		if target == "" {
			target = name
		}
		c.Long = "The same as `forkcell " + target + "` for a cell with the backend " + strings.Join(f.backends, " or ") + "."
		c.Example = ""
	}
	return group(f.name, "Aliases of ForkCell 0.1 for "+strings.Join(f.backends, " and ")+" cells", subs...)
}

// optionalCell lets an alias take the cell's name that the verb does not need.
func (f *family) optionalCell(cmd *cobra.Command) *cobra.Command {
	cmd.Use += " [CELL]"
	cmd.Args = positional("[CELL]")
	return cmd
}

func rename(cmd *cobra.Command, name string) *cobra.Command {
	_, rest, _ := strings.Cut(cmd.Use, " ")
	cmd.Use = name + " " + rest
	return cmd
}

// check refuses a cell whose backend is not one of the family's.
func (f *family) check(ctx context.Context, e statusReader, name string) error {
	if f == nil {
		return nil
	}
	return wantBackend(ctx, e, name, f.backends)
}

// matchBackend refuses a cell whose backend is not the family's, or not the one
// that run --backend names.
func matchBackend(ctx context.Context, e statusReader, f *family, flag, name string) error {
	if err := f.check(ctx, e, name); err != nil {
		return err
	}
	if want := seedNames()[flag]; want != "" {
		return wantBackend(ctx, e, name, []string{want})
	}
	return nil
}

func wantBackend(ctx context.Context, e statusReader, name string, want []string) error {
	st, err := e.Status(ctx, name)
	if err != nil {
		return err
	}
	if slices.Contains(want, st.Backend) {
		return nil
	}
	return &api.Error{
		Kind: api.Refused, Code: api.CodeBackend,
		Message: "cell " + quote.Line(name) + " has the backend " + quote.Line(st.Backend) + ", not " + strings.Join(want, " or "),
		Hint:    "use the verb without a backend: forkcell run, status, ...",
	}
}

// seedNames maps the values of run --backend to backends; "auto" accepts any.
func seedNames() map[string]string {
	return map[string]string{
		"auto": "", "native-overlay": "overlay", "local-overlay": "overlay", "layer-clone": "clone", "volume-delta": "delta",
		"overlay": "overlay", "clone": "clone", "delta": "delta",
	}
}

func seedBackend(cmd *cobra.Command, value string) (string, error) {
	backend, ok := seedNames()[value]
	if !ok {
		return "", usageError("one of: native-overlay, layer-clone, volume-delta, local-overlay, overlay, clone, delta",
			"%s: bad value %s for --backend", verb(cmd), quote.Arg(value))
	}
	return backend, nil
}
