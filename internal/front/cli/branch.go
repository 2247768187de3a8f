package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/text/quote"
)

type branchOptions struct {
	api.BranchRequest

	policy string
	stop   bool
}

func newBranch(s *frame) *cobra.Command {
	var o branchOptions
	cmd := &cobra.Command{
		Use:   "branch CELL",
		Short: "Make live cells that begin with the memory of another one",
		Long: `Make live cells that begin with the memory and the files that a live cell has now. All
are made, or none. The cell stays as it is; --stop ends it. With --from they begin with
what a checkpoint has that was made with --memory.

A cell of the runtime native must be a warm template. With the runtime gvisor any live
cell can be branched, with all of its processes.

Each new cell has its own files, network, identity, credentials, limits, events and
receipt. Its policy is that of CELL; one given with --policy is enforced together with
it. The new cells end with the supervisor of CELL, which lives until the last of them
has ended.`,
		Example: `  forkcell warm python demo --import json
  forkcell branch demo --name try
  forkcell branch demo --name many -n 20     # many-1 ... many-20
  forkcell eval try 'json.dumps([1])'
  forkcell branch demo --from warm           # a checkpoint with memory`,
		Args:              positional("CELL"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			req, err := o.request(cmd, s, args[0])
			if err != nil {
				return err
			}
			return s.engine(cmd.Context(), Visit, func(ctx context.Context, e Engine) error { return runBranch(ctx, s, e, req, o.stop) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "call the new cell `NEW` (default: after CELL)")
	f.IntVarP(&o.N, "number", "n", 0, "make `N` cells, called NEW-1 to NEW-N")
	f.StringVar(&o.From, "from", "", "begin with the memory of `CHECKPOINT` of CELL, which need not be live")
	_ = cmd.RegisterFlagCompletionFunc("from", func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return startingWith(s.knownNames(c.Context(), first(args)).Checkpoints, prefix), cobra.ShellCompDirectiveNoFileComp
	})
	f.BoolVar(&o.stop, "stop", false, "stop CELL afterwards; the new cells go on")
	f.StringVar(&o.policy, "policy", "", "enforce the policy `FILE` together with that of CELL; a preset's name works too")
	f.Var((*duration)(&o.Timeout), "timeout", "stop each new cell after this time")
	f.Var(&amount{value: &o.Memory, kind: "SIZE", parse: policy.ParseSize}, "memory", "limit memory, swap included, such as 2GiB")
	f.Var(&amount{value: &o.CPUs, kind: "N", parse: policy.ParseCPUs}, "cpus", "limit processor time to so many processors, such as 1.5")
	f.Var(&amount{value: &o.PIDs, kind: "N", parse: policy.ParsePIDs}, "pids", "limit the number of processes and threads")
	f.StringArrayVar((*[]string)(&o.Credentials), "credential", nil, "take the value of a credential from `NAME=SOURCE` instead of CELL (repeatable)")
	return cmd
}

func (o *branchOptions) request(cmd *cobra.Command, s *frame, cell string) (api.BranchRequest, error) {
	req := o.BranchRequest
	req.Cell, req.CredentialsFile = cell, credentialsFile()
	if cmd.Flags().Changed("number") && o.N < 1 {
		return req, usageError("", "%s: -n must be at least 1", verb(cmd))
	}
	if cmd.Flags().Changed("from") && (o.From == "" || o.stop) {
		return req, usageError("", "%s: --from takes a checkpoint, and nothing is stopped then", verb(cmd))
	}
	if err := inBounds(cmd, api.RunOptions{Memory: o.Memory, CPUs: o.CPUs, PIDs: o.PIDs, Timeout: o.Timeout}); err != nil {
		return req, err
	}
	var err error
	if cmd.Flags().Changed("policy") {
		req.Policy, err = s.readPolicy(verb(cmd), o.policy)
	}
	return req, err
}

func runBranch(ctx context.Context, s *frame, e Engine, req api.BranchRequest, stop bool) error {
	res, err := e.Branch(ctx, req)
	if err != nil {
		return err
	}
	if stop {
		if _, err := e.Stop(ctx, api.StopRequest{Cell: req.Cell, Grace: -1}); err != nil {
			return err
		}
	}
	return s.emit(res, func(p *page) {
		held := ""
		if req.From == "" {
			held = "; it was held for " + micros(res.PauseUS)
		}
		p.printf("branched %s at %s%s\n", quote.Line(res.Source), res.CheckpointID, held)
		rows := [][]string{{"CELL", "FIRST ANSWER", "MEMORY"}}
		for _, c := range res.Children {
			rows = append(rows, []string{quote.Line(c.Cell), micros(c.FirstAnswerUS), size(c.MemoryBytes)})
		}
		p.table(rows)
		for _, c := range res.Children {
			if c.Sockets != "" {
				p.printf("sockets of %s: %s\n", quote.Line(c.Cell), quote.Line(c.Sockets))
			}
		}
	})
}

func newEval(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "eval CELL CODE",
		Short: "Run code in the warm interpreter of a live cell",
		Long: `Run code in the warm interpreter of a live cell, and print what the code prints and the
value of its last line. The exit code is 1 if the code raised an exception.

Names that the code defines stay in the cell. In a template the code runs in a branch
that is dropped afterwards. If this command is interrupted, so is the code.`,
		Example: `  forkcell eval try 'x = 40'
  forkcell eval try 'x + 2'`,
		Args:              positional("CELL", "CODE"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Visit, func(ctx context.Context, e Engine, args []string) error {
			return runEval(ctx, s, e, api.EvalRequest{Cell: args[0], Code: args[1]})
		}),
	}
}

func runEval(ctx context.Context, s *frame, e brancher, req api.EvalRequest) error {
	res, err := e.Eval(ctx, req)
	if err != nil {
		return err
	}
	if res.Error != nil {
		s.code = exitFailed
		if !s.json {
			_, err = io.WriteString(s.streams.Err, visibleLines(res.Error.Traceback))
		}
	}
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		p.lines(visibleLines(res.Output))
		if res.Value != nil {
			p.lines(visibleLines(*res.Value))
		}
		s.cutNote(res.Truncated)
	})
}

// cutNote says on standard error which parts of an answer are not whole.
func (s *frame) cutNote(fields []string) {
	if shown := slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return f == "value_json" }); len(shown) > 0 {
		fmt.Fprintf(s.streams.Err, "forkcell: not all of it is here: the %s was longer than 256 KiB; write it to a file of the cell instead\n", quote.Line(strings.Join(shown, " and the ")))
	}
}

// visibleLines returns the lines of a text of a cell for a terminal, the last one with
// its end.
func visibleLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(quote.Content(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
