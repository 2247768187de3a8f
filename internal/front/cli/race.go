package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/text/quote"
)

type racer interface {
	Race(ctx context.Context, r api.RaceRequest, events func(api.RaceEvent)) (*api.RaceResult, error)
	Choose(ctx context.Context, r api.ChooseRequest) (*api.RaceResult, error)
}

type raceOptions struct {
	optionFlags

	n        int
	attempts []string
	warm     bool
	code     []string
	jobs     int
	judge    string
	best     string
	accept   bool
	apply    bool
	keep     bool
	choose   string
	reason   string
	force    bool
}

func newRace(s *frame) *cobra.Command {
	var o raceOptions
	cmd := &cobra.Command{
		Use:   "race CELL [flags] (-n N -- COMMAND [ARG]... | --attempt COMMAND... | --eval CODE... | --choose ATTEMPT)",
		Short: "Make several attempts in forks of a cell, and keep the best one",
		Long: `Make several attempts in forks of a cell, and keep the best one.

Each attempt runs in a fork of its own, with its number in FORKCELL_ATTEMPT. -n runs
the same command several times; --attempt, repeated, runs different ones. --judge is
a command that is run in the workspace of each attempt that succeeded. It gets a fork
of its own without a network, so it leaves no trace in the attempt. The home and all
other files of that fork are those of CELL. A judge that fails rules its attempt out,
and the last line that it prints is the score if it is a number.

--best chooses among the attempts that succeeded and that the judge did not rule out:
exit takes the first, score the one with the highest score, fastest the one whose
command took the shortest time. Equal ones go to the lowest number. If none is left,
nobody wins, and race exits 1.

The cell of the winner is kept, and the others are removed; their receipts stay. With
--accept the cell gets the winner's workspace by one signed decision that names all
attempts and their scores, and no fork is kept. Its home and its other files stay. If
the cell has moved meanwhile, that is refused (exit 4) and the winner is kept.

--choose does it afterwards: it makes no attempts, and accepts the one whose cell is
ATTEMPT, of a race of CELL that kept it (--keep, or the winner). Here you decide, not a
score. An attempt that did not succeed needs --force. What was chosen already stays.

With --warm the attempts are branches of CELL, which must be live: a warm template, or
any live cell of the runtime gvisor. They begin with its memory, and the command is
executed in them. --eval has the warm interpreter of a branch run code instead; repeated,
each is an attempt, and with -n all run the same. Code that raises an exception has
failed.

Ctrl-C stops all attempts; each that had begun has a receipt. With --json: one object
for each attempt that ends and for each judgement, and the result at the end.`,
		Example: `  forkcell race demo -n 5 --judge 'make test' -- ./fix.sh
  forkcell race demo --attempt ./fix-a.sh --attempt ./fix-b.sh --judge ./score.sh --best score
  forkcell race demo -n 3 --jobs 1 --best fastest --accept --apply -- make
  forkcell race demo -n 3 --keep -- ./fix.sh && forkcell race demo --choose demo-race-2 --reason 'shortest'
  forkcell race warm --eval 'fit(0.1)' --eval 'fit(0.01)' --judge 'cat loss' --best score`,
		DisableFlagsInUseLine: true,
		Annotations:           map[string]string{annotationRun: "yes"},
		Args:                  func(cmd *cobra.Command, args []string) error { return o.checkArgs(cmd, s.args, args) },
		ValidArgsFunction:     s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if o.choose != "" {
				go s.gitUser() // in parallel
				return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error { return runChoose(ctx, s, e, o.choice(args)) })
			}
			req, err := o.request(cmd, s, args)
			if err != nil {
				return err
			}
			go s.gitUser() // in parallel
			return s.engine(cmd.Context(), Run, func(ctx context.Context, e Engine) error { return runRace(ctx, s, e, req) })
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (o *raceOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVarP(&o.n, "number", "n", 0, "make `N` attempts with the same command")
	f.StringArrayVar(&o.attempts, "attempt", nil, "make an attempt with this `COMMAND` of a shell (repeatable)")
	f.BoolVar(&o.warm, "warm", false, "make the attempts branches of the live CELL")
	f.StringArrayVar(&o.code, "eval", nil, "make an attempt that runs this `CODE` in a warm interpreter (repeatable)")
	f.IntVar(&o.jobs, "jobs", 0, "run `J` attempts at once (default: one for each processor)")
	f.StringVar(&o.judge, "judge", "", "judge each attempt by this `COMMAND` of a shell")
	f.StringVar(&o.best, "best", engine.Bests()[0], "choose the winner by `exit|score|fastest`")
	f.BoolVar(&o.accept, "accept", false, "move the cell to the winner's state")
	f.StringVar(&o.choose, "choose", "", "accept the attempt with the cell `ATTEMPT`, after the race")
	f.StringVar(&o.reason, "reason", "", "with --choose: why, for the record (`TEXT`)")
	f.BoolVar(&o.force, "force", false, "with --choose: also an attempt that did not succeed")
	f.BoolVar(&o.apply, "apply", false, "with --accept or --choose: also write the accepted changes to the source directory")
	f.BoolVar(&o.keep, "keep", false, "keep the cells of all attempts")
	o.optionFlags.addFlags(f, optionTexts{
		timeout: "kill each attempt, and each judge, after this time",
		workdir: "start in `PATH`, absolute or relative to the workspace",
	})
}

// checkArgs requires one cell, and a command after the dashes unless there are
// --attempt flags.
func (o *raceOptions) checkArgs(cmd *cobra.Command, line, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if cmd.Flags().Changed("choose") {
		return o.checkChoice(cmd, args)
	}
	for _, name := range []string{"reason", "force"} {
		if cmd.Flags().Changed(name) {
			return usageError("it says more about that choice", "%s: --%s needs --choose", verb(cmd), name)
		}
	}
	if len(o.attempts)+len(o.code) > 0 && dash < 0 {
		return positional("CELL")(cmd, args)
	}
	usage := "usage: " + usageLine(cmd)
	switch {
	case len(o.attempts)+len(o.code) > 0:
		return usageError("give one of them", "%s: --attempt or --eval and a command after -- exclude each other", verb(cmd))
	case dash == 0, len(args) == 0:
		return usageError(usage, "%s: missing argument CELL", verb(cmd))
	case dash < 0 && len(args) == 1:
		return usageError(usage, "%s: missing command after --", verb(cmd))
	case dash < 0:
		return usageError(usage, "%s: missing -- before the command", verb(cmd))
	}
	return runArgs(cmd, line, args)
}

// withChoice are the flags that --choose may be given with.
var withChoice = []string{"choose", "reason", "force", "apply", "wait"}

// checkChoice requires a cell, an attempt, and no flag of a race that is made.
func (o *raceOptions) checkChoice(cmd *cobra.Command, args []string) error {
	if o.choose == "" {
		return usageError("`forkcell ls` shows the cells", "%s: --choose needs the cell of an attempt", verb(cmd))
	}
	var other string
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && other == "" && !slices.Contains(withChoice, f.Name) {
			other = f.Name
		}
	})
	switch {
	case other != "":
		return usageError("leave it out: --choose makes no attempts", "%s: --choose and --%s exclude each other", verb(cmd), other)
	case cmd.ArgsLenAtDash() >= 0:
		return usageError("leave it out: --choose makes no attempts", "%s: --choose and a command exclude each other", verb(cmd))
	}
	return positional("CELL")(cmd, args)
}

