package cli

import (
	"context"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

type decideOptions struct {
	run    string
	reason string
}

func (o *decideOptions) addFlags(cmd *cobra.Command, runUsage string) {
	cmd.Flags().StringVar(&o.run, "run", "", runUsage)
	cmd.Flags().StringVar(&o.reason, "reason", "", "`TEXT` to record with the decision")
}

func newRestore(s *frame) *cobra.Command {
	var o decideOptions
	var force bool
	var checkpoint string
	cmd := &cobra.Command{
		Use:   "restore [CELL] [CHECKPOINT]",
		Short: "Move a cell back to an earlier state",
		Long: `Move a cell back to an earlier state: the given checkpoint, the state before the run
given with --run, or by default the state before the last run.

The state that the cell leaves can be restored too. It is kept for at least 7 days,
then until gc. A live cell is refused without --force; with --force it is stopped
first.`,
		Example: `  forkcell restore demo
  forkcell restore demo before-upgrade --reason 'upgrade broke the build'`,
		Args:              positional("[CELL]", "[CHECKPOINT]"),
		ValidArgsFunction: s.completeStates,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			name, to, err := stateArgs(cmd, args, checkpoint)
			if err != nil {
				return err
			}
			if to != "" && o.run != "" {
				return usageError("give one of them", "%s: CHECKPOINT and --run exclude each other", verb(cmd))
			}
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error {
				req := api.RestoreRequest{Cell: name, Checkpoint: to, Run: o.run, Reason: o.reason, Force: force}
				return runRestore(ctx, s, e, req)
			})
		},
	}
	o.addFlags(cmd, "go to the state before this `RUN`")
	cmd.Flags().BoolVar(&force, "force", false, "stop a live cell first")
	addCheckpoint(cmd, &checkpoint, "go to the state `CHECKPOINT`")
	return s.ofDirectory(cmd)
}

func newReject(s *frame) *cobra.Command {
	var o decideOptions
	cmd := &cobra.Command{
		Use:               "reject [CELL]",
		Short:             "Reject a run's result, and restore the state before it",
		Example:           "  forkcell reject demo --reason 'deleted the tests'",
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			return runReject(ctx, s, e, args[0], o)
		}),
	}
	o.addFlags(cmd, "the `RUN` to reject (default: the newest undecided one that the cell contains)")
	return s.ofDirectory(cmd)
}

func runRestore(ctx context.Context, s *frame, e mover, req api.RestoreRequest) error {
	res, err := e.Restore(ctx, req)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) { printMove(p, res) })
}

func runReject(ctx context.Context, s *frame, e mover, name string, o decideOptions) error {
	res, err := e.Reject(ctx, name, o.run, o.reason)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) { printMove(p, res) })
}

func printMove(p *page, r *api.MoveResult) {
	p.printf("cell %s: now at %s\n", quote.Line(r.Cell), r.CheckpointID)
	left := ""
	if r.Left != "" && r.Left != r.CheckpointID {
		left = keptState(r.Left)
	}
	p.pairs(
		"root", r.Root,
		"left", left,
		"run", r.RunID,
		"decision", decisionText(p, r.Decision, r.DecisionID),
		"also decided", quote.Line(strings.Join(r.Also, ", ")),
	)
	printElsewhere(p, "outside the workspace", r.Elsewhere)
	printNotes(p, r.Notes)
}

// keptState says how long a state is kept that the cell has left.
func keptState(id string) string {
	if id == "" {
		return ""
	}
	return id + " (kept for at least 7 days, then until gc)"
}

func decisionText(p *page, word, id string) string {
	if word == "" {
		return ""
	}
	return p.word(quote.Line(word)) + note(id)
}
