package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/patch"
)

type diffOptions struct {
	run        string
	all        bool
	stat       bool
	nameStatus bool
	patch      bool
}

func newDiff(s *session) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff [CELL] [FROM] [TO]",
		Short: "Show what changed between two states",
		Long: `Show what changed between two states; by default what the last run changed, also
when it was restored. FROM alone is compared with the cell's head. Text is shown
as a unified diff, binary files by digest; also changes of mode, owner, link
target, type and attributes. Entries whose only change is their time are left out.

Letters of --name-status: A added, M modified, D deleted, R100 renamed, T another
type of file.`,
		Example: `  forkcell diff demo
  forkcell diff demo --run run_01J --name-status
  forkcell diff demo before-upgrade --stat`,
		Args:              positional("[CELL]", "[FROM]", "[TO]"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if len(args) > 1 && o.run != "" {
				return usageError("give one of them", "%s: FROM and --run exclude each other", verb(cmd))
			}
			if err := exclusive(cmd, "stat", "name-status", "patch"); err != nil {
				return err
			}
			req := cell.DiffRequest{Cell: args[0], From: argument(args, 1), To: argument(args, 2), Run: o.run, All: o.all}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runDiff(ctx, s, e, req, o) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.run, "run", "", "what this `RUN` changed")
	f.BoolVar(&o.all, "all", false, "also the cell's home, as absolute paths")
	f.BoolVar(&o.patch, "patch", false, "unified diff (the default)")
	f.BoolVar(&o.stat, "stat", false, "changed lines per file")
	f.BoolVar(&o.nameStatus, "name-status", false, "one letter and the path")
	return s.ofDirectory(cmd)
}

func runDiff(ctx context.Context, s *session, e differ, req cell.DiffRequest, o diffOptions) error {
	res, err := e.Diff(ctx, req)
	if err != nil {
		return err
	}
	if s.json {
		return writeJSON(s.out, res)
	}
	show := patch.Options{Color: s.colours(s.streams.Out)}
	switch {
	case o.nameStatus:
		show.Mode = patch.NameStatus
	case o.stat:
		show.Mode = patch.Stat
	}
	return patch.Write(s.out, res.Raw, res.Open, show)
}
