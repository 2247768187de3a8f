// Package race makes several attempts at one task, each in a fork of a cell. It has
// them judged, chooses the best one, and lets the cell have its result.
//
// It knows cells by what an engine does with them. It must not know flags, the
// terminal or HTTP: what happens is told to a function of the caller.
package race

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/score"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// Engine forks cells and runs commands in them.
type Engine interface {
	BeginRace(ctx context.Context, o engine.RaceOptions) (*engine.Race, error)
	Run(ctx context.Context, r api.RunRequest, io engine.Stdio) (*api.RunResult, error)
	// Exec, Eval and Stop use branches of a warm cell.
	Exec(ctx context.Context, r api.ExecRequest, io engine.Stdio) (*api.ExecResult, error)
	Eval(ctx context.Context, r api.EvalRequest) (*api.EvalResult, error)
	Stop(ctx context.Context, r api.StopRequest) (*api.RunResult, error)
}

// AttemptVariable is the variable in which each attempt and its judge find the
// number of the attempt.
const AttemptVariable = engine.AttemptVariable

// Run carries out a race: fork, attempt, judge, choose, decide.
//
// events is called for everything that happens, never twice at once. The result is
// set once the attempts have their cells, also together with an error. A race that
// no attempt wins is no error. When ctx ends, the attempts end, and each one that had
// begun has a receipt; the error is then the cause of ctx. A failure of the engine
// ends the whole race. Whatever happens, the cells are removed except those that the
// request keeps.
func Run(ctx context.Context, e Engine, req api.RaceRequest, events func(api.RaceEvent)) (*api.RaceResult, error) {
	r, err := newRace(e, req, events)
	if err != nil {
		return nil, err
	}
	r.forks, err = e.BeginRace(ctx, engine.RaceOptions{
		Cell: req.Cell, Attempts: len(r.commands), Accept: req.Accept, Keep: req.Keep, Warm: branches(req), Code: hasCode(r.commands),
	})
	if err != nil {
		return nil, err
	}
	for i, name := range r.forks.Attempts() {
		r.attempts[i] = api.RaceAttempt{Attempt: i + 1, Cell: name}
	}
	r.tell(api.RaceEvent{Kind: api.RaceForked, Attempts: slices.Clone(r.attempts)})
	err = r.attemptAll(ctx)
	res, err := r.conclude(ctx, err)
	r.tell(api.RaceEvent{Kind: api.RaceEnded, Result: res})
	return res, err
}

// race is one race under way.
type race struct {
	engine   Engine
	req      api.RaceRequest
	commands []api.RaceCommand // one for each attempt
	forks    *engine.Race

	mu       sync.Mutex
	attempts []api.RaceAttempt
	events   func(api.RaceEvent)
}

// newRace checks a request and fills in its defaults.
func newRace(e Engine, req api.RaceRequest, events func(api.RaceEvent)) (*race, error) {
	commands, err := commandsOf(req)
	if err != nil {
		return nil, err
	}
	if req.Best == "" {
		req.Best = engine.Bests()[0]
	}
	switch {
	case !slices.Contains(engine.Bests(), req.Best):
		return nil, api.Usagef("--best is one of "+strings.Join(engine.Bests(), ", "), "unknown value %s for --best", quote.Arg(req.Best))
	case req.Best == string(receipt.BestScore) && len(req.Judge) == 0:
		return nil, api.Usagef("the last line that the judge prints is the score", "--best score needs --judge")
	case req.Jobs < 0 || req.Jobs > receipt.MaxAttempts:
		return nil, api.Usagef("", "--jobs takes 1 to %d", receipt.MaxAttempts)
	case req.Apply && !req.Accept:
		return nil, api.Usagef("give --accept too", "--apply needs --accept")
	}
	if err := checkWarm(req, commands); err != nil {
		return nil, err
	}
	if req.Jobs == 0 {
		req.Jobs = runtime.GOMAXPROCS(0)
	}
	if events == nil {
		events = func(api.RaceEvent) {}
	}
	return &race{engine: e, req: req, commands: commands, attempts: make([]api.RaceAttempt, len(commands)), events: events}, nil
}

