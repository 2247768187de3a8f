package driver

import (
	"context"
	"time"
)

// Saver is a cell whose processes and memory can be saved while it lives.
type Saver interface {
	Cell
	// Save writes all processes of the cell, with their memory, to new files in dir,
	// which must exist and be private. still is called when every process stands still
	// and before any goes on: what it captures of the cell's files is of the same
	// moment. The cell goes on afterwards, also when Save fails.
	Save(ctx context.Context, dir string, still func() error) (Saved, error)
	// Suspend saves the cell as Save does, and calls keep when all is written and every
	// process still stands. If keep succeeds, so does Suspend: no process goes on, and
	// the caller closes the cell. Otherwise the cell goes on.
	Suspend(ctx context.Context, dir string, still, keep func() error) (Saved, error)
}

// Saved describes what was saved.
type Saved struct {
	// Pause is how long the processes have stood still.
	Pause time.Duration
	// Bytes is the size of the files.
	Bytes int64
}

// SavedError means that what was saved cannot be used: it is of other programs, or of a
// cell of another kind.
type SavedError struct {
	Reason string
	Remedy string // or empty
}

func (e *SavedError) Error() string { return e.Reason }

// Restorer is a driver that makes cells of what a Saver has saved.
type Restorer interface {
	// Restore makes a cell whose processes go on as they were saved in dir, with the
	// files, the network and the name that s describes. The paths that can be written
	// must be those of the saved cell. Connections to outside are closed, and nobody
	// attends the output of its commands. The files of the cell must be those of the
	// moment of the saving. What it cannot use is a SavedError.
	Restore(ctx context.Context, s Spec, dir string) (Cell, error)
}
