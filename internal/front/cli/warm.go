package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/warm"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// warmFlags are the flags of start that make a template.
type warmFlags struct {
	warm  bool
	ready readyFlags
}

// readyFlags say when a template is ready.
type readyFlags struct {
	when  string
	limit duration
}

func (w *warmFlags) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&w.warm, "warm", false, "make a template: execute the command after --, which becomes warm")
	f.StringVar(&w.ready.when, "ready", "", "with --warm, what must hold when the process says that it is warm: `REGEX|port:N|file:PATH|notify`; a REGEX is about its output")
	w.ready.addTimeout(f)
}

func (r *readyFlags) addTimeout(f *pflag.FlagSet) {
	f.Var(&r.limit, "ready-timeout", "the time to become warm (default: 60s)")
}

// startArgs checks the arguments of start: a cell, and with --warm a command.
func startArgs(cmd *cobra.Command, args []string, warm bool) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case warm && (dash < 0 || len(args) == dash):
		return usageError("usage: "+usageLine(cmd), "%s: missing command after --", verb(cmd))
	case dash < 0:
		dash = len(args)
	case !warm:
		return usageError("`forkcell exec CELL -- COMMAND` executes one; --warm makes a template", "%s: a command after -- needs --warm", verb(cmd))
	}
	return positional("[CELL]")(cmd, args[:dash])
}

// request returns the part of a request about the template; nil if there is none.
func (w *warmFlags) request(cmd *cobra.Command, command []string) (*api.WarmRequest, error) {
	if !w.warm {
		for _, flag := range []string{"ready", "ready-timeout"} {
			if cmd.Flags().Changed(flag) {
				return nil, usageError("", "%s: --%s needs --warm", verb(cmd), flag)
			}
		}
		return nil, nil //nolint:nilnil // as the comment says
	}
	if err := engine.CheckReady(w.ready.when); err != nil {
		return nil, usageError("give REGEX, port:N, file:PATH or notify", "%s: bad value for --ready: %v", verb(cmd), err)
	}
	return &api.WarmRequest{Args: command, Ready: w.ready.when, Timeout: time.Duration(w.ready.limit)}, nil
}

func newWarm(s *frame) *cobra.Command {
	return group("warm", "Start a warm interpreter that can be branched", newWarmPython(s))
}

type warmPython struct {
	options  optionFlags
	ready    readyFlags
	python   api.WarmPython
	resolved api.RunOptions
}

func newWarmPython(s *frame) *cobra.Command {
	var o warmPython
	cmd := &cobra.Command{
		Use:   "python CELL",
		Short: "Start a warm Python interpreter in a cell",
		Long: `Make a cell live as a template: a Python interpreter imports modules and runs a
script, and then stands still. forkcell branch makes cells that begin with its memory,
each with its own files, network and identity. forkcell eval runs code in them, with
the names that the script has defined.`,
		Example: `  forkcell warm python demo --import json,decimal
  forkcell branch demo -n 5 --name try
  forkcell eval try-1 'decimal.Decimal(1) / 7'`,
		Args:              positional("CELL"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			var err error
			if o.resolved, err = o.options.resolve(cmd, s); err != nil {
				return err
			}
			for _, name := range o.python.Modules {
				if !warm.IsModule(name) {
					return usageError("write them as in numpy,os.path", "%s: --import %s: not the name of a module", verb(cmd), quote.Arg(name))
				}
			}
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error { return o.run(ctx, s, e, args[0]) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.python.Program, "python", "python3", "the interpreter, a `PATH` in the cell or a name")
	f.StringSliceVar(&o.python.Modules, "import", nil, "import these modules first, as in `A,B`")
	f.StringVar(&o.python.Script, "script", "", "then run this `FILE` of the cell, absolute or relative to the workspace")
	o.ready.addTimeout(f)
	o.options.addFlags(f, optionTexts{
		timeout: "stop the cell after this time",
		workdir: "start in `PATH`, absolute or relative to the workspace",
	})
	return cmd
}

func (o *warmPython) run(ctx context.Context, s *frame, e Engine, cellName string) error {
	req, err := warm.Python(o.python, string(o.resolved.Workdir), func() (string, error) {
		status, err := e.Status(ctx, cellName)
		if err != nil {
			return "", err
		}
		return status.MountAt, nil
	})
	if err != nil {
		return err
	}
	req.Timeout = time.Duration(o.ready.limit)
	return runStart(ctx, s, e, api.StartRequest{Cell: cellName, RunOptions: o.resolved, Warm: req})
}
