package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newProcesses(s *frame) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ps [CELL]",
		Short: "List the processes of a live cell",
		Long: `List the processes of a live cell, with their process ids inside the cell. The list
comes from the host's kernel, not from a program in the cell.`,
		Example:           "  forkcell ps demo",
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			return runProcesses(ctx, s, e, args[0])
		}),
	}
	return s.ofDirectory(cmd)
}

func runProcesses(ctx context.Context, s *frame, e supervisor, name string) error {
	list, err := e.Processes(ctx, name)
	if err != nil {
		return err
	}
	if list == nil {
		list = []api.ProcessInfo{}
	}
	doc := struct {
		Cell      string            `json:"cell"`
		Processes []api.ProcessInfo `json:"processes"`
	}{name, list}
	return s.emit(doc, func(p *page) {
		rows := [][]string{{"PID", "PPID", "UID", "STATE", "CPU", "RSS", "AGE", "EXEC", "COMMAND"}}
		for _, x := range list {
			rows = append(rows, []string{
				strconv.Itoa(x.PID), strconv.Itoa(x.PPID), strconv.Itoa(x.UID), quote.Line(x.State), micros(x.CPUUS), size(x.RSS),
				age(s.now(), x.StartedAt), dash(x.ExecID), shorten(quote.Argv(x.Args), 80),
			})
		}
		p.table(rows)
	})
}

// micros formats a time for people.
func micros(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", us)
	case d < time.Second:
		return fmt.Sprintf("%.1fms", float64(us)/1e3)
	default:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
}

// liveText returns one line of status about a live cell.
func liveText(l *api.LiveInfo) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("run %s, process %d, since %s", l.RunID, l.PID, stamp(l.Since))
}

// warmText returns one line of status about a template or a branch.
func warmText(l *api.LiveInfo) string {
	switch {
	case l == nil:
		return ""
	case l.Template:
		return "a template, in which nothing runs" + note(quote.Line(strings.Join(l.Degraded, "; ")))
	case l.Branch != nil:
		return "a branch of " + quote.Line(l.Branch.Source) + " at " + l.Branch.CheckpointID
	}
	return ""
}

// printSessions lists the commands that were executed in a live cell.
func printSessions(p *page, l *api.LiveInfo) {
	if l == nil || len(l.Sessions) == 0 {
		return
	}
	rows := [][]string{{"EXEC", "STATE", "CLIENTS", "STARTED", "COMMAND"}}
	for _, x := range l.Sessions {
		state := "ended"
		if x.Running {
			state = "running"
		}
		rows = append(rows, []string{x.ExecID, state, strconv.Itoa(x.Clients), stamp(x.StartedAt), shorten(quote.Argv(x.Args), 60)})
	}
	p.table(rows)
}
