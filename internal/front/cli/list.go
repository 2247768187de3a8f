package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newList(s *frame) *cobra.Command {
	var labels []string
	var filter api.CellFilter
	removed := false
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the cells with their sizes",
		Example: `  forkcell ls --json
  forkcell ls --label team=web --state live`,
		Args: positional(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.started = true
			var err error
			if filter.Labels, err = parseLabels(cmd, labels); err != nil {
				return err
			}
			if removed {
				if filter.State != "" {
					return usageError("give one of them", "ls: --removed and --state exclude each other")
				}
				filter.State = api.StateRemoved
			}
			if cmd.Flags().Changed("state") {
				if err := oneOf(cmd, "state", filter.State, cellStates()...); err != nil {
					return err
				}
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runList(ctx, s, e, filter) })
		},
	}
	cmd.Flags().StringArrayVar(&labels, "label", nil, "only cells with the label `KEY=VALUE` (repeatable: with all of them)")
	cmd.Flags().BoolVar(&removed, "removed", false, "the removed cells that rm --undo brings back")
	cmd.Flags().StringVar(&filter.State, "state", "", "only cells in this state: `idle|running|live|paused|removed`")
	return cmd
}

func cellStates() []string {
	return []string{api.StateIdle, api.StateRunning, api.StateLive, api.StatePaused, api.StateRemoved}
}

func runList(ctx context.Context, s *frame, e lister, filter api.CellFilter) error {
	cells, err := e.ListMatching(ctx, filter)
	if err != nil {
		return err
	}
	doc := struct {
		Cells []api.CellInfo `json:"cells"`
		Total int64          `json:"total_bytes,omitempty"` // on disk, of all cells
	}{Cells: cells}
	for _, c := range cells {
		doc.Total += c.OwnBytes
	}
	return s.emit(doc, func(p *page) {
		switch {
		case len(cells) > 0:
			p.table(cellRows(p, cells, s.now()))
		case len(filter.Labels) == 0 && filter.State == "":
			p.printf("no cells; make one: forkcell init NAME --from DIR\n")
		default:
			p.printf("no such cells\n")
		}
		if len(cells) > 1 {
			p.printf("%s on disk in all; forkcell df --all shows what is shared\n", size(doc.Total))
		}
	})
}

// cellRows returns the table of ls. It has a column of labels only if there are some.
func cellRows(p *page, cells []api.CellInfo, now time.Time) [][]string {
	labelled := slices.ContainsFunc(cells, func(c api.CellInfo) bool { return len(c.Labels) > 0 })
	rows := [][]string{{"NAME", "BACKEND", p.paint(plain, "STATE"), "FILES", "SIZE", "OWN", p.paint(plain, "LAST RUN"), "AGE", "SOURCE"}}
	if labelled {
		rows[0] = append(rows[0], "LABELS")
	}
	for _, c := range cells {
		row := []string{
			quote.Line(c.Name), quote.Line(c.Backend), p.word(quote.Line(c.State)), number(c.Files), size(c.Bytes), size(c.OwnBytes),
			p.paint(meaning(c.LastOutcome), lastRun(c)), age(now, c.CreatedAt), quote.Path(api.SourceText(c.Source)),
		}
		if labelled {
			row = append(row, labelText(c.Labels))
		}
		rows = append(rows, row)
	}
	return rows
}

func lastRun(c api.CellInfo) string {
	if c.LastOutcome == "" {
		return "-"
	}
	return quote.Line(c.LastOutcome + ", " + c.LastDecision)
}

func newStatus(s *frame) *cobra.Command {
	return s.ofDirectory(&cobra.Command{
		Use:               "status [CELL]",
		Short:             "Show one cell",
		Example:           "  forkcell status demo",
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE:              s.with(Read, func(ctx context.Context, e Engine, args []string) error { return runStatus(ctx, s, e, args[0]) }),
	})
}

func runStatus(ctx context.Context, s *frame, e statusReader, name string) error {
	res, err := e.Status(ctx, name)
	if err != nil {
		return err
	}
	return s.emit(res, func(p *page) { printStatus(p, res, age(s.now(), res.CreatedAt)) })
}

func printStatus(p *page, r *api.StatusResult, old string) {
	last := ""
	if r.LastRun != "" {
		last = r.LastRun + " " + p.word(quote.Line(r.LastOutcome)) + ", " + p.word(quote.Line(r.LastDecision))
	}
	p.pairs(append([]string{
		"cell", quote.Line(r.Name) + note(r.CellID),
		"state", p.word(quote.Line(r.State)) + note(quote.Line(r.Holder)),
		"live", liveText(r.Live),
		"warm", warmText(r.Live),
		"source", quote.Path(api.SourceText(r.Source)),
		"workspace", quote.Path(r.MountAt),
		"backend", quote.Line(r.Backend) + note(quote.Line(r.BackendReason)),
		"runtime", quote.Line(r.Runtime) + note(liveRuntime(r)),
		"head", r.Head,
		"root", r.Root,
		"applied", r.Applied,
		"forked from", quote.Line(r.ForkedFrom),
		"files", number(r.Files) + ", " + size(r.Bytes) + ", " + size(r.OwnBytes) + " used on disk by this cell alone, " + count(int64(r.Layers), "layer", "layers"),
		"history", count(int64(r.Checkpoints), "checkpoint", "checkpoints") + ", " + count(int64(r.Runs), "run", "runs"),
		"last run", last,
		"last receipt", r.LastReceipt,
		"pending", quote.Line(strings.Join(slices.Concat(r.PendingRuns, r.PendingStates), " ")),
		"read-only", quote.Line(strings.Join(r.ReadOnly, " ")),
		"cache", cacheSetting(r.Cache),
		"left out", leftOutCount(r.LeftOut),
		"created", stamp(r.CreatedAt) + note(old),
	}, settingPairs(r.CellInfo)...)...)
	printSessions(p, r.Live)
}

// liveRuntime names the runtime of a live cell that is another one than the cell's.
func liveRuntime(r *api.StatusResult) string {
	if r.Live == nil || r.Live.Runtime == "" || r.Live.Runtime == r.Runtime {
		return ""
	}
	return quote.Line(r.Live.Runtime) + " for this run"
}

// cacheSetting is empty for a cell without caches, as most are.
func cacheSetting(setting string) string {
	if setting == api.CacheOff {
		return ""
	}
	return quote.Line(setting)
}

func leftOutCount(list []api.LeftOut) string {
	if len(list) == 0 {
		return ""
	}
	return strconv.Itoa(len(list)) + " by the secret rules"
}
