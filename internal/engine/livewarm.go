package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// usualReady is how long a template has to become warm.
const usualReady = time.Minute

// shownLines is how much of the output an error shows.
const shownLines = 20

// cellWarm is the state in the event of a template that is warm.
const cellWarm = "cell warm"

// awaitWarm executes the command of a warm cell and returns when it is warm.
func (l *liveRun) awaitWarm(ctx context.Context, w api.WarmRequest) error {
	template, ok := l.cell.(driver.Template)
	if !ok {
		return l.awaitReady(ctx, w)
	}
	l.r.UnlockHome()
	l.warm = home.Recordable(w.Args)
	begin, limit := time.Now(), cmp.Or(w.Timeout, usualReady)
	command, err := l.host.ExecWarm(ctx, w.Args, string(w.Input))
	if err != nil {
		return api.WithDetails(err, l.host.LastOutput(shownLines))
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = template.AwaitWarm(limited)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		err = l.lateError(w, limit)
	case err != nil:
		err = api.Failf(api.CodeNotWarm, l.coldReason(limited, err, command), "cell %s did not become warm", l.r.Record.Name)
	}
	if err == nil {
		err = l.checkReady(w.Ready)
	}
	if err != nil {
		return api.WithDetails(err, l.host.LastOutput(shownLines))
	}
	l.host.SetStill()
	if err := l.noteUncopied(template); err != nil {
		return err
	}
	l.readyUS = since(begin)
	failpoint.Hit("live.warm")
	l.r.recordEvent(event.Config(event.Subject{Message: "its processes stand still, and can be copied"}, cellWarm))
	return l.recordLive(func(rec *store.Run) { rec.Template, rec.Degraded = true, l.r.degraded })
}

