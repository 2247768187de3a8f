package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
)

func newTry(s *session) *cobra.Command {
	var o runOptions
	var settings settingFlags
	var from string
	cmd := &cobra.Command{
		Use:   "try [--from DIR] [flags] -- COMMAND [ARG]...",
		Short: "Run one command in the cell of this directory, then ask what to do with the result",
		Long: `Run one command in the cell of this directory: the one that was made from it, or
from the nearest directory above it. If there is none, one is made and named after
the directory. An existing cell is refreshed first; a conflict exits 4. The flags
are those of run, and those for labels and time limits, which also change an existing
cell.

On a terminal, try shows the changes in short and asks what to do: accept and apply
them, discard them, keep the run pending, show the diff, or open a shell in the cell.
Without a terminal, try ends as run does.`,
		Example: `  forkcell try -- make format
  forkcell try --from ./project --policy dev -- npm update`,
		DisableFlagsInUseLine: true,
		Annotations:           map[string]string{annotationRun: "yes"},
		Args:                  tryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started, s.isRun = true, true
			t := trial{session: s, cmd: cmd, opts: &o, settings: &settings}
			return t.do(from, args)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the cell of the directory `DIR` instead of the working directory")
	o.addFlags(cmd)
	settings.addFlags(cmd.Flags())
	return cmd
}

func tryArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash > 0:
		return usageError("--from DIR chooses the directory", "%s: unexpected argument %s before --", verb(cmd), quote.Arg(args[0]))
	case dash < 0 && len(args) > 0:
		return usageError("write: forkcell try -- "+quote.Argv(args), "%s: missing -- before the command", verb(cmd))
	case len(args) == 0:
		return usageError("usage: "+usageLine(cmd), "%s: missing command after --", verb(cmd))
	}
	return nil
}

// trial is one try: a cell, its run, and the question to the user.
type trial struct {
	session *session
	cmd     *cobra.Command
	opts    *runOptions
	// settings are those of the cell.
	settings *settingFlags

	cell  string
	first *api.RunResult // the run that was tried; more may follow in a shell
}

func (t *trial) do(from string, argv []string) error {
	s := t.session
	err := s.engine(t.cmd.Context(), Create, func(ctx context.Context, e Engine) error { return t.prepare(ctx, e, from) })
	if err != nil {
		return err
	}
	t.first, err = runIn(t.cmd, s, nil, t.cell, argv, t.opts)
	if err != nil || t.first == nil || t.first.Decision != "pending" || t.first.ChangedFiles == 0 || s.json || !s.atTerminal() {
		return err
	}
	return t.question()
}

// prepare finds the cell and refreshes it, or makes it.
func (t *trial) prepare(ctx context.Context, e Engine, from string) error {
	s, dir := t.session, from
	var err error
	if dir == "" {
		dir = "."
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return usageError("", "try: %v", err)
	}
	name, below, err := e.CellAt(ctx, dir)
	if err != nil {
		return err
	}
	if name == "" || from != "" && below != "." {
		return t.make(ctx, e, dir)
	}
	t.cell, s.below = name, below
	if t.opts.dryRun {
		return nil
	}
	if err := t.set(ctx, e); err != nil {
		return err
	}
	done := s.showProgress()
	res, err := e.Refresh(ctx, api.RefreshRequest{Cell: name, OnConflict: "fail"})
	done()
	if err == nil && len(res.Changed) > 0 {
		s.noted(count(int64(len(res.Changed)), "change", "changes") + " of the directory brought into cell " + quote.Line(name))
	}
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeConflict {
		return hinted(err, "`forkcell refresh "+name+" --on-conflict ours` or `theirs` settles them")
	}
	return err
}

// set changes the settings of a cell that exists.
func (t *trial) set(ctx context.Context, e keeper) error {
	if !t.settings.given(t.cmd) {
		return nil
	}
	req, err := t.settings.request(t.cmd, t.cell)
	if err == nil {
		_, err = e.Update(ctx, req)
	}
	return err
}