// AtOnce returns how many attempts of a request run at the same time.
func AtOnce(req api.RaceRequest) int {
	jobs, attempts := req.Jobs, max(req.N, len(req.Attempts))
	if jobs == 0 {
		jobs = runtime.GOMAXPROCS(0)
	}
	return max(1, min(jobs, attempts))
}

// commandsOf returns the command of each attempt.
func commandsOf(req api.RaceRequest) ([]api.RaceCommand, error) {
	list := req.Attempts
	switch {
	case len(list) > 0 && (len(req.Command) > 0 || req.Code != "" || req.N != 0):
		return nil, api.Usagef("give one of them", "--attempt and a command with -n exclude each other")
	case len(list) == 0 && len(req.Command) == 0 && req.Code == "":
		return nil, api.Usagef("", "a race needs a command")
	case len(list) == 0 && (req.N < 1 || req.N > receipt.MaxAttempts), len(list) > receipt.MaxAttempts:
		return nil, api.Usagef("give -n N, or --attempt for each command", "a race has 1 to %d attempts", receipt.MaxAttempts)
	case len(list) == 0:
		list = slices.Repeat([]api.RaceCommand{{Command: req.Command, Code: req.Code}}, req.N)
	}
	if at := slices.IndexFunc(list, func(c api.RaceCommand) bool { return (len(c.Command) == 0) == (c.Code == "") }); at >= 0 {
		return nil, api.Usagef("give it either a command or code", "attempt %d has no command, or code too", at+1)
	}
	return list, nil
}

// tell reports an event. Attempts run at the same time, and their events one after
// the other.
func (r *race) tell(e api.RaceEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events(e)
}

// change updates what is known of an attempt, and reports it.
func (r *race) change(i int, kind api.RaceEventKind, update func(*api.RaceAttempt)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	update(&r.attempts[i])
	r.events(api.RaceEvent{Kind: kind, Attempt: r.attempts[i]})
}

