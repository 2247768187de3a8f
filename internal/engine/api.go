package engine

import (
	"io"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/publication"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// DiffResult holds the changes, and opens the files behind them.
type DiffResult struct {
	api.DiffResult

	each func(func(tree.Change) error) error

	// Text, if set, returns the comparison as text, instead of Each and Open: a patch,
	// or changed lines of each file.
	Text func(stat bool) (io.ReadCloser, error) `json:"-"`

	// RawAside are the changes of SetAside.
	RawAside []tree.Change `json:"-"`

	Raw  []tree.Change                                                    `json:"-"`
	Open func(side int, path string, e tree.Entry) (io.ReadCloser, error) `json:"-"` // side 0 = from, 1 = to
	// Control returns what makes control files of changes, by their paths, old ones too. It
	// agrees with what an apply to the source directory holds back.
	Control func(changes []tree.Change) (map[string]string, error) `json:"-"`
}

// Each calls fn for every change, in the order of their paths.
func (r *DiffResult) Each(fn func(tree.Change) error) error {
	if r.each != nil {
		return r.each(fn)
	}
	for _, ch := range r.Raw {
		if err := fn(ch); err != nil {
			return err
		}
	}
	return nil
}

// EachAside calls fn for every change that is set aside.
func (r *DiffResult) EachAside(fn func(tree.Change) error) error {
	for _, ch := range r.RawAside {
		if err := fn(ch); err != nil {
			return err
		}
	}
	return nil
}

// ReceivedWork is what a daemon's cell has accepted, for its mirror to publish.
type ReceivedWork = publication.ReceivedWork

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
