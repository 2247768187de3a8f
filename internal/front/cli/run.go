package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// annotationRun marks commands that take another command after "--".
const annotationRun = "forkcell.run"

type runOptions struct {
	optionFlags

	checkpointBefore bool
	checkpointName   string
	restoreOnFail    bool
	acceptOnSuccess  bool
	terminal         terminalFlags
	result           string
	dryRun           bool
}

func newRun(s *frame) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] [CELL] [flags] -- COMMAND [ARG]...",
		Short: "Run one command in a cell, with one receipt",
		Long: `Run one command in a cell, with one receipt.

Everything after -- is the command, byte for byte. Its output is passed on unchanged;
on a terminal, without what leaves the screen, such as clipboard writes and titles, which
--raw passes too. Its exit code is the exit code of forkcell. Other codes: 124 it ran past
--timeout, 125 forkcell itself failed, 126 it could not be executed, 127 it was not
found, 128+N signal N killed it. With --json, stdout has the result document alone,
and the command's output goes to stderr.

When stdin, stdout and stderr are a terminal, the command gets a terminal and stdin
too; -T turns that off. The command does not see your environment, except the
variables that the policy names. A control that cannot be enforced here refuses the
run (exit 4). With --allow-degraded it runs, and the receipt names the control.

The run stays pending until a flag or a later accept, reject or restore decides.
Until then the cell's head is the state after the run.`,
		Example: `  forkcell run demo -- make test
  forkcell run --checkpoint-before --restore-on-fail demo -- sh -lc 'rm -rf build && make'
  forkcell run --memory 2GiB --pids 256 --timeout 10m demo -- make test
  forkcell run --policy policy.yaml demo -- npm test
  forkcell run demo -- bash
  printf y | forkcell run -i demo -- ./ask`,
		DisableFlagsInUseLine: true,
		Annotations:           map[string]string{annotationRun: "yes"},
		Args:                  func(cmd *cobra.Command, args []string) error { return runArgs(cmd, s.args, args) },
		ValidArgsFunction:     s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started, s.isRun = true, true
			_, err := runIn(cmd, s, args[0], args[1:], &o)
			return err
		},
	}
	o.addFlags(cmd)
	return s.ofDirectory(cmd)
}

func (o *runOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.checkpointBefore, "checkpoint-before", false, "make a checkpoint before the run; every run does that")
	f.StringVar(&o.checkpointName, "checkpoint-name", "", "`NAME` of the checkpoint before the run")
	f.BoolVar(&o.restoreOnFail, "restore-on-fail", false, "restore the state before the run when the command fails")
	f.BoolVar(&o.acceptOnSuccess, "accept-on-success", false, "accept the run when the command succeeds and nothing earlier is undecided")
	o.optionFlags.addFlags(f, optionTexts{
		timeout: "kill the cell's processes after this time",
		workdir: "start in `PATH`, absolute or relative to the workspace",
	})
	o.terminal.addFlags(cmd)
	f.StringVar(&o.result, "result", "", "write the result document to `FILE`, also when the run is refused (- = stdout)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the controls that would apply, and run nothing")
}

// runArgs requires at most one cell before the dashes and a command after them.
func runArgs(cmd *cobra.Command, line, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 && len(args) == 0:
		return usageError("usage: "+usageLine(cmd), "%s: missing command after --", verb(cmd))
	case dash < 0:
		return usageError(runHint(cmd, line), "%s: missing -- before the command", verb(cmd))
	case dash == 1 && args[0] == "":
		return usageError("usage: "+usageLine(cmd), "%s: empty argument CELL", verb(cmd))
	case dash > 1:
		hint := "usage: " + usageLine(cmd)
		if cmd.Flags().Changed("wait") {
			hint = "a time for --wait is written --wait=30s"
		}
		return usageError(hint, "%s: unexpected argument %s before --", verb(cmd), quote.Arg(args[1]))
	case len(args) == dash:
		return usageError("usage: "+usageLine(cmd), "%s: missing command after --", verb(cmd))
	}
	return nil
}

// runHint returns the line that was probably meant, with -- after the first word
// that is neither a flag nor the value of a flag.
func runHint(cmd *cobra.Command, line []string) string {
	words := strings.Fields(cmd.CommandPath())[1:]
	i := 0
	for ; i < len(line) && len(words) > 0; i++ {
		if line[i] == words[0] {
			words = words[1:]
		}
	}
	for ; i < len(line); i++ {
		name, isFlag := strings.CutPrefix(line[i], "-")
		if !isFlag {
			break
		}
		if flag := cmd.Flags().Lookup(strings.TrimPrefix(name, "-")); flag != nil && flag.NoOptDefVal == "" {
			i++
		}
	}
	if i >= len(line) {
		return "usage: " + usageLine(cmd)
	}
	fixed := append([]string{"forkcell"}, line[:i+1]...)
	rest := "COMMAND"
	if i+1 < len(line) {
		rest = quote.Argv(line[i+1:])
	}
	return "write: " + quote.Argv(fixed) + " -- " + rest
}

