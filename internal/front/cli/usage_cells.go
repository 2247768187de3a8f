package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newUsage(s *frame) *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show what the cells use now, and in all",
		Long: `Show what the cells use now, and in all: live cells and runs under way, the sums of
their limits of memory and processors, the processor time of live cells since their
start, disk space, and the numbers of checkpoints and finished runs.`,
		Example: `  forkcell usage
  forkcell usage --prefix web- --json`,
		Args: positional(),
		RunE: s.with(Read, func(ctx context.Context, e Engine, _ []string) error {
			return runUsage(ctx, s, e, prefix)
		}),
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only cells whose name begins with `TEXT`")
	return cmd
}

func runUsage(ctx context.Context, s *frame, e diskReader, prefix string) error {
	res, err := e.Usage(ctx, prefix)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) {
		rows := [][]string{{"CELL", p.paint(plain, "STATE"), "MEMORY LIMIT", "CPU LIMIT", "CPU", "DISK", "CHECKPOINTS", "RUNS"}}
		for _, c := range res.Cells {
			rows = append(rows, append([]string{quote.Line(c.Cell), p.word(quote.Line(c.State))}, usageColumns(c.Consumption)...))
		}
		t := res.Total
		state := fmt.Sprintf("%d live, %d running", t.Live, t.Runs)
		p.table(append(rows, append([]string{"total", p.paint(plain, state)}, usageColumns(t)...)))
	})
}

func usageColumns(u api.Consumption) []string {
	memory, cpus, used := "-", "-", "-"
	if u.Memory > 0 {
		memory = size(u.Memory)
	}
	if u.CPUs > 0 {
		cpus = strconv.FormatFloat(float64(u.CPUs)/1000, 'f', -1, 64)
	}
	if u.CPUUS > 0 {
		used = micros(u.CPUUS)
	}
	return []string{memory, cpus, used, size(u.OwnBytes), strconv.Itoa(u.Checkpoints), strconv.Itoa(u.Finished)}
}