func (o *raceOptions) choice(args []string) api.ChooseRequest {
	return api.ChooseRequest{Cell: args[0], Attempt: o.choose, Reason: o.reason, Force: o.force, Apply: o.apply, Wait: api.Duration(o.Wait)}
}

func runChoose(ctx context.Context, s *frame, e racer, req api.ChooseRequest) error {
	res, err := e.Choose(ctx, req)
	if res == nil {
		return err
	}
	// A refused apply does not change the decision: print both.
	return joinErrors(err, s.emit(res, func(p *page) { printRace(p, res) }))
}

func (o *raceOptions) request(cmd *cobra.Command, s *frame, args []string) (api.RaceRequest, error) {
	options, err := o.resolve(cmd, s)
	if err != nil {
		return api.RaceRequest{}, err
	}
	req := api.RaceRequest{
		Cell: args[0], Command: args[1:], N: o.n, RunOptions: options, Jobs: o.jobs, Best: o.best, Accept: o.accept, Apply: o.apply, Keep: o.keep,
		Warm: o.warm || len(o.code) > 0,
	}
	if len(o.code) == 1 && o.n > 0 {
		req.Code, o.code = api.Text(o.code[0]), nil
	}
	for _, code := range o.code {
		req.Attempts = append(req.Attempts, api.RaceCommand{Code: api.Text(code)})
	}
	for _, command := range o.attempts {
		req.Attempts = append(req.Attempts, api.RaceCommand{Command: inShell(command)})
	}
	if cmd.Flags().Changed("judge") {
		req.Judge = inShell(o.judge)
	}
	return req, nil
}

