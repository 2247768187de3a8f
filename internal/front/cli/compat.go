package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// families returns the command families of ForkCell 0.1 and the backends of the cells
// that each is for. Its init makes a cell with the first.
func families() map[string][]string {
	return map[string][]string{"overlay": {"overlay"}, "native": {"overlay", "clone"}, "volume": {"delta"}}
}

// verbsOf returns the verbs of a family. Two have other names here: delete is rm, and
// run-layer is run.
func verbsOf(family string) []string {
	verbs := []string{"accept", "checkpoint", "delete", "doctor", "fork", "gc", "init", "restore", "run", "status", "verify"}
	if family == "native" {
		verbs = append(verbs, "run-layer")
	}
	return verbs
}

// oldBackends returns the backends that the values of run --backend stand for; none
// accepts any.
func oldBackends() map[string][]string {
	return map[string][]string{
		"auto": nil, "native-overlay": {"overlay"}, "local-overlay": {"overlay"}, "layer-clone": {"clone"}, "volume-delta": {"delta"},
		"overlay": {"overlay"}, "clone": {"clone"}, "delta": {"delta"},
	}
}

// rewriteOld rewrites a command line of ForkCell 0.1 to one of this program. If there
// are backends, its cells must have one of them. Other lines stay as they are.
func rewriteOld(args []string) (line, backends []string, err error) {
	line = slices.Clone(args)
	at := commandAt(line)
	if at < 0 {
		return line, nil, nil
	}
	family := line[at]
	if backends = families()[family]; backends != nil {
		verbs := verbsOf(family)
		line = slices.Delete(line, at, at+1)
		if at = commandAt(line); at < 0 {
			return args, nil, usageError("one of: "+strings.Join(verbs, ", "), "%s: missing subcommand", family)
		}
		if !slices.Contains(verbs, line[at]) {
			return args, nil, usageError("one of: "+strings.Join(verbs, ", "), "%s: unknown subcommand %s", family, quote.Arg(line[at]))
		}
		switch line[at] {
		case "init":
			return slices.Insert(line, at+1, "--backend", backends[0]), nil, nil
		case "delete":
			line[at] = "rm"
		case "run-layer":
			line[at] = "run"
		}
	}
	if dashes := slices.Index(line, "--"); line[at] == "run" && dashes > at {
		flags, want, err := withoutOldFlags(line[at+1 : dashes])
		if err != nil {
			return args, nil, err
		}
		if want != nil {
			backends = want
		}
		line = slices.Concat(line[:at+1], flags, line[dashes:])
	}
	return line, backends, nil
}

// withoutOldFlags takes the flags of ForkCell 0.1 from those of a run. Of these only
// --backend still means something.
func withoutOldFlags(args []string) (rest, backends []string, err error) {
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		switch name {
		case "--exit-with-command", "--sync-logs":
			continue
		case "--logs-since", "--backend":
		default:
			rest = append(rest, args[i])
			continue
		}
		if !joined && i+1 < len(args) {
			i++
			value = args[i]
		}
		if name == "--backend" {
			var known bool
			if backends, known = oldBackends()[value]; !known {
				return nil, nil, usageError("one of: native-overlay, layer-clone, volume-delta, local-overlay, overlay, clone, delta",
					"run: bad value %s for --backend", quote.Arg(value))
			}
		}
	}
	return rest, backends, nil
}

// requireBackends lets the command of a line that was rewritten refuse cells with other
// backends. Its gc and its doctor take the name of a cell, too.
func (s *frame) requireBackends(root *cobra.Command, backends []string) {
	cmd := root.Commands()[0] // a line that names its command has no other
	run := cmd.RunE
	ofCells := cmd.Name() != "gc" && cmd.Name() != "doctor"
	if !ofCells {
		cmd.Args = positional("[CELL]")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.started, s.isRun = true, cmd.Annotations[annotationRun] != ""
		cells := args
		if at := cmd.ArgsLenAtDash(); s.isRun && at >= 0 {
			cells = args[:at]
		}
		if cmd.Name() != "rm" && len(cells) > 1 {
			cells = cells[:1] // a checkpoint follows
		}
		if len(cells) == 0 && ofCells {
			name, err := s.cellHere(cmd)
			if err != nil {
				return err
			}
			cells = []string{name}
		}
		if len(cells) > 0 {
			if err := s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return wantBackend(ctx, e, cells, backends) }); err != nil {
				return err
			}
		}
		return run(cmd, args)
	}
}

func wantBackend(ctx context.Context, e statusReader, cells, want []string) error {
	for _, cell := range cells {
		name, _, _ := strings.Cut(cell, "~")
		st, err := e.Status(ctx, name)
		if err != nil {
			return err
		}
		if !slices.Contains(want, st.Backend) {
			return &api.Error{
				Kind: api.Refused, Code: api.CodeBackend,
				Message: "cell " + quote.Line(name) + " has the backend " + quote.Line(st.Backend) + ", not " + strings.Join(want, " or "),
				Hint:    "use the verb without a backend: forkcell run, status, ...",
			}
		}
	}
	return nil
}
