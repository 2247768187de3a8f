package cli

import (
	"context"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

type acceptOptions struct {
	decideOptions
	force  bool
	only   []string
	except []string
	apply  bool
	// runs are those that were shown, leaveOut earlier ones that are not accepted.
	runs, leaveOut []string
}

func newAccept(s *frame) *cobra.Command {
	var o acceptOptions
	cmd := &cobra.Command{
		Use:   "accept [CELL]",
		Short: "Accept the result of a run",
		Long: `Accept the result of a run.

Without --run, all undecided work is accepted: what diff shows. In a fork this can be
work that the fork inherited; the decision of the other cell stays as it was. With
--run, a run that builds on earlier undecided work is refused, unless --leave-out names
that work: then what it changed is left out, path by path. A path that the run changed
as well is taken whole, and so is a git repository. Work that is left out counts as
restored; restore brings it back. A failed run is refused without --force. With --only
or --except a part is accepted, and the result is a new checkpoint. A renamed file keeps
its old path if its new path is left out. A fork or restore can put a cell on a state
that was captured from a live cell. Such a state is accepted in the same way.

What the work changed outside the workspace, in the home of the cell for instance, is
accepted with the whole of it, and counted. A part of the work is a part of its
workspace: what the work changed elsewhere is left out then, and counted as well. diff
--all lists it. The state with all of the work is named, and kept for at least 7 days, in
which restore brings it back.`,
		Example: `  forkcell accept demo --apply
  forkcell accept demo --only 'src/' --except '*.lock' --reason reviewed
  forkcell accept demo --run run_01K --leave-out run_01J`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			return runAccept(ctx, s, e, args[0], o)
		}),
	}
	o.addFlags(cmd, "the `RUN` to accept (default: all undecided work that the cell contains)")
	f := cmd.Flags()
	f.StringArrayVar(&o.leaveOut, "leave-out", nil, "do not accept the earlier undecided `RUN`, by its whole id (repeatable)")
	f.BoolVar(&o.force, "force", false, "accept a failed run")
	addSelection(cmd, &o.only, &o.except, "accept")
	f.BoolVar(&o.apply, "apply", false, "also write the accepted changes to the source directory")
	return s.ofDirectory(cmd)
}

func addSelection(cmd *cobra.Command, only, except *[]string, verb string) {
	cmd.Flags().StringArrayVar(only, "only", nil, verb+" only what matches this gitignore-style `PATTERN` (repeatable)")
	cmd.Flags().StringArrayVar(except, "except", nil, verb+" all but what matches this gitignore-style `PATTERN` (repeatable)")
}

func runAccept(ctx context.Context, s *frame, e publisher, name string, o acceptOptions) error {
	res, err := e.Accept(ctx, api.AcceptRequest{
		Cell: name, Run: o.run, Runs: o.runs, LeaveOut: o.leaveOut, Reason: o.reason, Force: o.force, Only: o.only, Except: o.except,
		Apply: o.apply, Applier: api.ApplyRequest{OnConflict: "fail"},
	})
	if res == nil {
		return err
	}
	// A refused apply does not change the decision: print both.
	return joinErrors(err, s.emit(res, func(p *page) { printAccept(p, res) }))
}

func printAccept(p *page, r *api.AcceptResult) {
	for _, id := range r.Skipped {
		p.printf("skipped: run %s failed and changed nothing\n", id)
	}
	what := "run " + r.RunID
	if r.RunID == "" {
		what = "checkpoint " + r.CheckpointID
	}
	p.printf("cell %s: %s %s\n", quote.Line(r.Cell), what, p.word(quote.Line(r.Decision)))
	if r.Before != "" {
		p.printf("it had been %s, and its work was brought back since\n", quote.Line(r.Before))
	}
	p.pairs(
		"decision", r.DecisionID,
		"checkpoint", r.CheckpointID,
		"root", r.Root,
		"left", keptState(r.Left),
		"also decided", quote.Line(strings.Join(r.Also, ", ")),
	)
	printElsewhere(p, "also accepted", r.Elsewhere)
	printElsewhere(p, "left out", r.ElsewhereLeft)
	for _, w := range r.Whole {
		p.printf("taken whole: %s, %s\n", quote.Path(w.Path), quote.Line(w.Note))
	}
	if r.Applied != nil {
		printApply(p, r.Applied, false)
	}
}

// printElsewhere prints what became of changes outside the workspace.
func printElsewhere(p *page, what string, list []api.AreaChange) {
	if len(list) > 0 {
		p.printf("%s: %s\n", what, quote.Line(api.ElsewhereText(list)))
	}
}
