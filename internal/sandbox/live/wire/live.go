// Package wire is the protocol between a live cell's supervisor and the commands
// that use the cell: framing, sessions, replay, and both ends of the socket.
//
// The supervisor calls [Listen] and [Serve] and passes a [Host], which does the
// real work. Clients use [NewClient]. The bytes on the socket are described in
// docs/formats/live-protocol.md, and the reasons in decision 0013.
//
// A session is one command that was started through the socket. It belongs to
// the server, not to the connection that requested it: other connections can
// attach to it, and its exit is remembered for a while after it has ended.
//
// The package knows no driver, store, policy or cell: requests of [Client.Call]
// are opaque to it, and the Host defines the processes.
package wire

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// Host does the work of a server. Its methods must be safe for concurrent use.
//
// Failures that a client should understand are an [*Error] or, from Exec, a
// [*StartError]; of any other error the client gets the text.
type Host interface {
	// Exec starts a command and returns when it runs. ctx ends when the server
	// does; by then the command has been killed through its Process.
	Exec(ctx context.Context, c Command, streams Streams) (Process, error)
	// Processes lists all processes of the cell.
	Processes(ctx context.Context) ([]ProcessInfo, error)
	// Call handles any other request, for as long as it takes. ctx ends when
	// the client disconnects or the server ends; a method that must
	// not be interrupted continues on context.WithoutCancel. Serve waits for it
	// and delivers its answer.
	Call(ctx context.Context, method string, request json.RawMessage) (json.RawMessage, error)
}

// Process is a command that a Host has started.
type Process interface {
	// ID names the command, uniquely for the life of the server.
	ID() string
	// Wait returns when the command has ended and all of its output has been
	// written to its streams. It is called once, and must return soon after
	// Signal(SIGKILL).
	Wait() Exit
	// Signal sends a signal to the command's process group. Neither it nor
	// Resize blocks, and both are harmless after the end.
	Signal(signal int) error
	Resize(size api.WindowSize) error
}

// Streams are the other ends of a command's streams.
type Streams struct {
	// In is the command's input; nil means that it has none. For a Host it ends
	// when the command does. For a client, a reader that is blocked when the
	// command ends is left behind, since nothing can interrupt it; one that
	// fails with ErrDetached leaves the session.
	In io.Reader
	// Out and Err receive the command's output; with a terminal, everything
	// goes to Out. A client may leave them nil to discard it. A writer that
	// fails closes the stream: the command then gets a broken pipe.
	Out, Err io.Writer
	// Ended is for a Host, which calls it when the command has ended, before it records
	// that or reports it.
	Ended func()
}

// Command describes a command to start.
type Command struct {
	// Args and Env hold any bytes but zero.
	Args, Env []string
	// Workdir and User are the Host's defaults if empty.
	Workdir, User string
	// TTY gives the command a terminal of this size.
	TTY  bool
	Size api.WindowSize
	// Stdin reports that the command has an input.
	Stdin bool
	// Timeout ends the command; 0 means never. The Host enforces it.
	Timeout time.Duration
	// Detachable keeps the command running when the last client has
	// disconnected. Otherwise the command then gets SIGHUP, and is killed if it
	// does not end.
	Detachable bool
	// Main makes the Host end the cell when the command ends.
	Main bool
}

// Exit describes how a command ended.
type Exit struct {
	// Code is the exit code, as a shell reports it.
	Code int `json:"code"`
	// Signal is the signal that killed the command, or 0.
	Signal int `json:"signal"`
	// TimedOut reports that Command.Timeout passed.
	TimedOut bool `json:"timed_out"`
	// Killed reports that the command was ended from outside: with the cell, or
	// because its clients had disconnected.
	Killed bool `json:"killed"`
	// EndedBy is the request by which the whole cell was ended: one of api.EndedBy, or "".
	EndedBy string `json:"ended_by,omitempty"`
}

// ProcessInfo is a process of the cell.
type ProcessInfo struct {
	// PID and PPID are those inside the cell.
	PID, PPID int
	// UID is the user inside the cell.
	UID int
	// State is the kernel's letter for the state.
	State string
	// Session is the id of the session that the process belongs to, if known.
	Session string
	Started time.Time
	// CPU is the processor time used, RSS the resident memory in bytes.
	CPU time.Duration
	RSS int64
	// Args is the command line: any bytes.
	Args []string
}

// Session describes a command that was started through the socket.
type Session struct {
	ID string
	// Args is the command line: any bytes. If it is very long, only the
	// beginning is kept and ArgsCut is set.
	Args       []string
	ArgsCut    bool
	TTY        bool
	Detachable bool
	// Main means that the cell ends with the command.
	Main    bool
	Started time.Time
	// Ended is zero while the command runs; Exit is valid only afterwards.
	Ended time.Time
	Exit  Exit
	// Clients is the number of clients attached now.
	Clients int
	// Output is the number of bytes printed so far; Kept of them, the last ones,
	// can be replayed.
	Output, Kept uint64
}

// Running reports whether the command has not ended.
func (s Session) Running() bool { return s.Ended.IsZero() }
