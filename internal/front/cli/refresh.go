package cli

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

type refreshOptions struct {
	onConflict string
}

func newRefresh(s *frame) *cobra.Command {
	var o refreshOptions
	cmd := &cobra.Command{
		Use:   "refresh [CELL]",
		Short: "Bring changes of the source directory into the cell",
		Long: `Bring changes of the source directory into the cell, as a new checkpoint.

A file that changed differently on both sides since the last apply or import is a
conflict. All conflicts are named, nothing changes, and the exit code is 4.`,
		Example:           "  forkcell refresh demo",
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if err := oneOf(cmd, "on-conflict", o.onConflict, "fail", "ours", "theirs"); err != nil {
				return err
			}
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error { return runRefresh(ctx, s, e, args[0], o) })
		},
	}
	cmd.Flags().StringVar(&o.onConflict, "on-conflict", "fail", "`fail|ours|theirs`: ours keeps the cell's side, theirs takes the source's")
	return s.ofDirectory(cmd)
}

func runRefresh(ctx context.Context, s *frame, e maker, name string, o refreshOptions) error {
	done := s.showProgress()
	res, err := e.Refresh(ctx, api.RefreshRequest{Cell: name, OnConflict: o.onConflict})
	done()
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		p.printf("cell %s: %s from the source, now at %s\n", quote.Line(res.Cell),
			count(int64(len(res.Changed)), "change", "changes"), res.CheckpointID)
		printPathNotes(p, "changed", res.Changed)
		printPathNotes(p, "conflicts", res.Conflicts)
		printPathNotes(p, "chosen", res.Chosen)
		printLeftOut(p, res.LeftOut)
	})
}