// attemptAll makes the attempts, as many at once as there are jobs. The first
// failure of the engine ends the others.
func (r *race) attemptAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(r.req.Jobs, len(r.commands)) {
		workers.Go(func() {
			for i := range next {
				if err := r.attempt(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range r.commands {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// attempt runs one command and, if it succeeded, the judge. An error is a failure of
// the engine.
func (r *race) attempt(ctx context.Context, i int) error {
	if ctx.Err() != nil {
		return nil
	}
	name := r.attempts[i].Cell
	r.change(i, api.RaceStarted, func(*api.RaceAttempt) {})
	if r.req.Warm {
		return r.attemptInBranch(ctx, i)
	}
	options := r.req.RunOptions
	options.Env = slices.Concat(options.Env, r.commands[i].Env, number(i))
	res, err := r.engine.Run(ctx, api.RunRequest{Cell: name, Args: r.commands[i].Command, RunOptions: options}, engine.Stdio{})
	if res == nil {
		return err
	}
	r.change(i, api.RaceAttempted, func(a *api.RaceAttempt) {
		a.RunID, a.ReceiptID, a.Outcome, a.ExitCode = res.RunID, res.ReceiptID, res.Outcome, res.ExitCode
		a.ChangedFiles, a.DurationUS = res.ChangedFiles, res.Timings.CommandUS
		a.Elsewhere = res.Elsewhere
		if err != nil {
			a.Outcome = string(receipt.Errored)
		}
	})
	if err != nil || len(r.req.Judge) == 0 || res.Outcome != string(receipt.Succeeded) || ctx.Err() != nil {
		return err
	}
	return r.judge(ctx, i, res.CheckpointAfter)
}

// judge runs the judge in a fork with the workspace of an attempt's result, without a
// network. A workspace whose paths are too long to be listed is not judged, if the attempt
// has changed other files, too.
func (r *race) judge(ctx context.Context, i int, checkpoint string) error {
	r.change(i, api.RaceJudging, func(*api.RaceAttempt) {})
	name, err := r.forks.ForkForJudge(ctx, r.attempts[i].Cell, checkpoint)
	if api.CodeOf(err) == api.CodeLongPath { // its fault: the others go on
		r.change(i, api.RaceJudged, func(*api.RaceAttempt) {})
		return nil
	}
	if err != nil {
		return err
	}
	options := r.req.RunOptions
	options.Env = slices.Concat(options.Env, r.commands[i].Env, number(i))
	options.Network, options.Offline = api.NetworkRequest{}, true
	out := &score.Reader{}
	res, err := r.engine.Run(ctx, api.RunRequest{Cell: name, Args: r.req.Judge, RunOptions: options}, engine.Stdio{Out: out})
	if res == nil {
		return err
	}
	r.change(i, api.RaceJudged, func(a *api.RaceAttempt) {
		a.JudgeExitCode, a.JudgeReceiptID, a.Score = &res.ExitCode, res.ReceiptID, out.Number()
	})
	return err
}

func number(i int) []string { return []string{fmt.Sprintf("%s=%d", AttemptVariable, i+1)} }

// endLimit bounds the time in which the cells of a race are removed. Runs that were
// cut off are finished meanwhile.
const endLimit = 5 * time.Minute

// conclude chooses and decides, and removes the cells. failure is why the race was
// cut short, if it was.
func (r *race) conclude(ctx context.Context, failure error) (*api.RaceResult, error) {
	res := &api.RaceResult{Cell: r.req.Cell, Attempts: r.attempts, Also: []string{}, Kept: []string{}}
	var keep []string
	if failure == nil {
		keep, failure = r.decide(ctx, res)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	for i := range r.attempts {
		if r.attempts[i].Outcome == "" { // it never began
			r.attempts[i].Outcome = string(receipt.Interrupted)
			if err := r.stopUnused(ctx, i); err != nil {
				failure = errors.Join(failure, err)
			}
		}
	}
	kept, err := r.forks.End(ctx, keep...)
	res.Kept = append(res.Kept, kept...)
	switch {
	case failure == nil:
		return res, err
	case err == nil:
		return res, failure
	}
	return res, fmt.Errorf("%w; also: %w", failure, err)
}

// decide chooses the winner, accepts it if the request says so, and returns the
// cells to keep.
func (r *race) decide(ctx context.Context, res *api.RaceResult) (keep []string, err error) {
	winner := r.choose()
	if winner == 0 {
		return nil, nil
	}
	res.Winner = &winner
	keep = []string{r.attempts[winner-1].Cell}
	if !r.req.Accept {
		return keep, nil
	}
	done, err := r.forks.Accept(ctx, api.RaceDecision{
		Best: r.req.Best, Judge: r.req.Judge, Winner: winner, Attempts: r.attempts, Apply: r.req.Apply, Wait: r.req.Wait,
	})
	if done == nil {
		return keep, err
	}
	res.DecisionID, res.Also, res.Applied = done.DecisionID, done.Also, done.Applied
	return nil, err
}

// choose returns the number of the attempt that wins, or 0.
func (r *race) choose() int {
	race := receipt.Race{Best: receipt.Best(r.req.Best), Judge: r.req.Judge}
	for _, a := range r.attempts {
		out := receipt.Attempt{Outcome: receipt.Outcome(a.Outcome), DurationUS: a.DurationUS}
		if a.JudgeExitCode != nil {
			out.Judgement = &receipt.Judgement{ExitCode: *a.JudgeExitCode, Score: a.Score}
		}
		race.Attempts = append(race.Attempts, out)
	}
	return race.Choose()
}