func inShell(command string) []string { return []string{"sh", "-c", command} }

func runRace(ctx context.Context, s *frame, e racer, req api.RaceRequest) error {
	show := s.raceDisplay()
	res, err := e.Race(ctx, req, show.event)
	err = joinErrors(err, show.done())
	if res == nil {
		return err
	}
	if !s.json {
		err = joinErrors(err, s.emit(nil, func(p *page) { printRace(p, res) }))
		err = joinErrors(err, s.out.Flush())
		s.note(howToChoose(req, res)) // after the table
	}
	if err == nil && res.Winner == nil {
		hint := "--keep keeps the cells of the attempts, and then forkcell logs shows what each has printed"
		if len(res.Kept) > 0 {
			hint = "`forkcell logs " + res.Kept[0] + "` shows what the first attempt has printed"
		}
		return &api.Error{Kind: api.Failed, Code: api.CodeNoWinner, Message: "race: no attempt has won", Hint: hint}
	}
	return err
}

// howToChoose names the command that accepts an attempt after the race, if one was kept
// that can win. A cell that is live does not stay in the state that was raced.
func howToChoose(req api.RaceRequest, res *api.RaceResult) string {
	if req.Warm || res.DecisionID != "" || res.Winner == nil || len(res.Kept) == 0 {
		return ""
	}
	line := "`forkcell race " + quote.Arg(res.Cell) + " --choose " + quote.Arg(res.Attempts[*res.Winner-1].Cell) + "` accepts the winner into " + quote.Line(res.Cell)
	if len(res.Kept) > 1 {
		line += "; any other attempt can be chosen as well"
	}
	return line
}

func printRace(p *page, res *api.RaceResult) {
	p.table(raceRows(p, res.Attempts, func(a api.RaceAttempt) string { return p.paint(meaning(a.Outcome), raceOutcome(a)) }, timeTaken))
	if res.Winner == nil {
		return
	}
	won := res.Attempts[*res.Winner-1]
	if res.DecisionID == "" {
		p.printf("winner: attempt %d, in cell %s\n", won.Attempt, quote.Line(won.Cell))
		printElsewhere(p, "outside its workspace, which no race accepts", won.Elsewhere)
		return
	}
	p.printf("winner: attempt %d, %s in cell %s\n", won.Attempt, p.word("accepted"), quote.Line(res.Cell))
	p.pairs("decision", res.DecisionID, "also decided", quote.Line(strings.Join(res.Also, ", ")))
	printElsewhere(p, "not accepted", won.Elsewhere)
	if res.Applied != nil {
		printApply(p, res.Applied, false)
	}
}
