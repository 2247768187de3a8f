package cli

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newVerify(s *frame) *cobra.Command {
	var all bool
	var checkpoint string
	cmd := &cobra.Command{
		Use:   "verify [CELL] [CHECKPOINT]",
		Short: "Compute every hash of a state again from the bytes on disk",
		Long: `Compute every hash of a state again from the bytes on disk, and compare. Each
difference is named; exit 4 if there is any.`,
		Example:           "  forkcell verify demo --all",
		Args:              positional("[CELL]", "[CHECKPOINT]"),
		ValidArgsFunction: s.completeStates,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			name, state, err := stateArgs(cmd, args, checkpoint)
			if err != nil {
				return err
			}
			if all && state != "" {
				return usageError("give one of them", "%s: CHECKPOINT and --all exclude each other", verb(cmd))
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runVerify(ctx, s, e, name, state, all) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every checkpoint of the cell")
	addCheckpoint(cmd, &checkpoint, "check the state `CHECKPOINT` instead of the head")
	return s.ofDirectory(cmd)
}

func runVerify(ctx context.Context, s *frame, e keeper, name, checkpoint string, all bool) error {
	done := s.showProgress()
	res, err := e.Verify(ctx, name, checkpoint, all)
	done()
	if res == nil {
		return err
	}
	if !s.json {
		err = withoutDetails(err)
	}
	return joinErrors(err, s.emit(res, func(p *page) { printVerify(p, res) }))
}

func printVerify(p *page, r *api.VerifyResult) {
	for _, c := range r.Checkpoints {
		word := "ok"
		if !c.OK {
			word = "mismatch"
		}
		p.printf("%s  %s  root %s\n", p.word(word), c.CheckpointID, c.Root)
	}
	for _, d := range r.Differences {
		where := ""
		if d.Path != "" { // else it is not about one of the files
			where = quote.Path(d.Path) + ": "
		}
		p.printf("  %s  %s%s\n", d.CheckpointID, where, quote.Line(d.What))
	}
}
