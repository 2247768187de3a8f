package cli

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

// diskReader reports the disk space of cells.
type diskReader interface {
	Usage(ctx context.Context, prefix string) (*api.UsageResult, error)
	Disk(ctx context.Context, cell string) (*api.DiskResult, error)
}

func newDisk(s *frame) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "df [CELL]",
		Short: "Show the disk space of cells",
		Long: `Show the disk space that the states of a cell take. Without a name it is the cell of
the working directory. With --all, or if the directory has no cell, it is all cells
and the home.

Figures are allocated blocks: a hole takes nothing, a small file at least one block.
OWN is space that only this cell needs. SHARED is space that other cells need too. BY
AREA is the sum of both, without manifests. The total of the home includes the states
of removed cells until gc frees them.`,
		Example: `  forkcell df
  forkcell df --all
  forkcell df demo --json`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			name := argument(args, 0)
			if name != "" && all {
				return usageError("give one of them", "df: a cell and --all exclude each other")
			}
			if name == "" && !all {
				dir, err := os.Getwd()
				if err != nil {
					return usageError("give the name of a cell, or --all", "df: the working directory cannot be found: %v", err)
				}
				if name, _, err = e.CellAt(ctx, dir); err != nil {
					return withHint(err, "give the name of one of them, or --all")
				}
			}
			return runDisk(ctx, s, e, name)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "of all cells and of the home")
	return cmd
}

func runDisk(ctx context.Context, s *frame, e diskReader, name string) error {
	res, err := e.Disk(ctx, name)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		rows := [][]string{{"CELL", "OWN", "SHARED", "TOTAL", "BY AREA"}}
		for _, c := range res.Cells {
			cell := quote.Line(c.Cell)
			if c.Removed {
				cell += " (removed)"
			}
			rows = append(rows, []string{cell, size(c.OwnBytes), size(c.SharedBytes), size(c.TotalBytes), bySize(c.Areas)})
		}
		p.table(rows)
		if name == "" {
			p.printf("home: %s in all: %s\n", size(res.TotalBytes), bySize(res.Home))
		}
	})
}

// bySize lists names with their sizes, without those of size 0.
func bySize(m map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] > 0 {
			parts = append(parts, quote.Line(name)+" "+size(m[name]))
		}
	}
	return strings.Join(parts, ", ")
}