// noteUncopied records the processes of a template that its branches do not have.
func (l *liveRun) noteUncopied(t driver.Template) error {
	const shown = 5
	list, err := t.UncopiedProcesses()
	if err != nil || len(list) == 0 {
		return err
	}
	var names []string
	for _, p := range list[:min(len(list), shown)] {
		names = append(names, quote.Line(first(p.Args)))
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	l.r.degraded = append(l.r.degraded, "template: its branches do not have its other processes: "+strings.Join(names, ", "))
	return nil
}

// lateError returns the error of a template that was not warm in time.
func (l *liveRun) lateError(w api.WarmRequest, limit time.Duration) error {
	if w.Input != "" { // the interpreter takes part
		return api.Refusef(api.CodeNotWarm, "--ready-timeout gives it longer", "cell %s was not warm after %v: what its interpreter loads needs longer", l.r.Record.Name, limit)
	}
	return api.Refusef(api.CodeNotWarm, "`forkcell warm python "+l.r.Record.Name+"` starts an interpreter that takes part; --ready-timeout gives it longer",
		"cell %s was not warm after %v: its command takes no part in branches, or needs longer", l.r.Record.Name, limit)
}

// coldReason returns why a template did not become warm: how its command has ended, if
// it has said nothing. It waits for that end also because the output may tell more.
func (l *liveRun) coldReason(ctx context.Context, why error, command wire.Process) error {
	ended := make(chan wire.Exit, 1)
	go func() { ended <- command.Wait() }()
	select {
	case x := <-ended:
		if errors.Is(why, io.EOF) {
			return l.host.Ended(x)
		}
	case <-ctx.Done():
	}
	return why
}

// awaitReady executes a command and returns when what the caller has named holds. The
// cell is no template: it goes on, and is branched as any other of its runtime.
func (l *liveRun) awaitReady(ctx context.Context, w api.WarmRequest) error {
	l.r.UnlockHome()
	begin, limit := time.Now(), cmp.Or(w.Timeout, usualReady)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	when := w.Ready
	if file, isFile := strings.CutPrefix(when, "file:"); isFile && !path.IsAbs(file) {
		when = "file:" + path.Join(l.r.Record.MountAt, file)
	}
	err := l.host.ExecReady(limited, w.Args, when)
	switch {
	case err == nil:
		l.readyUS = since(begin)
		l.r.recordEvent(event.Config(event.Subject{Message: "its command is ready"}, cellWarm))
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		err = api.Refusef(api.CodeNotWarm, "--ready-timeout gives it longer", "cell %s was not warm after %v: --ready %s does not hold", l.r.Record.Name, limit, quote.Arg(w.Ready))
	case api.CodeOf(err) == "":
		err = api.Failf(api.CodeNotWarm, err, "cell %s did not become warm", l.r.Record.Name)
	}
	return api.WithDetails(err, l.host.LastOutput(shownLines))
}

// checkReady checks what else must hold in a template that is warm. Nothing can change
// in it any more.
func (l *liveRun) checkReady(when string) error {
	file, isFile := strings.CutPrefix(when, "file:")
	if !isFile {
		ready, err := regexp.Compile(when)
		if err != nil {
			return api.Usagef("", "--ready: %v", err)
		}
		if when == "" || ready.MatchString(l.host.AllOutput()) {
			return nil
		}
		return api.Refusef(api.CodeNotWarm, "", "cell %s is warm, and its output does not match %s", l.r.Record.Name, quote.Arg(when))
	}
	if !path.IsAbs(file) {
		file = path.Join(l.r.Record.MountAt, file)
	}
	opener, ok := l.cell.(driver.Opener)
	if !ok {
		return readyElsewhere(when)
	}
	f, err := opener.Open(file)
	if err != nil {
		return api.Refusef(api.CodeNotWarm, "", "cell %s is warm, and has no file %s that can be read: %v", l.r.Record.Name, quote.Path(file), err)
	}
	return f.Close()
}

// endCold ends a cell that did not become warm, and records its run.
func (l *liveRun) endCold(ctx context.Context, why error) error {
	ctx = context.WithoutCancel(ctx)
	l.note(supervise.Ending{Cause: supervise.NotWarm, Err: why}, l.host.End(0), func() string { return "" })
	l.host.Close()
	return l.conclude(ctx)
}

// recordLive changes the record of the run, so that other processes see it. It need
// not survive a power failure, which ends the cell.
func (l *liveRun) recordLive(change func(*store.Run)) error {
	home, err := l.r.e.Store.LockHome(false)
	if err != nil {
		return err
	}
	defer home.Unlock()
	l.r.recording.Lock()
	defer l.r.recording.Unlock()
	rec := l.r.rec
	change(&rec)
	if err := l.r.e.Store.Note(func(tx *store.Tx) error { return tx.PutRun(rec) }); err != nil {
		return api.Failf(api.CodeFailed, err, "record the state of cell %s", l.r.Record.Name)
	}
	l.r.rec = rec
	return nil
}

// makesTemplates reports whether the runtime of a cell copies warm processes. Those of
// others branch any live cell.
func (e *Engine) makesTemplates(cell string) bool {
	if e.openLate() != nil {
		return true
	}
	c, err := e.FindCell(cell)
	return err != nil || c.Runtime == "" || c.Runtime == api.RuntimeNative
}

// dialWarm connects with the supervisor of a cell that should be warm.
func (e *Engine) dialWarm(ctx context.Context, cell string) (*supervise.Client, error) {
	client, err := e.EnterLive(ctx, cell)
	if refused, ok := errors.AsType[*api.Error](err); ok && refused.Code == api.CodeNotStarted && e.makesTemplates(cell) {
		refused.Hint = "`forkcell warm python " + cell + "` makes it a template"
	}
	return client, err
}

// Eval runs code in the warm interpreter of a branch.
func (e *Engine) Eval(ctx context.Context, req api.EvalRequest) (*api.EvalResult, error) {
	client, err := e.dialWarm(ctx, req.Cell)
	switch {
	case api.CodeOf(err) == api.CodeNotStarted && !e.makesTemplates(req.Cell):
		return nil, noInterpreters(req.Cell, "run")
	case pausedError(err) && !e.makesTemplates(req.Cell):
		return nil, api.WithHint(noInterpreters(req.Cell, ""), api.CodeNotWarm, "after `forkcell resume "+req.Cell+"` forkcell exec runs a command in it")
	}
	if err != nil {
		return nil, err
	}
	return client.Eval(ctx, req.Code)
}

// eval runs code in the process that the cell began with.
func (l *liveRun) eval(ctx context.Context, code string) (*api.EvalResult, error) {
	name := l.r.Record.Name
	switch cell := l.cell.(type) {
	case driver.Child:
		if err := l.host.Usable(); err != nil {
			return nil, err
		}
		l.r.recordEvent(event.Config(event.Subject{Message: quote.Line(code)}, codeRun))
		return ask(ctx, name, cell, code)
	case driver.Template:
		l.r.recordEvent(event.Config(event.Subject{Message: quote.Line(code)}, codeRun))
		return l.evalInBranch(ctx, cell, code)
	}
	if cmp.Or(l.r.rec.Runtime, api.RuntimeNative) != api.RuntimeNative {
		return nil, noInterpreters(name, "exec")
	}
	return nil, notInterpreter(name)
}

// codeRun is the state in the event of code that a warm interpreter runs.
const codeRun = "code sent to the warm process"

// noInterpreters refuses code for a cell of a runtime without them. verb is the one that
// runs a command in it.
func noInterpreters(cell, verb string) error {
	return api.Refusef(api.CodeNotWarm, "`forkcell "+verb+" "+cell+" -- CMD` runs a command in it", "cell %s has no warm interpreter: its runtime has none", cell)
}

// checkInterpreter refuses a live cell whose runtime has no interpreters.
func (e *Engine) checkInterpreter(cell string) error {
	c, err := e.FindCell(cell)
	if err != nil {
		return err
	}
	runs, err := e.UnfinishedRuns(c)
	if err == nil && len(runs) > 0 && cmp.Or(runs[len(runs)-1].Runtime, api.RuntimeNative) != api.RuntimeNative {
		return noInterpreters(c.Name, "exec")
	}
	return err
}

func notInterpreter(cell string) error {
	return api.Refusef(api.CodeNotWarm, "forkcell warm python makes a template, and forkcell branch cells to use", "cell %s has no warm interpreter", cell)
}

// answer is the answer of a copied process to code.
type answer struct {
	Type      string          `json:"type"`
	Value     *string         `json:"value"`
	ValueJSON json.RawMessage `json:"value_json"`
	Output    string          `json:"output"`
	Error     *api.EvalError  `json:"error"`
	// Truncated names the fields that the process has cut.
	Truncated []string `json:"truncated"`
	// Problem is why the process could not answer.
	Problem string `json:"problem"`
}

// ask sends code to a copied process. If ctx ends first, the code is interrupted, and
// later questions wait until it has ended.
func ask(ctx context.Context, cell string, child driver.Child, code string) (*api.EvalResult, error) {
	question, err := json.Marshal(map[string]string{"type": "eval", "code": code})
	if err != nil {
		return nil, err
	}
	begin, said := time.Now(), make(chan error, 1)
	var got answer
	go func() {
		data, err := child.Ask(ctx, question)
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		said <- err
	}()
	select {
	case err = <-said:
	case <-child.CopyEnded():
		// It may have answered before. Its line may stay open, held by another process.
		select {
		case err = <-said:
		case <-time.After(endWait):
			return nil, noAnswer(cell, child, driver.ErrEnded)
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err == nil && got.Type != "value" {
		err = fmt.Errorf("it said %q: %s", got.Type, quote.Line(got.Problem))
	}
	if err != nil {
		return nil, noAnswer(cell, child, err)
	}
	return &api.EvalResult{
		Value: got.Value, ValueJSON: got.ValueJSON, Output: got.Output, Truncated: got.truncated(), Error: got.Error, DurationUS: since(begin),
	}, nil
}

// truncated returns the fields that the process says it has cut.
func (a *answer) truncated() (fields []string) {
	for _, field := range []string{"value", "value_json", "output"} {
		if slices.Contains(a.Truncated, field) {
			fields = append(fields, field)
		}
	}
	return fields
}

// endWait is the time in which the end of a process that closed its line is known.
const endWait = 2 * time.Second

// noAnswer returns the error of a process that did not answer.
func noAnswer(cell string, child driver.Child, err error) error {
	select {
	case <-child.CopyEnded():
		if child.CopyOutcome().Signal != 0 && child.Usage().OOMKills > 0 {
			return api.Refusef(api.CodeNotWarm, "branch its template again, with more memory", "the process of cell %s was killed: the cell ran out of memory", cell)
		}
		return api.Refusef(api.CodeNotWarm, "branch its template again", "the process of cell %s has ended with code %d", cell, child.CopyOutcome().Code)
	case <-time.After(endWait):
	}
	return api.Failf(api.CodeNotWarm, err, "the process of cell %s gave no answer", cell)
}
