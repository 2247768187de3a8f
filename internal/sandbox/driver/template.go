package driver

import (
	"context"
	"errors"
)

// ErrNotWarm means that a cell has no process that could be copied.
var ErrNotWarm = errors.New("the cell is not warm")

// ErrNotConfined means that a copy was killed, because it holds something of its
// template that a branch must not have.
var ErrNotConfined = errors.New("the copy is not confined")

// ErrNotReady means that a copy failed at what it does before it is used: it seeds its
// random numbers, and calls what FORKCELL_AFTER_FORK names.
var ErrNotReady = errors.New("the copy did not get ready")

// ErrHeld means that nothing can be executed in a template that is warm.
var ErrHeld = errors.New("the template is warm, and stands still")

// WarmVariable names the socket for a command with Command.Warm.
const WarmVariable = "FORKCELL_WARM_FD=3"

// Template is a cell that was started with Spec.Template. Copies of its warm process
// become cells of their own, its branches, which have that process's memory.
//
// A template holds its commands less tightly than another cell: see its controls.
// Its branches have every control.
type Template interface {
	Cell
	// AwaitWarm returns when the command that was executed with Command.Warm says
	// that it is warm. From then on every process of the template is stopped, but for
	// the moments in which a copy is made, and Exec fails with ErrHeld. An error of ErrNotWarm says why the
	// template will never be warm.
	AwaitWarm(ctx context.Context) error
	// UncopiedProcesses returns the processes of a warm template that its branches do not have:
	// all but the warm one, and those that have started it.
	UncopiedProcesses() ([]Process, error)
	// Expect says that branches will be made in a moment, so that what takes long can
	// begin. The caller calls made when they are made.
	Expect() (made func())
	// Branch makes a cell with a copy of the warm process. Many may be made at a
	// time. A branch outlives its template, and ends with the process that made it.
	Branch(ctx context.Context, b Branch) (Child, error)
}

// Branch says what a branch is made of.
type Branch struct {
	// Spec is that of its cell. Of the command, Env is added to the environment of
	// the copied process, and Workdir is its directory.
	Spec
	// Number is told to the copied process.
	Number int
	// Stdio takes the output of the copied process, which has no input.
	Stdio Stdio
}

// Child is the cell of a branch.
type Child interface {
	Cell
	// Ask sends a question to the copied process and returns its answer, both in
	// JSON. Questions are asked one after the other. When ctx ends, a question that
	// waits for another one is not sent, and a process that works on it gets SIGINT;
	// Ask returns when it has answered. Another error means that there is no answer,
	// and none to later questions either.
	Ask(ctx context.Context, question []byte) (answer []byte, err error)
	// CopyEnded is closed when the copied process has ended, and all of its output
	// has been copied.
	CopyEnded() <-chan struct{}
	// CopyOutcome returns how the copied process has ended, once it has.
	CopyOutcome() Outcome
}
