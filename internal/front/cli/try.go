package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newTry(s *frame) *cobra.Command {
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
Nothing is accepted or discarded that was not shown. If earlier runs are undecided, they
are shown first: [1] accepts this run only and leaves out what they changed, [a] accepts
them, too. A path that both changed is taken whole, and so is a git repository; what the
runs changed outside the workspace, in the home of the cell for instance, is left out by
[1]. Without a terminal, try ends as run does.`,
		Example: `  forkcell try -- make format
  forkcell try --from ./project --policy dev -- npm update`,
		DisableFlagsInUseLine: true,
		Annotations:           map[string]string{annotationRun: "yes"},
		Args:                  tryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started, s.isRun = true, true
			t := trial{session: s, cmd: cmd, opts: &o, settings: &settings, from: from}
			return t.do(args)
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
	session *frame
	cmd     *cobra.Command
	opts    *runOptions
	// settings are those of the cell.
	settings *settingFlags

	from  string // the directory that was given, if any
	cell  string
	first *api.RunResult // the run that was tried; more may follow in a shell

	shown   []string          // the undecided runs whose changes were shown
	earlier []api.EarlierWork // those before them
}

func (t *trial) do(argv []string) error {
	s := t.session
	err := s.engine(t.cmd.Context(), Create, func(ctx context.Context, e Engine) error { return t.prepare(ctx, e) })
	if err != nil {
		return err
	}
	t.first, err = runIn(t.cmd, s, t.cell, argv, t.opts)
	if err != nil || t.first == nil || t.first.Decision != "pending" || t.first.ChangedFiles == 0 || s.json || !s.atTerminal() {
		return err
	}
	s.passing.stop()
	return t.question()
}

// prepare finds the cell and refreshes it, or makes it.
func (t *trial) prepare(ctx context.Context, e Engine) error {
	s, dir := t.session, t.from
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
	if name == "" || t.from != "" && below != "." {
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
		s.note(count(int64(len(res.Changed)), "change", "changes") + " of the directory brought into cell " + quote.Line(name))
	}
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeConflict {
		return withHint(err, "`forkcell refresh "+name+" --on-conflict ours` or `theirs` settles them; `forkcell diff "+name+"` shows what nobody has decided about, and `forkcell reject "+name+"` takes it back")
	}
	return err
}

// set changes the settings of a cell that exists.
func (t *trial) set(ctx context.Context, e keeper) error {
	if !t.settings.anyGiven(t.cmd) {
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
	t.session.notedCell(res)
	return nil
}

// ask waits for an answer, or for a signal that asks the program to end.
func (t *trial) ask(question string) (string, error) {
	ctx, stop := interruptible(t.cmd.Context())
	defer stop()
	return t.session.ask(ctx, question)
}

// choice is an answer to the question.
type choice struct{ letter, word, text string }

// choices returns the answers in the order in which they are offered. The letter of an
// answer that cannot be undone is not the first letter of another one.
func (t *trial) choices() []choice {
	accept := []choice{{"a", "accept", "accept and apply"}}
	if len(t.earlier) > 0 {
		accept = []choice{{"1", "only", "accept and apply this run only"}, {"a", "accept", "this and the earlier"}}
	}
	return append(accept, choice{"x", "discard", "discard"}, choice{"k", "keep", "keep"}, choice{"d", "diff", "diff"}, choice{"s", "shell", "shell"})
}

// question shows the changes and asks until the run is decided. Without an answer the run
// stays pending: at Ctrl-C, at another signal, or if the terminal goes away.
func (t *trial) question() error {
	if err := t.show(diffOptions{stat: true}); err != nil {
		return err
	}
	for {
		var offer []string
		for _, c := range t.choices() {
			offer = append(offer, c.text+" ["+c.letter+"]")
		}
		answer, err := t.ask(strings.Join(offer, ", ") + "? ")
		if errors.Is(err, errInterrupted) {
			t.session.code = exitDone // the signal decides how this ends, not the run
			return withInterruptHint(err, "the work is kept; "+t.later())
		}
		if err != nil || answer == "" {
			answer = "keep"
		}
		decided, err := t.answer(answer)
		if decided {
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
	for _, c := range t.choices() {
		if given == c.letter || given == c.word {
			word = c.word
		}
	}
	switch word {
	case "accept":
		return t.accept(append(t.ids(), t.shown...), nil)
	case "only":
		return t.accept(t.shown, t.ids())
	case "discard":
		err = t.decide(func(ctx context.Context, e Engine) error {
			return runRestore(ctx, t.session, e, api.RestoreRequest{Cell: t.cell, Run: t.first.RunID, Runs: t.shown, Reason: "discarded"})
		})
		return err == nil, err
	case "keep":
		t.session.note("kept; " + t.later())
		return true, nil
	case "diff":
		return false, t.show(diffOptions{})
	case "shell":
		if err := t.shell(); err != nil {
			return false, err
		}
		return false, t.show(diffOptions{stat: true})
	}
	var words []string
	for _, c := range t.choices() {
		words = append(words, c.letter+" or "+c.word)
	}
	return false, usageError("the answers are "+strings.Join(words, ", "), "%s is not an answer", quote.Arg(given))
}

// later names the commands that decide about the run later. The cell of the working
// directory needs no name.
func (t *trial) later() string {
	name := ""
	if t.from != "" {
		name = " " + t.cell
	}
	return "decide later with forkcell accept" + name + " --apply or forkcell restore" + name
}

// accept accepts runs that were shown, leaves others out, and applies the result.
func (t *trial) accept(runs, leaveOut []string) (decided bool, err error) {
	err = t.decide(func(ctx context.Context, e Engine) error {
		return runAccept(ctx, t.session, e, t.cell, acceptOptions{force: true, apply: true, runs: runs, leaveOut: leaveOut})
	})
	return err == nil, err
}

func (t *trial) decide(fn func(context.Context, Engine) error) error {
	err := t.session.engine(t.cmd.Context(), Write, fn)
	return joinErrors(err, t.session.out.Flush())
}

// show compares the state before the run with the present one. It notes what it shows:
// nothing else is accepted. Earlier undecided work is shown before, under its name.
func (t *trial) show(o diffOptions) error {
	err := t.session.engine(t.cmd.Context(), Read, func(ctx context.Context, e Engine) error {
		res, err := e.Diff(ctx, api.DiffRequest{Cell: t.cell, State: t.first.CheckpointBefore, Stream: true})
		if err != nil {
			return err
		}
		t.shown, t.earlier = res.Runs, res.Earlier
		if res.Unapplied > 0 {
			t.session.note(count(int64(res.Unapplied), "other change of the accepted state is", "other changes of the accepted state are") + " not in the directory; apply writes them, too: `forkcell diff " + quote.Line(t.cell) + " --since-apply` shows all")
		}
		if err := t.showEarlier(ctx, e, o, res); err != nil {
			return err
		}
		return runDiff(ctx, t.session, e, api.DiffRequest{Cell: t.cell, From: res.From, To: res.To}, o)
	})
	return joinErrors(err, t.session.out.Flush())
}

// ids returns those of the earlier undecided work.
func (t *trial) ids() []string {
	ids := make([]string, len(t.earlier))
	for i, w := range t.earlier {
		ids[i] = w.ID
	}
	return ids
}

// showEarlier shows the earlier undecided work, and what both that and the run changed.
func (t *trial) showEarlier(ctx context.Context, e differ, o diffOptions, this *engine.DiffResult) error {
	if len(t.earlier) == 0 {
		return nil
	}
	changed := map[string]bool{}
	for _, w := range t.earlier {
		what := w.ID
		if len(w.Command) > 0 {
			what += " (" + w.Ran().Text(quote.Argv, quote.Line) + ")"
		}
		t.session.note("earlier and undecided: " + what)
		req := api.DiffRequest{Cell: t.cell, From: w.CheckpointBefore, To: w.CheckpointAfter}
		if err := runDiff(ctx, t.session, e, req, o); err != nil {
			return err
		}
		req.Stream = true
		res, err := e.Diff(ctx, req)
		if err != nil {
			return err
		}
		err = res.Each(func(ch tree.Change) error {
			changed[ch.Path] = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	var both []string
	err := this.Each(func(ch tree.Change) error {
		if changed[ch.Path] && !home.IsDirChange(ch) {
			both = append(both, quote.Path(ch.Path))
		}
		return nil
	})
	const most = 5
	if n := len(both); n > most {
		both = append(both[:most], count(int64(n-most), "other", "others"))
	}
	if len(both) > 0 {
		t.session.note("changed by both, and taken whole with this run: " + strings.Join(both, ", "))
	}
	if err == nil {
		err = t.noteElsewhere(ctx, e, this)
	}
	t.session.note("this run, " + t.first.RunID + ":")
	return err
}

// noteElsewhere says what is lost to an acceptance without the earlier work: that is one of
// files of the workspace.
func (t *trial) noteElsewhere(ctx context.Context, e differ, this *engine.DiffResult) error {
	all, err := e.Diff(ctx, api.DiffRequest{Cell: t.cell, From: t.earlier[0].CheckpointBefore, To: this.To, Stream: true})
	if err == nil && len(all.Elsewhere) > 0 {
		t.session.note("left out by [1], as it is outside the workspace: " + quote.Line(api.ElsewhereText(all.Elsewhere)))
	}
	return err
}

// shell runs a shell on the present state, as a separate run.
func (t *trial) shell() error {
	code := t.session.code
	defer func() { t.session.code = code }()
	o := *t.opts
	o.result, o.checkpointName, o.restoreOnFail, o.acceptOnSuccess = "", "", false, false
	_, err := runIn(t.cmd, t.session, t.cell, []string{"sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"}, &o)
	if t.session.passing != nil {
		t.session.passing.stop()
	}
	return err
}

// ask puts a question to the terminal and returns the line that answers it. The end of ctx
// is an error.
func (s *frame) ask(ctx context.Context, question string) (string, error) {
	if _, err := io.WriteString(s.streams.Err, quote.Text(question)); err != nil {
		return "", err
	}
	type answer struct {
		line string
		err  error
	}
	given := make(chan answer, 1)
	go func() {
		line, err := s.readLine()
		given <- answer{line, err}
	}()
	var a answer
	select {
	case a = <-given:
	case <-ctx.Done():
		a.err = context.Cause(ctx)
	}
	if a.err != nil {
		_, _ = io.WriteString(s.streams.Err, "\n") // the question has none
	}
	return strings.ToLower(strings.TrimSpace(a.line)), a.err
}

// readLine reads a line byte by byte: what follows it is for others.
func (s *frame) readLine() (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := s.streams.In.Read(b)
		if n > 0 && b[0] == '\n' {
			return string(line), nil
		}
		if n > 0 && len(line) < 100 {
			line = append(line, b[0])
		}
		if err != nil {
			return "", err
		}
	}
}
