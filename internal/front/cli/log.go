package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/document"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/text/quote"
)

func newLog(s *frame) *cobra.Command {
	return s.ofDirectory(&cobra.Command{
		Use:               "log [CELL]",
		Short:             "Show a cell's checkpoints, runs and decisions, oldest first",
		Example:           "  forkcell log demo",
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			return runLog(ctx, s, e, args[0])
		}),
	})
}

func runLog(ctx context.Context, s *frame, e historian, name string) error {
	entries, err := e.Log(ctx, name)
	if err != nil {
		return err
	}
	doc := struct {
		Log []api.LogEntry `json:"log"`
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
				id = l.RunID // the value for --run; receipt list has the receipt
			}
			rows = append(rows, []string{
				stamp(l.CreatedAt), quote.Line(l.Kind), id, p.paint(meaning(word), dash(logResult(l))), logDetails(l),
			})
		}
		p.table(rows)
	})
}

func logResult(l api.LogEntry) string {
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

func logDetails(l api.LogEntry) string {
	text := ""
	add := func(s string) {
		if text != "" {
			text += "  "
		}
		text += s
	}
	if len(l.Command) > 0 {
		add(shorten(l.Ran().Text(quote.Argv, quote.Line), 60))
	}
	if l.Kind == "decision" && l.RunID != "" {
		add(l.RunID)
	}
	if l.Name != "" {
		add(quote.Line(l.Name))
	}
	for _, key := range []string{"branch", "to", "from"} { // where a publish or an apply went, what a rename began with
		if value := l.Details[key]; value != "" {
			add(key + " " + quote.Line(value))
		}
	}
	if l.CheckpointID != "" && l.CheckpointID != l.ID {
		add(l.CheckpointID)
	}
	if l.ChangedFiles > 0 {
		add(fmt.Sprintf("%d changed", l.ChangedFiles))
	}
	if l.Reason != "" {
		add(shorten(quote.Line(l.Reason), 60))
	}
	return text
}

func newLogs(s *frame) *cobra.Command {
	var run string
	var follow, raw bool
	cmd := &cobra.Command{
		Use:   "logs [CELL]",
		Short: "Print the stored output of a run",
		Long: `Print the stored output of a run: its stdout to stdout, its stderr to stderr. Values
of secret-looking environment variables are redacted.

Of a live cell, it is the output of all commands in it: the last MiB while the cell
is live, everything after it was stopped. -f continues until the cell is stopped.

On a terminal, everything but lines and colours is escaped: what a command printed does
not move the cursor, and reaches neither the clipboard nor the title. --raw prints it as
it is; so does output to a file or a pipe.`,
		Example: `  forkcell logs demo --run run_01J
  forkcell logs -f demo`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			return runLogs(ctx, s, e, args[0], run, follow, raw)
		}),
	}
	cmd.Flags().StringVar(&run, "run", "", "the `RUN` (default: the last)")
	cmd.Flags().BoolVar(&raw, "raw", false, "on a terminal, print every byte as it was stored: control sequences too")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue with new output of a live cell")
	return s.ofDirectory(cmd)
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

type logReader interface {
	historian
	follower
}

func runLogs(ctx context.Context, s *frame, e logReader, name, run string, follow, raw bool) error {
	if s.json {
		return logsJSON(ctx, s, e, name, run, follow)
	}
	out, errs := s.outputWriter(s.streams.Out, s.streams.Out, raw), s.outputWriter(s.streams.Err, s.streams.Err, raw)
	live, err := e.FollowLogs(ctx, name, run, follow, out, errs)
	if live {
		return endOfFollow(ctx, follow, joinErrors(err, joinErrors(out.Close(), errs.Close())))
	}
	if err != nil {
		return err
	}
	stdout, stderr, err := e.Logs(ctx, name, run)
	if err != nil {
		return err
	}
	defer stdout.Close()
	defer stderr.Close()
	out = s.outputWriter(s.streams.Out, s.out, raw)
	if _, err := io.Copy(out, stdout); err != nil {
		return fmt.Errorf("copy the stored output: %w", err)
	}
	if err := joinErrors(out.Close(), s.out.Flush()); err != nil {
		return err
	}
	if _, err := io.Copy(errs, stderr); err != nil && !brokenPipe(err) {
		return fmt.Errorf("copy the stored output: %w", err)
	}
	return errs.Close()
}

// endOfFollow returns nil for the ordinary ends of following: the reader closes the
// output, or Ctrl-C.
func endOfFollow(ctx context.Context, follow bool, err error) error {
	if brokenPipe(err) || follow && ctx.Err() != nil {
		return nil
	}
	return err
}

// logsJSON prints one document, so with follow it waits for the end.
func logsJSON(ctx context.Context, s *frame, e logReader, name, run string, follow bool) error {
	var out, errs bytes.Buffer
	live, err := e.FollowLogs(ctx, name, run, follow, &out, &errs)
	if err = endOfFollow(ctx, follow, err); err != nil {
		return err
	}
	var stdout, stderr io.Reader = &out, &errs
	if !live {
		stored, storedErr, err := e.Logs(ctx, name, run)
		if err != nil {
			return err
		}
		defer stored.Close()
		defer storedErr.Close()
		stdout, stderr = stored, storedErr
	}
	doc := logsDocument{Cell: name}
	if doc.Stdout, doc.StdoutBase64, err = text(stdout); err != nil {
		return err
	}
	if doc.Stderr, doc.StderrBase64, err = text(stderr); err != nil {
		return err
	}
	return document.Write(s.out, doc)
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
