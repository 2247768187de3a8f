package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newCheckpoint(s *frame) *cobra.Command {
	var name string
	var memory bool
	cmd := &cobra.Command{
		Use:   "checkpoint [CELL]",
		Short: "Name the present state, and print its ID and root hash",
		Long: `Name the present state, and print its ID and root hash.

Of a live cell, one moment is captured: its processes are frozen while its files are
copied, and the length of the pause is reported. This needs a freezer. Without one
the exit code is 4; see forkcell doctor.

With --memory the processes and their memory are kept too, also after the cell is
stopped: forkcell branch --from makes live cells of it. Memory holds secrets. Only you
can read it, and exports do not have it unless they are asked to.`,
		Example: `  forkcell checkpoint demo --name before-upgrade
  forkcell checkpoint demo --memory --name warm`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			if memory {
				return emitCheckpoint(s)(e.CheckpointMemory(ctx, args[0], name))
			}
			return emitCheckpoint(s)(e.Checkpoint(ctx, args[0], name))
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of the checkpoint")
	cmd.Flags().BoolVar(&memory, "memory", false, "also keep the memory of a live cell of the runtime gvisor, for branch --from")
	return s.ofDirectory(cmd)
}

// emitCheckpoint prints the result of a checkpoint.
func emitCheckpoint(s *frame) func(*api.CheckpointResult, error) error {
	return func(res *api.CheckpointResult, err error) error {
		if err != nil {
			return err
		}
		return s.emit(res, func(p *page) {
			p.printf("%s%s\nroot %s\n", res.CheckpointID, note(quote.Line(res.Name)), res.Root)
			if res.Memory != "" {
				p.printf("memory %s\n", quote.Line(res.Memory))
			}
			if res.Live {
				p.printf("the live cell stood still for %s\n", micros(res.PauseUS))
			}
		})
	}
}
