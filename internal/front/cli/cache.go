package cli

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newCache(s *frame) *cobra.Command {
	return group("cache", "Share build and package caches between cells", newCachePromote(s), newCacheList(s), newCacheRemove(s))
}

func newCachePromote(s *frame) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "promote CELL",
		Short: "Add the caches of a cell's accepted state to the shared ones",
		Long: `Add the caches of a cell's accepted state to the shared caches. Cells that run with
--cache standard start from the shared caches. Nothing else ever changes them.

Cells of the same source directory share everything. All cells of the home share only
what tools compare with a lock file whenever they use it: downloaded Go modules, and
contents of npm packages. Only regular files are added, without owners and special
rights. A file in the home's cache is never replaced.`,
		Example: `  forkcell run --cache standard --accept-on-success demo -- go build ./...
  forkcell cache promote demo --dry-run
  forkcell cache promote demo`,
		Args:              positional("CELL"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			mode := Write
			if dryRun {
				mode = Read
			}
			return s.engine(cmd.Context(), mode, func(ctx context.Context, e Engine) error {
				return runPromote(ctx, s, e, args[0], dryRun)
			})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be added, add nothing")
	return cmd
}

func runPromote(ctx context.Context, s *frame, e cacheKeeper, name string, dryRun bool) error {
	done := s.showProgress()
	res, err := e.Promote(ctx, api.PromoteRequest{Cell: name, DryRun: dryRun})
	done()
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) { printPromoted(p, res) })
}

func printPromoted(p *page, r *api.PromoteResult) {
	did := "added"
	if r.DryRun {
		did = "dry run: would add"
	}
	for _, c := range r.Caches {
		p.printf("%s to %s: %s, %s\n", did, quote.Line(c.Cache), count(c.Files, "file", "files"), size(c.Bytes))
		for _, tool := range slices.Sorted(maps.Keys(c.Tools)) {
			p.printf("  %s: %s, %s\n", quote.Line(tool), count(c.Tools[tool].Files, "file", "files"), size(c.Tools[tool].Bytes))
		}
		if c.Kept > 0 {
			p.printf("  not replaced: %s that it has with other contents\n", count(c.Kept, "file", "files"))
		}
	}
	for _, why := range slices.Sorted(maps.Keys(r.Skipped)) {
		p.printf("not shared: %s, %s\n", count(r.Skipped[why], "entry", "entries"), quote.Line(why))
	}
}

func newCacheList(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the shared caches",
		Long:    "List the shared caches. log, verify and df accept their names too.",
		Example: "  forkcell cache ls\n  forkcell verify cache:home",
		Args:    positional(),
		RunE: s.with(Read, func(ctx context.Context, e Engine, _ []string) error {
			return runCacheList(ctx, s, e)
		}),
	}
}

func runCacheList(ctx context.Context, s *frame, e cacheKeeper) error {
	list, err := e.Caches(ctx)
	if err != nil {
		return err
	}
	doc := struct {
		Caches []api.SharedCache `json:"caches"`
	}{list}
	return s.emit(doc, func(p *page) {
		if len(list) == 0 {
			p.printf("no shared caches; forkcell cache promote CELL makes one\n")
			return
		}
		rows := [][]string{{"NAME", "FILES", "SIZE", "OWN", "LAYERS", "FROM", "AGE"}}
		for _, c := range list {
			rows = append(rows, []string{
				quote.Line(c.Name), number(c.Files), size(c.Bytes), size(c.OwnBytes), strconv.Itoa(c.Layers), quote.Line(c.From), age(s.now(), c.UpdatedAt),
			})
		}
		p.table(rows)
	})
}

func newCacheRemove(s *frame) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "rm [NAME]...",
		Short: "Remove shared caches",
		Long: `Remove shared caches, by the names that cache ls shows. New states start without
them. Cells that use one keep what they need of it. gc frees the rest.`,
		Example: `  forkcell cache rm cache:home
  forkcell cache rm --all`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: s.completeCaches,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if all == (len(args) > 0) {
				return usageError("usage: "+usageLine(cmd), "%s: give names of shared caches, or --all", verb(cmd))
			}
			return s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) error {
				return runCacheRemove(ctx, s, e, args, all)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove all of them")
	return cmd
}

func runCacheRemove(ctx context.Context, s *frame, e cacheKeeper, names []string, all bool) error {
	removed, err := e.RemoveCaches(ctx, names, all)
	if err != nil {
		return err
	}
	doc := struct {
		Removed []string `json:"removed"`
	}{removed}
	return s.emit(doc, func(p *page) {
		if len(removed) == 0 {
			p.printf("there are no shared caches\n")
			return
		}
		p.printf("removed: %s; gc frees what no cell needs\n", quote.Line(strings.Join(removed, ", ")))
	})
}
