package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/quote"
)

type startOptions struct {
	timeout  duration
	env      []string
	envFile  []string
	workdir  string
	readOnly []string
	root     rootChoice
	cache    cacheChoice
	network  networkFlags
	wait     waiting
	governance
}

func newStart(s *session) *cobra.Command {
	var o startOptions
	cmd := &cobra.Command{
		Use:   "start [CELL]",
		Short: "Make a cell live: it keeps its processes until it is stopped",
		Long: `Make a cell live: it keeps its processes until it is stopped.

The cell has a supervisor process, which goes on after this command has ended. The
cell ends as a whole: when it is stopped, when --timeout passes, or when the
supervisor is killed. From start to stop is one run with one receipt. Meanwhile exec,
shell, cp, ps and logs -f use the cell. Every exec is an event of the run.`,
		Example: `  forkcell start demo --memory 2GiB
  forkcell exec demo -- make test
  forkcell stop demo`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			req, err := o.request(cmd, args[0])
			if err != nil {
				return err
			}
			req.CallerInfo = callerInfo(readGitUser(cmd.Context()))
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error { return runStart(ctx, s, e, req) })
		},
	}
	f := cmd.Flags()
	f.Var(&o.timeout, "timeout", "stop the cell after this time")
	f.StringArrayVar(&o.env, "env", nil, "set the variable `K=V` in the cell (repeatable)")
	f.StringArrayVar(&o.envFile, "env-file", nil, "set variables from the K=V lines of a `FILE` (repeatable)")
	f.StringVar(&o.workdir, "workdir", "", "commands start in `PATH`, absolute or relative to the workspace")
	f.StringArrayVar(&o.readOnly, "ro", nil, "show this host `PATH` read-only in the cell (repeatable)")
	f.Var(&o.wait, "wait", "wait for a busy cell, without a limit or this long (--wait=30s)")
	f.Lookup("wait").NoOptDefVal = forever
	o.root.addFlags(f)
	o.cache.addFlags(f, asTheCell)
	o.governance.addFlags(f)
	o.network.addFlags(f)
	return s.ofDirectory(cmd)
}

func (o *startOptions) request(cmd *cobra.Command, name string) (cell.StartRequest, error) {
	req := cell.StartRequest{
		Cell: name, Timeout: time.Duration(o.timeout), Workdir: o.workdir, ReadOnly: o.readOnly, Wait: time.Duration(o.wait),
	}
	req.Root, req.AsRoot, req.Cache = o.root.root, o.root.asRoot, string(o.cache)
	if err := o.cache.check(cmd); err != nil {
		return req, err
	}
	var err error
	if req.Env, err = environment(cmd, o.envFile, o.env); err != nil {
		return req, err
	}
	run := cell.RunRequest{Timeout: req.Timeout}
	if err := o.governance.fill(cmd, &run); err != nil {
		return req, err
	}
	if req.Network, err = o.network.request(cmd, run.Policy); err != nil {
		return req, err
	}
	req.Policy, req.Memory, req.CPUs, req.PIDs = run.Policy, run.Memory, run.CPUs, run.PIDs
	req.AllowDegraded, req.Inherit, req.Grants = run.AllowDegraded, run.Inherit, run.Grants
	return req, nil
}

func runStart(ctx context.Context, s *session, e supervisor, req cell.StartRequest) error {
	res, err := e.Start(ctx, req)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		p.printf("cell %s is live\n", quote.Line(res.Cell))
		p.pairs(
			"run", res.RunID, "pid", strconv.Itoa(res.PID), "socket", quote.Path(res.Socket),
			"degraded", quote.Line(strings.Join(res.Degraded, "; ")),
		)
	})
}

func newStop(s *session) *cobra.Command {
	grace := duration(-1)
	cmd := &cobra.Command{
		Use:   "stop [CELL]",
		Short: "End a live cell, and print the result of its run",
		Long: `End a live cell, and print the result of its run.

Its processes get SIGTERM, and after --timeout (5s) SIGKILL. The state is sealed, and
the run gets its receipt. The run is pending until it is accepted, rejected or
restored.`,
		Example:           "  forkcell stop demo",
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			return runStop(ctx, s, e, cell.StopRequest{Cell: args[0], Grace: time.Duration(grace)})
		}),
	}
	cmd.Flags().Var(&grace, "timeout", "time that its processes have to end (0: none)")
	cmd.Flags().Lookup("timeout").DefValue = "5s"
	return s.ofDirectory(cmd)
}

func runStop(ctx context.Context, s *session, e supervisor, req cell.StopRequest) error {
	res, err := e.Stop(ctx, req)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) { p.printf("cell %s stopped: %s\n", quote.Line(res.Cell), summary(res)) })
}
