package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newPause(s *frame) *cobra.Command {
	var o api.PauseRequest
	cmd := s.ofDirectory(&cobra.Command{
		Use:   "pause [CELL]",
		Short: "Stop the processes of a live cell until it is resumed",
		Long: `Stop the processes of a live cell until it is resumed. A paused cell can be
checkpointed, forked and stopped; exec, shell, cp and port-forward are refused. Pausing
a paused cell changes nothing.

With the runtime native the processes keep their memory, use no processor time, and
notice nothing but the clock. Time limits of the cell and of its commands go on.

With the runtime gvisor the processes are kept on disk, with their memory, and no
process of the cell is left: it stays paused also when the host is started again. Its
run ends with a receipt, and resuming it begins another one. With --fs-only that holds
for every runtime, but the processes end, and only the files are kept.`,
		Example: `  forkcell pause demo
  forkcell pause demo --fs-only`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			o.Cell = args[0]
			res, err := e.Pause(ctx, o)
			return s.emitPause(res, err)
		}),
	})
	cmd.Flags().BoolVar(&o.FSOnly, "fs-only", false, "end the processes, and keep the files only")
	return cmd
}

func newResume(s *frame) *cobra.Command {
	var o api.ResumeRequest
	cmd := s.ofDirectory(&cobra.Command{
		Use:   "resume [CELL]",
		Short: "Continue the processes of a paused cell",
		Long: `Continue the processes of a paused cell. Resuming a live cell that is not paused
changes nothing.

A cell that is paused on disk is live again with the policy and the options that it had.
The values of its credentials are not kept: they are read again from the credentials
file, or from --credential. Connections that were open are closed. If what it was paused
with cannot be used, it stays paused, and --fs-only starts it without its processes.`,
		Example: `  forkcell resume demo
  forkcell resume demo --fs-only`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			o.Cell, o.CredentialsFile = args[0], credentialsFile()
			res, err := e.Resume(ctx, o)
			return s.emitPause(res, err)
		}),
	})
	f := cmd.Flags()
	f.BoolVar(&o.FSOnly, "fs-only", false, "start it without the processes that it was paused with")
	f.StringArrayVar((*[]string)(&o.Credentials), "credential", nil, "take the value of a credential from `NAME=SOURCE` (repeatable)")
	return cmd
}

func (s *frame) emitPause(res *api.PauseResult, err error) error {
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		still := ""
		if !res.Changed {
			still = " already"
		}
		where := ""
		switch {
		case res.OnDisk && res.FSOnly:
			where = ", without processes"
		case res.OnDisk:
			where = ", on disk"
		case res.FSOnly:
			where = ", without the processes that it had"
		}
		p.printf("cell %s is %s%s%s\n", quote.Line(res.Cell), quote.Line(res.State), still, where)
	})
}
