package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/quote"
)

func newCheckpoint(s *session, fam *family) *cobra.Command {
	var name string
	var memory bool
	cmd := &cobra.Command{
		Use:   "checkpoint [CELL]",
		Short: "Name the present state, and print its ID and root hash",
		Long: `Name the present state, and print its ID and root hash.

Of a live cell, one moment is captured: its processes are frozen while its files are
copied, and the length of the pause is reported. This needs a freezer. Without one
the exit code is 4; see forkcell doctor.`,
		Example:           "  forkcell checkpoint demo --name before-upgrade",
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			if err := fam.check(ctx, e, args[0]); err != nil {
				return err
			}
			if memory {
				return noMemoryOnDisk("checkpoint: --memory")
			}
			return runCheckpoint(ctx, s, e, args[0], name)
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of the checkpoint")
	cmd.Flags().BoolVar(&memory, "memory", false, "also keep the memory of a live cell, which the runtime native cannot")
	return s.ofDirectory(cmd)
}

func runCheckpoint(ctx context.Context, s *session, e mover, cellName, name string) error {
	res, err := e.Checkpoint(ctx, cellName, name)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		p.printf("%s%s\nroot %s\n", res.CheckpointID, note(quote.Line(res.Name)), res.Root)
		if res.Live {
			p.printf("the live cell stood still for %s\n", micros(res.PauseUS))
		}
	})
}
