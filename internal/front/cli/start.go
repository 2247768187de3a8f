package cli

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newStart(s *frame) *cobra.Command {
	var o optionFlags
	var w warmFlags
	cmd := &cobra.Command{
		Use:   "start [CELL] [--warm -- COMMAND [ARG]...]",
		Short: "Make a cell live: it keeps its processes until it is stopped",
		Long: `Make a cell live: it keeps its processes until it is stopped.

The cell has a supervisor process, which goes on after this command has ended. The
cell ends as a whole: when it is stopped, when --timeout passes, or when the
supervisor is killed. From start to stop is one run with one receipt. Meanwhile exec,
shell, cp, ps and logs -f use the cell. Every exec is an event of the run.

With --warm the cell is a template: the command after -- gets warm, then everything in
the cell stands still, and branch makes cells that begin with its memory. The command
must take part: see forkcell warm python, and docs/formats/warm-protocol.md for others.
With the runtime gvisor any command will do, and the cell goes on: --ready says when it
is warm, and branch takes the moment that it is told to.`,
		Example: `  forkcell start demo --memory 2GiB
  forkcell exec demo -- make test
  forkcell stop demo`,
		DisableFlagsInUseLine: true,
		Args:                  func(cmd *cobra.Command, args []string) error { return startArgs(cmd, args, w.warm) },
		ValidArgsFunction:     s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			options, err := o.resolve(cmd, s)
			if err != nil {
				return err
			}
			req := api.StartRequest{Cell: args[0], RunOptions: options}
			if req.Warm, err = w.request(cmd, args[1:]); err != nil {
				return err
			}
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error { return runStart(ctx, s, e, req) })
		},
	}
	o.addFlags(cmd.Flags(), optionTexts{
		timeout: "stop the cell after this time",
		workdir: "commands start in `PATH`, absolute or relative to the workspace",
	})
	w.addFlags(cmd.Flags())
	return s.ofDirectory(cmd)
}

func runStart(ctx context.Context, s *frame, e supervisor, req api.StartRequest) error {
	res, err := e.Start(ctx, req)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		if req.Warm != nil {
			p.printf("cell %s is warm, after %s\n", quote.Line(res.Cell), micros(res.ReadyUS))
		} else {
			p.printf("cell %s is live\n", quote.Line(res.Cell))
		}
		p.pairs(
			"run", res.RunID, "pid", strconv.Itoa(res.PID), "socket", quote.Path(res.Socket),
			"degraded", quote.Line(strings.Join(res.Degraded, "; ")),
		)
	})
}

func newStop(s *frame) *cobra.Command {
	grace := duration(-1)
	cmd := &cobra.Command{
		Use:   "stop [CELL...]",
		Short: "End live cells, and print the results of their runs",
		Long: `End live cells, and print the results of their runs. With --json each result is one
line. A cell that cannot be stopped does not keep the others from it.

The processes of a cell get SIGTERM, and after --timeout (5s) SIGKILL. The state is
sealed, and the run gets its receipt. The run is pending until it is accepted, rejected
or restored.`,
		Example: `  forkcell stop demo
  forkcell stop try-1 try-2 try-3`,
		Args:              oneOrMore("[CELL]"),
		ValidArgsFunction: s.completeCells,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			var failed error
			for _, name := range args {
				if ctx.Err() != nil {
					return cmp.Or(failed, ctx.Err())
				}
				err := runStop(ctx, s, e, api.StopRequest{Cell: name, Grace: time.Duration(grace)})
				if failed == nil {
					failed = err
				} else if err != nil {
					failed = api.WithDetails(failed, []string{err.Error()})
				}
			}
			return failed
		}),
	}
	cmd.Flags().Var(&grace, "timeout", "time that its processes have to end (0: none)")
	cmd.Flags().Lookup("timeout").DefValue = "5s"
	return s.ofDirectory(cmd)
}

func runStop(ctx context.Context, s *frame, e supervisor, req api.StopRequest) error {
	res, err := e.Stop(ctx, req)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		p.printf("cell %s stopped: %s\n", quote.Line(res.Cell), summary(res))
		printNotes(p, res.Notes)
	})
}
