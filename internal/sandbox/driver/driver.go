// Package driver is the contract between the engine and what runs processes in a
// cell.
//
// A driver takes a [Spec], which says what the cell sees and what it runs, and
// carries the command's streams, signals and exit status across. Package native
// is the first driver: Linux namespaces and mounts.
//
// The package holds interfaces and plain data. It knows nothing of workspaces,
// checkpoints, policies, receipts or the store: package mount is all that it
// shares with them. A driver decides nothing about what a run may do. It does what
// its specification says, or reports exactly which step failed.
package driver

import (
	"context"
	"os"
	"time"
)

// Driver makes cells. It is safe for concurrent use.
//
// The life of a cell:
//
//  1. Resolve checks a specification. It changes nothing.
//  2. Run or Start builds the cell. Spec.Started is called when its first process
//     exists and before that process does anything, with the record that finds the
//     cell again.
//  3. With Spec.Network, Network.Serve is called before any command is executed.
//  4. Run executes one command, and the cell ends with it. A cell of Start lives
//     until it is closed; Cell.Exec executes commands in it, many at a time.
//  5. When Run or Cell.Close returns, no process of the cell exists, its network
//     is not served any more, and nothing of it is left on the host.
//  6. If the process that made the cell dies, the kernel ends the cell. Another
//     process calls Reap with the record before it touches the cell's files.
type Driver interface {
	// User returns the number of the cell's user, as the cell sees it.
	User() int
	// Resolve returns what would hold the command of s, without running anything.
	Resolve(s Spec) (Controls, error)
	// Run makes a cell, executes the command of s in it, and returns when the
	// command has ended and no process of the cell exists any more. An error means
	// that the command was not executed, mostly a *StartError. Cancelling ctx kills
	// the cell.
	Run(ctx context.Context, s Spec, stdio Stdio) (Outcome, error)
	// Start makes a cell in which no command runs yet. It lives until it is closed,
	// or ctx ends, or this process does.
	Start(ctx context.Context, s Spec) (Cell, error)
	// HeldSpace returns the disk space of files without a name that processes of a cell
	// keep, of those that were changed since the given time. A cell that has ended
	// holds nothing.
	HeldSpace(r Record, since time.Time) (int64, error)
	// Reap returns when nothing of the cell of a run is left, whose maker has died:
	// no process, and nothing on the host. The record may be empty or torn, if the
	// maker died before it was written. After limit Reap fails with
	// ErrStillRunning.
	Reap(id string, r Record, limit time.Duration) error
	// ProbeOverlay reports whether dir can hold the layers of writable overlays, by
	// making one. It leaves nothing behind.
	ProbeOverlay(ctx context.Context, dir string) error
	// Doctor reports what this host can enforce, control by control.
	Doctor(ctx context.Context) []Check
}

// Record finds a cell after its maker has died. Only the driver that made it can
// read it.
type Record []byte

// Cell is a cell that was started. It is safe for concurrent use.
type Cell interface {
	// Controls returns what holds the cell's commands.
	Controls() Controls
	// Exec executes one command and returns when it has ended. An error means that
	// it was not executed. Cancelling ctx, or the command's time-out, kills its
	// process group; the cell lives on. In a cell that has ended it fails with
	// ErrEnded.
	Exec(ctx context.Context, cmd Command, stdio Stdio) (Outcome, error)
	// Processes lists what runs in the cell. A process that starts or ends
	// meanwhile may be missed.
	Processes() ([]Process, error)
	// Usage returns what the cell's processes have used so far.
	Usage() Usage
	// Freeze stops every process of the cell and returns when all have stopped. An
	// *UnenforceableError means that the cell was not started as Freezable, or that
	// this host has no freezer.
	Freeze(ctx context.Context) error
	// Thaw lets the processes go on.
	Thaw() error
	// Terminate asks every process of the cell to end, waits until the limit, and
	// reports whether all that it asked have ended.
	Terminate(limit time.Duration) (bool, error)
	// Gone is closed when no process of the cell exists any more.
	Gone() <-chan struct{}
	// Close kills whatever runs in the cell and returns when nothing of it is left.
	Close() error
}

// Opener is implemented by cells that open files without a command.
type Opener interface {
	// Open opens a regular file of the cell for reading, with the rights of a command
	// and without waiting. Links are followed inside the cell. path is absolute. The
	// descriptor is no more to be trusted than the output of a command. An error may
	// also mean that this file can only be opened by a command.
	Open(path string) (*os.File, error)
}
