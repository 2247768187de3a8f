package cli

import (
	"context"
	"io"
	"path"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/storage/patch"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

type diffOptions struct {
	run        string
	checkpoint string
	sinceApply bool
	all        bool
	stat       bool
	nameStatus bool
	patch      bool
}

func newDiff(s *frame) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff [CELL] [FROM] [TO] [-- PATH...]",
		Short: "Show what changed between two states",
		Long: `Show what changed between two states.

Without FROM, it is all undecided work: what accept takes. If nothing is undecided, it
is what the last run changed, also if that run was restored. Of a live cell it is what
changed since its start. FROM alone is compared with the cell's
present state. FROM and TO are states of the cell, or other cells, or states of
other cells; another cell stands for its present state. A name that is both a
checkpoint of the cell and another cell is refused (exit 4).

The present state of a live cell is captured as a checkpoint. Where that is not
possible, stderr says what is shown instead.

Text is shown as a unified diff, binary files by digest. Changes of mode, owner,
link target, type and attributes are shown too. Entries whose only change is their
time are left out. New and deleted object files of a git repository are only counted;
--name-status and --json list them. On a terminal the output goes through $PAGER
(less -FRX).

Letters of --name-status: A added, M modified, D deleted, R100 renamed, T another
type of file.

Changes of the cell's home, and of its other directories outside the workspace, are
counted on stderr; --all lists them.`,
		Example: `  forkcell diff demo
  forkcell diff demo --run run_01J --name-status
  forkcell diff demo before-upgrade --stat
  forkcell diff try-1 try-2
  forkcell diff demo~2 demo -- src go.mod
  forkcell diff --since-apply`,
		DisableFlagsInUseLine: true,
		Args:                  diffArgs,
		ValidArgsFunction:     s.completeDiff,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if err := exclusive(cmd, "stat", "name-status", "patch"); err != nil {
				return err
			}
			req, err := o.request(cmd, s, args)
			if err != nil {
				return err
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runDiff(ctx, s, e, req, o) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.run, "run", "", "what this `RUN` changed")
	addCheckpoint(cmd, &o.checkpoint, "compare the state `CHECKPOINT` of the cell")
	f.BoolVar(&o.sinceApply, "since-apply", false, "what is not applied to the source directory yet")
	f.BoolVar(&o.all, "all", false, "also the cell's home and other areas, as absolute paths")
	f.BoolVar(&o.patch, "patch", false, "unified diff (the default)")
	f.BoolVar(&o.stat, "stat", false, "changed lines per file")
	f.BoolVar(&o.nameStatus, "name-status", false, "one letter and the path")
	return s.ofDirectory(cmd)
}

// diffArgs checks the arguments before the dashes; any number of paths may follow.
func diffArgs(cmd *cobra.Command, args []string) error {
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		for _, p := range args[dash:] {
			if p == "" {
				return usageError("usage: "+usageLine(cmd), "%s: empty argument PATH", verb(cmd))
			}
		}
		args = args[:dash]
	}
	return positional("[CELL]", "[FROM]", "[TO]")(cmd, args)
}

// request turns the command line into a request to the engine. Paths are relative
// to the working directory if that implied the cell.
func (o diffOptions) request(cmd *cobra.Command, s *frame, args []string) (api.DiffRequest, error) {
	names, paths := args, []string(nil)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		if s.implied {
			dash++
		}
		names, paths = args[:dash], args[dash:]
	}
	for i, p := range paths {
		if s.implied && !path.IsAbs(p) {
			paths[i] = path.Join(s.below, p)
		}
	}
	name, state, err := stateArgs(cmd, names[:1], o.checkpoint)
	req := api.DiffRequest{
		Cell: name, State: state, From: argument(names, 1), To: argument(names, 2),
		Run: o.run, SinceApply: o.sinceApply, Paths: paths, All: o.all,
	}
	if err == nil && state != "" && req.To != "" {
		err = usageError("give two of them", "%s: %s, %s and %s are three states", verb(cmd),
			quote.Arg(state), quote.Arg(req.From), quote.Arg(req.To))
	}
	if err == nil && o.run != "" && (state != "" || req.From != "") {
		err = usageError("give one of them", "%s: FROM and --run exclude each other", verb(cmd))
	}
	return req, err
}

func runDiff(ctx context.Context, s *frame, e differ, req api.DiffRequest, o diffOptions) error {
	req.Stream = true
	res, err := e.Diff(ctx, req)
	if err != nil {
		return err
	}
	if s.json {
		return streamDiff(s.out, res)
	}
	for _, n := range res.Notes {
		s.note(quote.Line(n))
	}
	err = s.pageOutput(func(w io.Writer) error { return s.showDiff(w, res, o) })
	if err == nil && len(res.Elsewhere) > 0 {
		s.note(quote.Line(api.ElsewhereText(res.Elsewhere) + "; diff --all lists them"))
	}
	return err
}

func (s *frame) showDiff(w io.Writer, res *engine.DiffResult, o diffOptions) error {
	show := patch.Options{Color: s.colours(s.streams.Out)}
	switch {
	case o.nameStatus:
		show.Mode = patch.NameStatus
	case o.stat:
		show.Mode = patch.Stat
	}
	if res.Text != nil && !o.nameStatus {
		text, err := res.Text(o.stat)
		if err != nil {
			return err
		}
		defer text.Close()
		return patch.Relay(w, text, show)
	}
	if err := patch.Write(w, res.Each, res.Open, show); err != nil || len(res.SetAside) == 0 {
		return err
	}
	if err := patch.WriteHeading(w, engine.AsideHeading); err != nil {
		return err
	}
	return patch.Write(w, res.EachAside, res.Open, show)
}

// streamDiff writes the document that document.Write would, change by change.
func streamDiff(w io.Writer, res *engine.DiffResult) error {
	head := *res
	head.Changes = []api.ChangeJSON{}
	return patch.WriteDocument(w, &head, res.Each, func(ch tree.Change) any { return home.NewChangeJSON(ch) })
}
