// Package driver runs processes in a cell.
//
// A driver takes a [Spec], which says what the cell sees and what it runs, and
// carries the command's streams, signals and exit status across. The first
// driver is [Native]: Linux namespaces and mounts, made by this same binary
// re-executed as the cell's first process (see [InitMain]).
//
// The package knows nothing of workspaces, checkpoints, receipts or the store:
// package mount is all that it shares with them. It decides nothing about what
// a run may do; it does what it is told, or says exactly which step failed.
package driver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/forkcell/forkcell/internal/mount"
)

// Spec says what a cell is made of, and for [Native.Run] what runs in it.
type Spec struct {
	// ID names the run in messages.
	ID string
	// Hostname is the cell's name.
	Hostname string
	// FullName is what the cell's user is called besides its login name, for git
	// and others that ask the list of accounts; "" = nothing of its own.
	FullName string
	// Mounts are the workspace, the home, the private /tmp and so on.
	Mounts mount.Set
	// ReadOnly holds host paths shown at the same path, read-only.
	ReadOnly []string
	System   System
	// AsRoot makes the command root in the cell, with what it takes to install
	// packages, and nobody on the host. Only a root caller can have that.
	AsRoot bool
	Guard  Guard
	// Network, if set, brings every connection of the cell to the host side;
	// otherwise the cell has only a loopback of its own.
	Network *Network
	Limits  Limits
	// Freezable makes a cell that can be frozen, where the host can do that.
	Freezable bool
	// Started is called when the first process exists and before it does
	// anything, so that its pid can be recorded for crash recovery. An error
	// ends the run.
	Started func(initPID int) error
	// Command is what Run executes.
	Command
}

// Command is one program in a cell.
type Command struct {
	// Args[0] is looked up in the cell along Env's PATH.
	Args []string
	// Env is the command's whole environment.
	Env []string
	// Workdir is an absolute path in the cell.
	Workdir string
	// TTY gives the command a terminal of the cell's own, of the given size.
	TTY  bool
	Size WindowSize
	// Timeout ends the command when it has run that long, and with Run the whole
	// cell; 0 = never.
	Timeout time.Duration
	// Executed, if set, is called with the command's pid inside the cell.
	Executed func(pid int)
}

// WindowSize is a terminal's size in characters.
type WindowSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Stdio is the caller's side of the command's streams. None of it is handed to
// the cell: bytes are copied.
type Stdio struct {
	// In feeds the command's standard input; nil means /dev/null. A reader that
	// is blocked when the command ends is left behind, since nothing can
	// interrupt it.
	In io.Reader
	// Out and Err take the streams, as they come; nil discards. With a terminal
	// everything goes to Out. A writer that fails closes the stream: the command
	// then meets a broken pipe, as it would without a cell.
	Out, Err io.Writer
	// Resize changes the terminal's size.
	Resize <-chan WindowSize
	// Signals are sent to the command's process group.
	Signals <-chan os.Signal
}

// Outcome is how a command that was started has ended.
type Outcome struct {
	// Code is the command's exit code, 128+Signal when a signal ended it, 124
	// when it ran out of time.
	Code int
	// Signal is the signal that killed the command, or 0.
	Signal int
	// TimedOut says that Spec.Timeout passed.
	TimedOut bool
	// Killed says that the whole cell was killed: by the caller's context, or
	// by someone else on the host.
	Killed bool
	// StartTook is the time until the command was executed, CommandTook from
	// then to its end.
	StartTook, CommandTook time.Duration
	Controls               Controls
	Usage                  Usage
	// Refused counts the attempts of the command's cell to send something to where
	// nothing is: names asked for and connections in a cell without a network.
	Refused int64
}

// Usage is what the cell's processes have used; -1 where it was not counted.
type Usage struct {
	MemoryPeak int64 `json:"memory_peak"`
	CPUMicros  int64 `json:"cpu_us"`
	// OOMKills counts processes killed for memory, PIDsHits those that could not
	// be started.
	OOMKills int64 `json:"oom_kills"`
	PIDsHits int64 `json:"pids_hits"`
}

// Controls says what holds the command, as achieved, in words for a receipt.
type Controls struct {
	Runtime      string   `json:"runtime"`
	Kernel       string   `json:"kernel"`
	Namespaces   []string `json:"namespaces"`
	User         string   `json:"user"`
	NoNewPrivs   bool     `json:"no_new_privs"`
	Capabilities string   `json:"capabilities"`
	Network      string   `json:"network"`
	Landlock     string   `json:"landlock"`
	Seccomp      string   `json:"seccomp"`
	Limits       string   `json:"limits"`
	MountAPI     string   `json:"mount_api"`
	Degraded     []string `json:"degraded"`
}

// Check is one line of what this host can enforce. Status is "works",
// "degraded" or "missing".
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// ErrSpec marks a Spec that no driver could run.
var ErrSpec = errors.New("bad specification")

// StartError says which step kept the command from being executed.
type StartError struct {
	// Step is the failing step, such as "namespaces", "overlay /src" or "workdir".
	Step string
	Err  error
	// NotFound and NotExecutable tell the two failures that are the command's
	// own from those of the cell.
	NotFound, NotExecutable bool
}

func (e *StartError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }

func (e *StartError) Unwrap() error { return e.Err }

// at marks err as the failure of a step; nil stays nil.
func at(step string, err error) error {
	if err == nil {
		return nil
	}
	var known *StartError
	if errors.As(err, &known) {
		return err
	}
	return &StartError{Step: step, Err: err}
}
