package race

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/receipt"
)

// checkWarm refuses a race whose attempts need a warm cell and do not get one, and
// options of runs that a branch cannot have.
func checkWarm(req api.RaceRequest, commands []api.RaceCommand) error {
	code := hasCode(commands)
	if !req.Warm {
		if code {
			return api.Usagef("give --warm too", "code runs in the warm interpreters of branches")
		}
		return nil
	}
	rest := req.RunOptions
	rest.Env, rest.Workdir, rest.Timeout, rest.Policy, rest.Memory, rest.CPUs, rest.PIDs = nil, "", 0, nil, 0, 0, 0
	rest.Network.Credentials, rest.Network.CredentialsFile, rest.Grants.ConfigFile = nil, "", ""
	if !reflect.DeepEqual(rest, api.RunOptions{}) {
		return api.Usagef("give them to the command that makes the cell live",
			"with --warm, attempts have the options of the live cell except --env, --workdir, --timeout, --policy, --memory, --cpus, --pids and --credential")
	}
	if code && (len(req.Env) > 0 || req.Workdir != "" || req.Timeout != 0 || slices.ContainsFunc(commands, func(c api.RaceCommand) bool { return c.Code != "" && len(c.Env) > 0 })) {
		return api.Usagef("leave them out", "--env, --workdir and --timeout are for commands: code runs in a process that is there")
	}
	return nil
}

// hasCode reports whether an attempt is code for an interpreter.
func hasCode(commands []api.RaceCommand) bool {
	return slices.ContainsFunc(commands, func(c api.RaceCommand) bool { return c.Code != "" })
}

// branches returns what the branches of a race have of its options; nil for a race
// in forks.
func branches(req api.RaceRequest) *api.BranchRequest {
	if !req.Warm {
		return nil
	}
	return &api.BranchRequest{
		Policy: req.Policy, Memory: req.Memory, CPUs: req.CPUs, PIDs: req.PIDs,
		Credentials: req.Network.Credentials, CredentialsFile: req.Network.CredentialsFile,
	}
}

// notExecuted is the exit code of a command that could not be executed, as in a shell.
const notExecuted = 127

// ending is how the command or the code of an attempt ended.
type ending struct {
	outcome receipt.Outcome
	code    int
	took    time.Duration
}

// attemptInBranch executes the command of one attempt, or runs its code, in the branch
// that is the attempt, and ends the branch. If it succeeded, the judge follows.
func (r *race) attemptInBranch(ctx context.Context, i int) error {
	end, err := r.execute(ctx, i)
	if err != nil && ctx.Err() == nil {
		return err
	}
	// What the branch has done is sealed and signed also if the race was cut short.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	res, err := r.engine.Stop(limited, api.StopRequest{Cell: r.attempts[i].Cell, Grace: -1})
	if res == nil {
		return err
	}
	r.change(i, api.RaceAttempted, func(a *api.RaceAttempt) {
		a.RunID, a.ReceiptID, a.Outcome, a.ExitCode = res.RunID, res.ReceiptID, string(end.outcome), end.code
		a.ChangedFiles, a.DurationUS = res.ChangedFiles, end.took.Microseconds()
		a.Elsewhere = res.Elsewhere
		if err != nil {
			a.Outcome = string(receipt.Errored)
		}
	})
	if err != nil || len(r.req.Judge) == 0 || end.outcome != receipt.Succeeded || ctx.Err() != nil {
		return err
	}
	return r.judge(ctx, i, res.CheckpointAfter)
}

// execute executes the command of an attempt, or runs its code. If ctx ends first, the
// outcome is interrupted.
func (r *race) execute(ctx context.Context, i int) (end ending, err error) {
	c, name, begin := r.commands[i], r.attempts[i].Cell, time.Now()
	end.outcome = receipt.Succeeded
	if c.Code != "" {
		var res *api.EvalResult
		res, err = r.engine.Eval(ctx, api.EvalRequest{Cell: name, Code: string(c.Code)})
		if processEnded(err) || err == nil && res.Error != nil {
			end.outcome, end.code, err = receipt.Failed, 1, nil
		}
	} else {
		var res *api.ExecResult
		res, err = r.engine.Exec(ctx, api.ExecRequest{
			Cell: name, Args: c.Command, Env: slices.Concat(r.req.Env, c.Env), Workdir: r.req.Workdir, Timeout: r.req.Timeout,
		}, engine.Stdio{})
		switch e, ok := errors.AsType[*api.Error](err); {
		case ok && e.Code == api.CodeExec:
			end.outcome, end.code, err = receipt.Failed, notExecuted, nil
		case err != nil:
		case res.TimedOut:
			end.outcome, end.code = receipt.TimedOut, res.ExitCode
		case res.ExitCode != 0 || res.Signal != 0:
			end.outcome, end.code = receipt.Failed, res.ExitCode
		}
	}
	if ctx.Err() != nil {
		end.outcome = receipt.Interrupted
	}
	end.took = time.Since(begin)
	return end, err
}

// processEnded reports whether err says that the process of a branch, which was warm, has
// ended while it ran code.
func processEnded(err error) bool {
	return api.CodeOf(err) == api.CodeNotWarm && api.KindOf(err) == api.Refused
}

// stopUnused ends the branch of an attempt that never began. Its cell is removed, or
// kept as it is.
func (r *race) stopUnused(ctx context.Context, i int) error {
	if !r.req.Warm {
		return nil
	}
	_, err := r.engine.Stop(ctx, api.StopRequest{Cell: r.attempts[i].Cell, Grace: -1})
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeNotStarted {
		return nil
	}
	return err
}
