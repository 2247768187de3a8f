package cli

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newDoctor(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:     "doctor",
		Short:   "Show what this host can enforce, per control",
		Example: "  forkcell doctor --json",
		Args:    positional(),
		RunE:    s.with(Read, func(ctx context.Context, e Engine, _ []string) error { return runDoctor(ctx, s, e) }),
	}
}

func runDoctor(ctx context.Context, s *frame, e examiner) error {
	checks, err := e.Doctor(ctx)
	if err != nil {
		return err
	}
	doc := struct {
		Controls []driver.Check `json:"controls"`
	}{checks}
	return s.emit(doc, func(p *page) {
		rows := [][]string{{"CONTROL", p.paint(plain, "STATUS"), "WHY"}}
		for _, c := range checks {
			why := quote.Line(c.Reason)
			if c.Remedy != "" {
				why += "; " + quote.Line(c.Remedy)
			}
			rows = append(rows, []string{quote.Line(c.Name), p.word(quote.Line(c.Status)), why})
		}
		p.table(rows)
	})
}

func newRecover(s *frame) *cobra.Command {
	var acceptLoss bool
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Rebuild the database from signed statements and manifests",
		Long: `Rebuild the database from the signed statements and the manifests beside the layers.
The old database is kept beside the new one. What could not be rebuilt is listed.
recover is refused while a command runs in a cell.

The log and the old database are compared. What only one of them knows is kept and
listed, and the exit code is 4. gc frees none of it until --accept-loss gives it up.
A signed statement then lists what is lost. The numbers of lost statements are not
used again.`,
		Example: "  forkcell recover\n  forkcell recover --accept-loss",
		Args:    positional(),
		RunE: s.with(Rescue, func(ctx context.Context, e Engine, _ []string) error {
			return runRecover(ctx, s, e, acceptLoss)
		}),
	}
	cmd.Flags().BoolVar(&acceptLoss, "accept-loss", false, "give up what only one of log and database has")
	return cmd
}

func runRecover(ctx context.Context, s *frame, e rescuer, acceptLoss bool) error {
	res, err := e.Recover(ctx, acceptLoss)
	if res == nil {
		return err
	}
	if !s.json {
		err = withoutDetails(err)
	}
	return joinErrors(err, s.emit(res, func(p *page) {
		cells := count(int64(res.Cells), "cell", "cells")
		if res.RemovedCells > 0 {
			cells += fmt.Sprintf(" (and %d removed)", res.RemovedCells)
		}
		p.printf("recovered %s, %s, %s from %s\n", cells,
			count(int64(res.Checkpoints), "checkpoint", "checkpoints"), count(int64(res.Runs), "run", "runs"),
			count(int64(res.Statements), "statement", "statements"))
		if res.OldDatabase != "" {
			p.pairs("old database", quote.Path(res.OldDatabase))
		}
		for _, x := range res.Notes {
			p.printf("%s\n", quote.Line(x))
		}
		if len(res.Problems) > 0 {
			p.printf("could not be rebuilt: %d\n", len(res.Problems))
			for _, x := range res.Problems {
				p.printf("  %s\n", quote.Line(x))
			}
		}
		if len(res.Kept) > 0 {
			p.printf("kept, known to only one of log and database: %d\n", len(res.Kept))
			for _, x := range res.Kept {
				p.printf("  %s\n", quote.Line(x))
			}
		}
	}))
}

func newVersion(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  forkcell version --json",
		Args:    positional(),
		RunE: func(*cobra.Command, []string) error {
			s.started = true
			doc := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{s.version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return s.emit(doc, func(p *page) { p.printf("forkcell %s (%s %s/%s)\n", doc.Version, doc.Go, doc.OS, doc.Arch) })
		},
	}
}
