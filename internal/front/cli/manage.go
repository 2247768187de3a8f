package cli

import (
	"context"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newRename(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:               "rename CELL NEW",
		Short:             "Give a cell another name",
		Example:           "  forkcell rename try-3 winner",
		Args:              positional("CELL", "NEW"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			return runRename(ctx, s, e, args[0], args[1])
		}),
	}
}

func runRename(ctx context.Context, s *frame, e keeper, from, to string) error {
	if err := e.Rename(ctx, from, to); err != nil {
		return err
	}
	doc := struct {
		From string `json:"from"`
		Cell string `json:"cell"`
	}{from, to}
	return s.emit(doc, func(p *page) { p.printf("cell %s is now %s\n", quote.Line(from), quote.Line(to)) })
}

func newRemove(s *frame) *cobra.Command {
	var req api.RemoveRequest
	undo := false
	cmd := &cobra.Command{
		Use:   "rm CELL...",
		Short: "Remove cells; their receipts stay",
		Long: `Remove cells; their receipts stay. If one of them does not exist or is busy, none is
removed. Nor is a cell with work that is undecided, or accepted and not applied: diff shows
it, apply writes it, and --force removes the cell all the same.

The states of a removed cell are kept for 7 days: ls --removed lists it, and rm --undo
brings it back as it was, without its processes. With --now they are not kept, and the next
gc frees them: that is the way out of a full disk.`,
		Example: `  forkcell rm demo
  forkcell rm try-1 try-2 try-3
  forkcell rm --undo demo
  forkcell rm --force --now big && forkcell gc`,
		Args:              oneOrMore("CELL"),
		ValidArgsFunction: s.completeCells,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			if undo {
				if req.Force || req.Now {
					return usageError("give one of them", "rm: --undo excludes --force and --now")
				}
				return runUndelete(ctx, s, e, args)
			}
			req.Cells = args
			return runRemove(ctx, s, e, req)
		}),
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "bring back removed cells")
	cmd.Flags().BoolVar(&req.Now, "now", false, "do not keep the states: the next gc frees them, and nothing brings the cells back")
	cmd.Flags().BoolVar(&req.Force, "force", false, "also remove a cell that has undecided or unapplied work, is live, or waits for a missing directory")
	return cmd
}

// runUndelete brings back removed cells, one after the other.
func runUndelete(ctx context.Context, s *frame, e keeper, names []string) error {
	cells := []api.CellInfo{}
	for _, name := range names {
		info, err := e.Undelete(ctx, name)
		if err != nil {
			return err
		}
		cells = append(cells, *info)
	}
	doc := struct {
		Cells []api.CellInfo `json:"cells"`
	}{cells}
	return s.emit(doc, func(p *page) {
		for _, c := range cells {
			p.printf("cell %s is back at %s\n", quote.Line(c.Name), quote.Line(c.Head))
		}
	})
}

func runRemove(ctx context.Context, s *frame, e keeper, req api.RemoveRequest) error {
	names := req.Cells
	if err := e.RemoveCells(ctx, req); err != nil {
		return err
	}
	doc := struct {
		Cell    string   `json:"cell"` // the first
		Cells   []string `json:"cells"`
		Removed bool     `json:"removed"`
	}{names[0], names, true}
	return s.emit(doc, func(p *page) {
		for _, name := range names {
			if req.Now {
				p.printf("cell %s removed; gc frees its space\n", quote.Line(name))
				continue
			}
			p.printf("cell %s removed; %s, then gc frees its space\n", quote.Line(name), broughtBack(name))
		}
	})
}

// broughtBack says how a cell that was removed comes back.
func broughtBack(name string) string {
	return "forkcell rm --undo " + quote.Line(name) + " brings it back within 7 days"
}

type gcOptions struct {
	dryRun    bool
	keepLast  int
	olderThan duration
	outputAge duration
	removed   bool
}

func newGC(s *frame) *cobra.Command {
	o := gcOptions{olderThan: duration(7 * 24 * time.Hour), outputAge: duration(30 * 24 * time.Hour)}
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Free states that nothing needs",
		Long: `Free states that nothing needs. A checkpoint that a head, a name, a fork or an
undecided run needs is never freed. The work of restored runs, what a partial accept left
out, and removed cells, are kept for 7 days.

What runs have printed is kept for 30 days, that of removed cells as long as the work
of restored runs. The receipts keep the length and the hash of what is freed.

The home has copies of directories that cells of daemons on other machines were made
from. What nothing needs of them is freed too; with --url, of that daemon's cells.`,
		Example: `  forkcell gc --dry-run
  forkcell gc --older-than 0`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			if o.keepLast < 0 {
				return usageError("", "%s: --keep-last must not be negative", verb(cmd))
			}
			mode := Write
			if o.dryRun {
				mode = Read
			}
			return s.engine(cmd.Context(), mode, func(ctx context.Context, e Engine) error { return runGC(ctx, s, e, o) })
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be freed, free nothing")
	f.IntVar(&o.keepLast, "keep-last", 0, "keep the last `N` checkpoints of every cell")
	f.Var(&o.olderThan, "older-than", "free the work of restored runs, what was left out, and cells that were removed, longer ago than this")
	f.BoolVar(&o.removed, "removed", false, "free removed cells at once")
	f.Var(&o.outputAge, "output-older-than", "free the stored output of runs that ended longer ago than this")
	return cmd
}

func runGC(ctx context.Context, s *frame, e keeper, o gcOptions) error {
	if o.outputAge == 0 {
		o.outputAge = -1 // all of it
	}
	res, err := e.GC(ctx, api.GCRequest{DryRun: o.dryRun, KeepLast: o.keepLast, OlderThan: time.Duration(o.olderThan), OutputOlderThan: time.Duration(o.outputAge), Removed: o.removed})
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		verb := "freed"
		if res.DryRun {
			verb = "dry run: would free"
		}
		p.printf("%s %s: %s, %s, %s\n", verb, size(res.Bytes), count(int64(len(res.Checkpoints)), "checkpoint", "checkpoints"),
			count(int64(len(res.Layers)), "layer", "layers"), count(int64(res.Objects), "object", "objects"))
		for _, id := range res.Checkpoints {
			p.printf("  %s\n", quote.Line(id))
		}
		if res.Outputs > 0 {
			p.printf("%s the output of %s\n", verb, count(int64(res.Outputs), "run", "runs"))
		}
		if res.MirrorBytes > 0 {
			p.printf("%s %s of copies for cells of daemons elsewhere\n", verb, size(res.MirrorBytes))
		}
	})
}
