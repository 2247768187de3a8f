package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newExpire(s *frame) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "expire",
		Short: "Stop, pause or remove the cells whose time is up",
		Long: `Stop, pause or remove the cells whose time is up, once. A daemon does this by itself,
within a second. Without a daemon, time limits have no effect until this command runs,
for instance from a timer.

A cell with a run under way expires when the run has ended. A cell with work that is
undecided or not applied is not removed: it waits, and is named. Each expiry is a signed
statement. Receipts stay. A removed cell is kept for 7 days, in which rm --undo brings it
back; then gc frees its space.`,
		Example: `  forkcell expire --dry-run
  forkcell expire`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			mode := Write
			if dryRun {
				mode = Read
			}
			return s.engine(cmd.Context(), mode, func(ctx context.Context, e Engine) error { return runExpire(ctx, s, e, dryRun) })
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be done, do nothing")
	return cmd
}

func runExpire(ctx context.Context, s *frame, e keeper, dryRun bool) error {
	res, err := e.Expire(ctx, dryRun)
	if res == nil {
		return err
	}
	shown := s.emit(res, func(p *page) {
		if len(res.Expired)+len(res.Waiting) == 0 {
			p.printf("no cell's time is up\n")
		}
		for _, x := range res.Expired {
			p.printf("%s\n", expiryText(x, res.DryRun))
		}
		for _, x := range res.Waiting {
			p.printf("cell %s waits: %s\n", quote.Line(x.Cell), quote.Line(x.Reason))
		}
	})
	if err == nil {
		err = shown
	}
	return err
}

func expiryText(x api.Expiry, dryRun bool) string {
	done := map[string]string{api.OnTimeoutStop: "stopped", api.OnTimeoutPause: "paused", api.OnTimeoutRemove: "removed"}[x.Action]
	if dryRun {
		done = "would be " + done
	}
	return "cell " + quote.Line(x.Cell) + " " + done + ": " + quote.Line(x.Reason)
}