func (t *trial) make(ctx context.Context, e maker, dir string) error {
	if t.opts.dryRun {
		return refusal(api.CodeNoCell, "leave --dry-run out, or make one: forkcell init NAME --from "+quote.Path(dir), "try: there is no cell of %s yet", quote.Path(dir))
	}
	settings, err := t.settings.settings(t.cmd)
	if err != nil {
		return err
	}
	res, err := initCell(ctx, t.session, e, api.InitRequest{From: dir, Runtime: api.RuntimeNative, Sole: true, Settings: settings})
	if err != nil {
		return err
	}
	t.cell = res.Cell
	left := ""
	if n := len(res.LeftOut); n > 0 {
		left = ", " + count(int64(n), "path", "paths") + " left out by the secret rules"
	}
	t.session.noted("cell " + quote.Line(res.Cell) + " made from " + quote.Path(res.Source) + ": " + count(res.Files, "file", "files") + ", " + size(res.Bytes) + left)
	return nil
}

// choices returns the answers to the question, in the order in which they are
// offered. The letter of an answer that cannot be undone is not the first letter of
// another one.
func choices() []struct{ letter, word, text string } {
	return []struct{ letter, word, text string }{
		{"a", "accept", "accept and apply"}, {"x", "discard", "discard"}, {"k", "keep", "keep"}, {"d", "diff", "diff"}, {"s", "shell", "shell"},
	}
}

// question shows the changes and asks until the run is decided. On Ctrl-C, or if
// the terminal goes away, the run stays pending.
func (t *trial) question() error {
	if err := t.show(diffOptions{stat: true}); err != nil {
		return err
	}
	var offer []string
	for _, c := range choices() {
		offer = append(offer, c.text+" ["+c.letter+"]")
	}
	for {
		answer, err := t.session.ask(strings.Join(offer, ", ") + "? ")
		if err != nil {
			return nil // no answer: the run stays pending
		}
		decided, err := t.answer(answer)
		if decided || err == nil && answer == "" {
			return err
		}
		if err != nil {
			printError(t.session.streams.Err, err, false)
		}
	}
}

// answer carries out the chosen answer, and reports whether the run is decided.
func (t *trial) answer(given string) (decided bool, err error) {
	word := ""
	for _, c := range choices() {
		if given != "" && (given == c.letter || given == c.word) {
			word = c.word
		}
	}
	switch word {
	case "accept":
		err = t.decide(func(ctx context.Context, e Engine) error {
			return runAccept(ctx, t.session, e, t.cell, acceptOptions{force: true, apply: true})
		})
		return err == nil, err
	case "discard":
		err = t.decide(func(ctx context.Context, e Engine) error {
			return runRestore(ctx, t.session, e, api.RestoreRequest{Cell: t.cell, Run: t.first.RunID, Reason: "discarded"})
		})
		return err == nil, err
	case "keep":
		t.session.noted("kept; decide later with forkcell accept --apply or forkcell restore")
		return true, nil
	case "diff":
		return false, t.show(diffOptions{})
	case "shell":
		return false, t.shell()
	}
	if given != "" {
		var words []string
		for _, c := range choices() {
			words = append(words, c.letter+" or "+c.word)
		}
		return false, usageError("the answers are "+strings.Join(words, ", "), "%s is not an answer", quote.Arg(given))
	}
	return false, nil
}

func (t *trial) decide(fn func(context.Context, Engine) error) error {
	err := t.session.engine(t.cmd.Context(), Write, fn)
	return joinErrors(err, t.session.out.Flush())
}

// show compares the state before the run with the present one.
func (t *trial) show(o diffOptions) error {
	req := api.DiffRequest{Cell: t.cell, State: t.first.CheckpointBefore}
	err := t.session.engine(t.cmd.Context(), Read, func(ctx context.Context, e Engine) error { return runDiff(ctx, t.session, e, req, o) })
	return joinErrors(err, t.session.out.Flush())
}

// shell runs a shell on the present state, as a separate run.
func (t *trial) shell() error {
	code := t.session.code
	defer func() { t.session.code = code }()
	o := *t.opts
	o.result, o.checkpointName, o.restoreOnFail, o.acceptOnSuccess = "", "", false, false
	_, err := runIn(t.cmd, t.session, nil, t.cell, []string{"sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"}, &o)
	return err
}

// ask puts a question to the terminal and returns the line that answers it.
func (s *session) ask(question string) (string, error) {
	if _, err := io.WriteString(s.streams.Err, question); err != nil {
		return "", err
	}
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := s.streams.In.Read(b)
		if n > 0 && b[0] == '\n' {
			return strings.ToLower(strings.TrimSpace(string(line))), nil
		}
		if n > 0 && len(line) < 100 {
			line = append(line, b[0])
		}
		if err != nil {
			return "", err
		}
	}
}
