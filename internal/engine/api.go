package engine

import (
	"io"
	"os"

	"github.com/forkcell/forkcell/internal/engine/diff"
	"github.com/forkcell/forkcell/internal/engine/publication"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// ReceivedWork is what a daemon's cell has accepted, for its mirror to publish.
type ReceivedWork = publication.ReceivedWork

// DiffResult is the answer of Diff.
type DiffResult = diff.Result

// Stdio carries a run's streams.
type Stdio struct {
	In     io.Reader // nil = the cell's /dev/null
	Out    io.Writer
	Err    io.Writer
	Resize <-chan driver.WindowSize
	// Signals are passed on to the command; the first makes the outcome
	// "interrupted". A signal before or after the command ends the work at once,
	// and the next command finishes it.
	Signals <-chan os.Signal
	// Begun, if set, is called with the id of a run when it is recorded.
	Begun func(run string)
	// Started, if set, is called with the id of a session in a live cell, before
	// its first output.
	Started func(session string)
	// Ended, if set, is called when no process of the command is left.
	Ended func()
}

// AsideHeading is the heading of changes that are set aside.
const AsideHeading = "Set aside (control files; apply writes them only with --allow-control PATTERN):"
