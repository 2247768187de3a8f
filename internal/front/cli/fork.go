package cli

import (
	"context"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

type forkOptions struct {
	name       string
	checkpoint string
	n          int
	settings   settingFlags
}

func newFork(s *frame) *cobra.Command {
	var o forkOptions
	cmd := &cobra.Command{
		Use:   "fork [CELL] --name NEW",
		Short: "Make new cells on the same state, without copying",
		Long: `Make new cells on the same state, without copying. They inherit the labels of the
forked cell, and no time limits. Undecided work of the state is named: diff in the new
cell shows it, and accept takes it.`,
		Example: `  forkcell fork demo --name try-b
  forkcell fork demo --name try -n 8     # try-1 ... try-8`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if o.name == "" {
				return usageError("usage: "+usageLine(cmd), "%s: missing --name", verb(cmd))
			}
			if cmd.Flags().Changed("number") && o.n < 1 {
				return usageError("", "%s: -n must be at least 1", verb(cmd))
			}
			name, checkpoint, err := stateArgs(cmd, args, o.checkpoint)
			if err != nil {
				return err
			}
			req := api.ForkRequest{Cell: name, Name: o.name, Checkpoint: checkpoint, N: o.n}
			if req.Settings, err = o.settings.settings(cmd); err != nil {
				return err
			}
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error { return runFork(ctx, s, e, req) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "call the new cell `NEW`")
	addCheckpoint(cmd, &o.checkpoint, "fork the state `CHECKPOINT` instead of the head")
	f.IntVarP(&o.n, "number", "n", 0, "make `N` cells, called NEW-1 to NEW-N")
	o.settings.addFlags(f)
	return s.ofDirectory(cmd)
}

func runFork(ctx context.Context, s *frame, e maker, req api.ForkRequest) error {
	res, err := e.Fork(ctx, req)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		if len(res.PendingRuns) > 0 {
			s.note("with undecided work, which accepting accepts, too: " + strings.Join(res.PendingRuns, ", "))
		}
		p.printf("forked %s at %s: %s\n", quote.Line(res.From), res.CheckpointID, quote.Line(strings.Join(res.Cells, " ")))
	})
}
