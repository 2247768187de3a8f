package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
)

func newPause(s *session) *cobra.Command {
	return s.ofDirectory(&cobra.Command{
		Use:   "pause [CELL]",
		Short: "Stop the processes of a live cell until it is resumed",
		Long: `Stop the processes of a live cell until it is resumed. They keep their memory, use no
processor time, and notice nothing but the clock. A paused cell can be checkpointed,
forked and stopped; exec, shell, cp and port-forward are refused. Time limits of the
cell and of its commands go on. Pausing a paused cell changes nothing.`,
		Example:           "  forkcell pause demo",
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			res, err := e.Pause(ctx, args[0])
			return s.emitPause(res, err)
		}),
	})
}

func newResume(s *session) *cobra.Command {
	return s.ofDirectory(&cobra.Command{
		Use:   "resume [CELL]",
		Short: "Continue the processes of a paused cell",
		Long: `Continue the processes of a paused cell. Resuming a live cell that is not paused
changes nothing.`,
		Example:           "  forkcell resume demo",
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			res, err := e.Resume(ctx, args[0])
			return s.emitPause(res, err)
		}),
	})
}

func (s *session) emitPause(res *api.PauseResult, err error) error {
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		still := ""
		if !res.Changed {
			still = " already"
		}
		p.printf("cell %s is %s%s\n", quote.Line(res.Cell), quote.Line(res.State), still)
	})
}
