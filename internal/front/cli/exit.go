package cli

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// The exit codes of the contract. Append, never renumber: scripts depend on
// them.
const (
	exitDone        = 0
	exitFailed      = 1 // the operation failed
	exitUsage       = 2 // unknown flag, bad value, missing argument
	exitNotFound    = 3 // no such cell, checkpoint, run or receipt
	exitRefused     = 4 // conflict, busy, failed verification, a control that cannot be enforced
	exitTimedOut    = 124
	exitOwnFailure  = 125 // run: forkcell itself failed, not the command
	exitNotExec     = 126 // run: the command could not be executed
	exitNoCommand   = 127 // run: the command was not found
	exitSignalBase  = 128 // run: plus the number of the signal that killed the command
	exitInterrupted = 130
)

// exitOf maps a failure of any command to its exit code. A failure of run that
// forkcell itself caused is 125, so that it differs from the command's own 1.
func exitOf(err error, run bool) int {
	if err == nil {
		return exitDone
	}
	if stopped, ok := errors.AsType[interruption](err); ok {
		return exitSignalBase + int(stopped.signal)
	}
	if errors.Is(err, errInterrupted) {
		return exitInterrupted
	}
	if start, ok := errors.AsType[*driver.StartError](err); ok && run {
		switch {
		case start.Cause == driver.CauseNotFound:
			return exitNoCommand
		case start.Cause == driver.CauseNotExecutable:
			return exitNotExec
		}
	}
	switch api.KindOf(err) {
	case api.Usage:
		return exitUsage
	case api.NotFound:
		return exitNotFound
	case api.Refused, api.Busy:
		return exitRefused
	case api.Failed:
	}
	if run {
		return exitOwnFailure
	}
	return exitFailed
}

// exitOfRun maps the result of a run, and the error that came with it, to the
// exit code of the run command. signal is the first one that forkcell received
// and passed on.
func exitOfRun(res *api.RunResult, err error, signal int) int {
	if err != nil {
		if signal != 0 && errors.Is(err, context.Canceled) {
			return exitSignalBase + signal
		}
		code := exitOf(err, true)
		if code == exitOwnFailure && res != nil && (res.ExitCode == exitNotExec || res.ExitCode == exitNoCommand) {
			return res.ExitCode
		}
		return code
	}
	switch res.Outcome {
	case "timed_out":
		return exitTimedOut
	case "interrupted":
		if signal != 0 {
			return exitSignalBase + signal
		}
		return exitInterrupted
	case "error":
		if res.ExitCode == exitNotExec || res.ExitCode == exitNoCommand {
			return res.ExitCode
		}
		return exitOwnFailure
	}
	if res.Signal != 0 {
		return exitSignalBase + res.Signal
	}
	return res.ExitCode
}
