package cli

import (
	"context"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/document"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newDecisions(s *frame) *cobra.Command {
	return group("decisions", "List and show the decisions about runs", newDecisionsList(s), newDecisionsShow(s))
}

type decisionsOptions struct {
	cell string
	run  string
}

func newDecisionsList(s *frame) *cobra.Command {
	var o decisionsOptions
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the decisions, newest last",
		Long:    "List the decisions, newest last. With --json: one object per line.",
		Example: "  forkcell decisions list --cell demo",
		Args:    positional(),
		RunE: s.with(Read, func(ctx context.Context, e Engine, _ []string) error {
			return runDecisionsList(ctx, s, e, o)
		}),
	}
	cmd.Flags().StringVar(&o.cell, "cell", "", "only those about this `CELL`")
	cmd.Flags().StringVar(&o.run, "run", "", "only those about this `RUN`")
	return cmd
}

func runDecisionsList(ctx context.Context, s *frame, e decisionReader, o decisionsOptions) error {
	list, err := e.Decisions(ctx, o.cell, o.run)
	if err != nil {
		return err
	}
	if s.json {
		for _, d := range list {
			if err := document.Write(s.out, d); err != nil {
				return err
			}
		}
		return nil
	}
	return s.emit(nil, func(p *page) {
		rows := [][]string{{"DECISION", "CELL", "RUN", p.paint(plain, "RESULT"), "BY", "TIME", "REASON"}}
		for _, d := range list {
			rows = append(rows, []string{
				d.DecisionID, quote.Line(d.Cell), dash(d.RunID), p.word(quote.Line(d.Result)), decidedBy(d), stamp(d.CreatedAt),
				shorten(quote.Line(d.Reason), 60),
			})
		}
		p.table(rows)
	})
}

func decidedBy(d api.DecisionInfo) string {
	by := quote.Line(d.Actor)
	if d.Automatic {
		by += " (automatic)"
	}
	if d.Forced {
		by += " (forced)"
	}
	return by
}

func newDecisionsShow(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:     "show DECISION",
		Short:   "Show one decision",
		Example: "  forkcell decisions show dec_01J",
		Args:    positional("DECISION"),
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			return runDecisionsShow(ctx, s, e, args[0])
		}),
	}
}

func runDecisionsShow(ctx context.Context, s *frame, e decisionReader, id string) error {
	d, err := e.Decision(ctx, id)
	if err != nil {
		return err
	}
	return s.emit(d, func(p *page) {
		p.pairs(
			"decision", d.DecisionID,
			"result", p.word(quote.Line(d.Result)),
			"cell", quote.Line(d.Cell),
			"run", d.RunID,
			"receipt", d.ReceiptID,
			"by", decidedBy(*d),
			"reason", quote.Line(d.Reason),
			"head before", d.HeadBefore,
			"head after", d.HeadAfter,
			"time", stamp(d.CreatedAt),
		)
		if d.Race != nil {
			printRaceInfo(p, d.Race)
		}
	})
}

// printRaceInfo prints the race that a decision has decided.
func printRaceInfo(p *page, r *api.RaceInfo) {
	judge := ""
	if len(r.Judge) > 0 {
		judge = quote.Argv(r.Judge)
	}
	p.pairs("best", quote.Line(r.Best), "judge", judge)
	rows := [][]string{{"ATTEMPT", p.paint(plain, "OUTCOME"), "JUDGE", "SCORE", "TIME", "CELL", "RECEIPT"}}
	for _, a := range r.Attempts {
		shown := api.RaceAttempt{Outcome: a.Outcome, ExitCode: a.ExitCode, Score: a.Score, JudgeExitCode: a.JudgeExitCode, DurationUS: a.DurationUS}
		number := strconv.Itoa(a.Attempt)
		if a.Attempt == r.Winner {
			number += " (winner)"
		}
		rows = append(rows, []string{
			number, p.paint(meaning(a.Outcome), raceOutcome(shown)), judgeExit(shown), scoreText(shown), timeTaken(shown), quote.Line(a.Cell), dash(a.ReceiptID),
		})
	}
	p.table(rows)
}
