package cli

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

type applyOptions struct {
	to           string
	dryRun       bool
	only         []string
	except       []string
	onConflict   string
	allowControl []string
	allowSetuid  bool
	undo         bool
}

func newApply(s *frame) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply [CELL]",
		Short: "Write the accepted changes to the source directory",
		Long: `Write the accepted changes to the source directory, all or nothing.

A file that changed differently on both sides since the last apply or import is a
conflict. All conflicts are named, nothing is written, and the exit code is 4.

Some changes are refused by name unless you allow them: control files, which make
the host run something later; setuid and setgid bits; security.* attributes; and
changes of a git repository that make it track a path which the secret rules leave
out. Owners and ACLs of the cell are dropped and named. With --only or --except a
renamed file keeps its old path if its new path is left out.

--undo takes the last apply back where nothing newer would be lost. For newer
changes, --on-conflict ours keeps them, --on-conflict theirs puts back what was
there before the apply, and --except leaves paths alone.`,
		Example: `  forkcell apply demo --dry-run
  forkcell apply demo --allow-control .envrc
  forkcell apply demo --undo --dry-run
  forkcell apply demo --undo`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if err := o.check(cmd); err != nil {
				return err
			}
			mode := Write
			if o.dryRun {
				mode = Read
			}
			return s.engine(cmd.Context(), mode, func(ctx context.Context, e Engine) error { return runApply(ctx, s, e, args[0], o) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "write to `DIR` instead of the source directory")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be written, write nothing")
	addSelection(cmd, &o.only, &o.except, "write")
	f.StringVar(&o.onConflict, "on-conflict", "fail", "`fail|ours|theirs`: ours keeps the source's side, theirs takes the cell's")
	f.StringArrayVar(&o.allowControl, "allow-control", nil, "write control files that match this `PATTERN` (repeatable)")
	f.BoolVar(&o.allowSetuid, "allow-setuid", false, "write setuid and setgid bits and security.* attributes")
	f.BoolVar(&o.undo, "undo", false, "take the last apply back")
	return s.ofDirectory(cmd)
}

func (o applyOptions) check(cmd *cobra.Command) error {
	if err := oneOf(cmd, "on-conflict", o.onConflict, "fail", "ours", "theirs"); err != nil {
		return err
	}
	if cmd.Flags().Changed("to") && o.to == "" {
		return usageError("", "%s: --to is empty", verb(cmd))
	}
	for _, flag := range []string{"to", "only", "allow-control", "allow-setuid"} {
		if err := exclusive(cmd, "undo", flag); err != nil {
			return err
		}
	}
	return nil
}

func runApply(ctx context.Context, s *frame, e publisher, name string, o applyOptions) error {
	if o.undo {
		res, err := e.Undo(ctx, api.UndoRequest{Cell: name, Except: o.except, OnConflict: o.onConflict, DryRun: o.dryRun})
		if res == nil {
			return err
		}
		// A dry run shows what would be undone beside the conflicts.
		return joinErrors(err, s.emit(res, func(p *page) { printApply(p, res, true) }))
	}
	res, err := e.Apply(ctx, api.ApplyRequest{
		Cell: name, To: o.to, DryRun: o.dryRun, Only: o.only, Except: o.except,
		OnConflict: o.onConflict, AllowControl: o.allowControl, AllowSetuid: o.allowSetuid,
	})
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) { printApply(p, res, false) })
}

func printApply(p *page, r *api.ApplyResult, undone bool) {
	n := count(int64(len(r.Written)), "change", "changes")
	switch {
	case r.DryRun && undone:
		p.printf("dry run: %s would be undone in %s\n", n, quote.Path(r.To))
	case r.DryRun:
		p.printf("dry run: %s would be written to %s\n", n, quote.Path(r.To))
	case undone:
		p.printf("undone: %s in %s\n", n, quote.Path(r.To))
	default:
		p.printf("applied: %s to %s\n", n, quote.Path(r.To))
	}
	printChanges(p, r.Written)
	if len(r.Already) > 0 {
		p.printf("already there: %d\n", len(r.Already))
	}
	printPathNotes(p, "chosen", r.Chosen)
	printPathNotes(p, "kept in the source", r.Kept)
	printPathNotes(p, "dropped", r.Dropped)
	printPathNotes(p, "set aside", r.SetAside)
	printPathNotes(p, "no longer tracked by git", r.Untracked)
	if r.DryRun {
		printPathNotes(p, "left behind", r.LeftBehind)
	}
}
