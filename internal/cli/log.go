package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/quote"
)

func newLog(s *session) *cobra.Command {
	return &cobra.Command{
		Use:               "log CELL",
		Short:             "Show a cell's checkpoints, runs and decisions, oldest first",
		Example:           "  forkcell log demo",
		Args:              positional("CELL"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			return runLog(ctx, s, e, args[0])
		}),
	}
}

func runLog(ctx context.Context, s *session, e historian, name string) error {
	entries, err := e.Log(ctx, name)
	if err != nil {
		return err
	}
	doc := struct {
		Log []cell.LogEntry `json:"log"`
	}{entries}
	return s.emit(doc, func(p *page) {
		rows := [][]string{{"TIME", "WHAT", "ID", p.paint(plain, "RESULT"), "DETAILS"}}
		for _, l := range entries {
			word := l.Decision
			if l.Outcome != "" {
				word = l.Outcome
			}
			id := l.ID
			if l.Kind == "run" {
				id = l.RunID // what --run takes; the receipt is in receipt list
			}
			rows = append(rows, []string{
				stamp(l.CreatedAt), quote.Line(l.Kind), id, p.paint(meaning(word), dash(logResult(l))), logDetails(l),
			})
		}
		p.table(rows)
	})
}

func logResult(l cell.LogEntry) string {
	text := l.Outcome
	if l.Outcome == "failed" && l.ExitCode != nil {
		text = fmt.Sprintf("failed (exit %d)", *l.ExitCode)
	}
	if l.Decision != "" {
		if text != "" {
			text += ", "
		}
		text += l.Decision
	}
	return quote.Line(text)
}

func logDetails(l cell.LogEntry) string {
	text := ""
	add := func(s string) {
		if text != "" {
			text += "  "
		}
		text += s
	}
	if len(l.Command) > 0 {
		add(cut(quote.Argv(l.Command), 60))
	}
	if l.Kind == "decision" && l.RunID != "" {
		add(l.RunID)
	}
	if l.Name != "" {
		add(quote.Line(l.Name))
	}
	if l.CheckpointID != "" && l.CheckpointID != l.ID {
		add(l.CheckpointID)
	}
	if l.ChangedFiles > 0 {
		add(fmt.Sprintf("%d changed", l.ChangedFiles))
	}
	if l.Reason != "" {
		add(cut(quote.Line(l.Reason), 60))
	}
	return text
}

func newLogs(s *session) *cobra.Command {
	var run string
	cmd := &cobra.Command{
		Use:   "logs CELL",
		Short: "Print the stored output of a run",
		Long: `Print the stored output of a run: its stdout to stdout, its stderr to stderr.
Values of secret-looking environment variables are redacted in it.`,
		Example:           "  forkcell logs demo --run run_01J",
		Args:              positional("CELL"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			return runLogs(ctx, s, e, args[0], run)
		}),
	}
	cmd.Flags().StringVar(&run, "run", "", "the `RUN` (default: the last)")
	return cmd
}

// logsDocument is the stored output as --json shows it. Output that is no UTF-8
// has its exact bytes in the field with the suffix.
type logsDocument struct {
	Cell         string `json:"cell"`
	Stdout       string `json:"stdout"`
	StdoutBase64 string `json:"stdout_base64,omitempty"`
	Stderr       string `json:"stderr"`
	StderrBase64 string `json:"stderr_base64,omitempty"`
}

func runLogs(ctx context.Context, s *session, e historian, name, run string) error {
	stdout, stderr, err := e.Logs(ctx, name, run)
	if err != nil {
		return err
	}
	defer stdout.Close()
	defer stderr.Close()
	if s.json {
		doc := logsDocument{Cell: name}
		if doc.Stdout, doc.StdoutBase64, err = text(stdout); err != nil {
			return err
		}
		if doc.Stderr, doc.StderrBase64, err = text(stderr); err != nil {
			return err
		}
		return writeJSON(s.out, doc)
	}
	if _, err := io.Copy(s.out, stdout); err != nil {
		return fmt.Errorf("copy the stored output: %w", err)
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	if _, err := io.Copy(s.streams.Err, stderr); err != nil && !brokenPipe(err) {
		return fmt.Errorf("copy the stored output: %w", err)
	}
	return nil
}

func text(r io.Reader) (plain, encoded string, err error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return "", "", fmt.Errorf("read the stored output: %w", err)
	}
	if !utf8.Valid(b) {
		encoded = base64.StdEncoding.EncodeToString(b)
	}
	return string(b), encoded, nil
}