// runIn runs a command in a cell and prints how it ended. The result is nil if
// nothing was run.
func runIn(cmd *cobra.Command, s *frame, name string, argv []string, o *runOptions) (*api.RunResult, error) {
	o.Workdir = api.Text(s.startIn(string(o.Workdir)))
	if err := o.terminal.resolve(cmd, s); err != nil {
		return nil, err
	}
	if err := checkResult(cmd, o.result); err != nil {
		return nil, err
	}
	req, err := o.request(cmd, s, name, argv)
	if err == nil && o.dryRun {
		return nil, s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runPlan(ctx, s, e, req) })
	}
	run := governedRun{session: s, opts: o, request: req, signals: listen()}
	s.passing = run.signals
	go s.gitUser() // in parallel
	if err == nil {
		err = s.rawEngine(Run, func(e Engine) error { return run.do(cmd.Context(), e) })
	}
	return run.result, run.conclude(err)
}

// request turns the flags into a request to the engine.
func (o *runOptions) request(cmd *cobra.Command, s *frame, name string, argv []string) (api.RunRequest, error) {
	options, err := o.resolve(cmd, s)
	req := api.RunRequest{
		Cell: name, Args: argv, RunOptions: options,
		CheckpointBefore: o.checkpointBefore || o.checkpointName != "",
		CheckpointName:   o.checkpointName,
		RestoreOnFail:    o.restoreOnFail,
		AcceptOnSuccess:  o.acceptOnSuccess,
		TTY:              o.terminal.tty,
	}
	return req, err
}

// summary returns the line about a run on stderr.
func summary(r *api.RunResult) string {
	outcome := outcomeText(r)
	if r.Error != "" {
		outcome += ": " + r.Error
	}
	parts := []string{outcome}
	switch r.Decision {
	case "restored":
		parts = append(parts, "restored to "+r.CheckpointBefore)
	case "":
	default:
		parts = append(parts, r.Decision)
	}
	if r.ChangedFiles > 0 {
		parts = append(parts, fmt.Sprintf("%d changed", r.ChangedFiles))
	}
	if len(r.Elsewhere) > 0 {
		parts = append(parts, quote.Line(api.ElsewhereText(r.Elsewhere)))
	}
	if n := len(r.SplitLinks); n > 0 {
		parts = append(parts, count(int64(n), "hard link", "hard links")+" split")
	}
	if len(r.Degraded) > 0 {
		parts = append(parts, "degraded: "+strings.Join(r.Degraded, "; "))
	}
	if r.ReceiptID != "" {
		parts = append(parts, "receipt "+r.ReceiptID)
	}
	return quote.Line(strings.Join(parts, ", "))
}

// deniedLine reports that a run was denied a network and, if it failed, what to do.
// It is empty if nothing was denied.
func deniedLine(r *api.RunResult) string {
	d, advice := r.Denied, ""
	switch {
	case d.Attempts == 0:
		return ""
	case d.Offline || len(d.To) == 0:
		if r.Outcome != "succeeded" {
			advice = ": give it a policy, such as --policy dev"
		}
		to := ""
		if len(d.To) > 0 {
			to = " (" + destinations(d) + ")"
		}
		if len(d.To) > 0 && advice != "" {
			advice += ", or that of forkcell policy suggest " + r.Cell
		}
		return quote.Line(fmt.Sprintf("the cell has no network, and %s to use one failed%s%s", count(d.Attempts, "attempt", "attempts"), to, advice))
	}
	to := destinations(d)
	if r.Outcome != "succeeded" {
		advice = ": forkcell policy suggest " + r.Cell
	}
	return quote.Line(fmt.Sprintf("%s denied (%s)%s", count(d.Attempts, "connection was", "connections were"), to, advice))
}

// destinations names some of those that were denied.
func destinations(d api.DeniedNetwork) string {
	to := strings.Join(d.To, ", ")
	if d.Attempts > int64(len(d.To)) {
		to += ", ..."
	}
	return to
}

// unansweredLine names allowed destinations that did not answer a failed run.
func unansweredLine(u *api.UnansweredNetwork) string {
	if u == nil {
		return ""
	}
	to := strings.Join(u.To, ", ")
	if u.Attempts > int64(len(u.To)) {
		to += ", ..."
	}
	return quote.Line(fmt.Sprintf("%s allowed and not answered (%s): %s", count(u.Attempts, "connection was", "connections were"), to, u.Reason))
}

func outcomeText(r *api.RunResult) string {
	switch {
	case r.Signal != 0:
		return fmt.Sprintf("%s (signal %d)", r.Outcome, r.Signal)
	case r.Outcome == "failed":
		return fmt.Sprintf("failed (exit %d)", r.ExitCode)
	default:
		return r.Outcome
	}
}
