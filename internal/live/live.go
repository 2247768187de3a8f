// Package live is the protocol between a live cell's supervisor and the commands
// that use the cell: framing, sessions, replay, and both ends of the socket.
//
// The supervisor calls [Listen] and [Serve] and hands in a [Host], which does the
// real work. Everyone else calls [Dial]. The bytes on the socket are described in
// docs/formats/live-protocol.md, and why they are as they are in decision 0013.
//
// A session is one command that was started through the socket. It belongs to
// the server, not to the connection that asked for it: other connections can
// attach to it, and its exit is remembered for a while after it has ended.
//
// The package knows no driver, store, policy or cell: what is called by
// [Client.Call] is opaque to it, and processes are whatever the Host says.
package live

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// Host is what a server serves. Its methods are called by many goroutines at
// once.
//
// Failures that a client should understand are an [*Error] or, from Exec, a
// [*StartError]; of any other error the client sees the text.
type Host interface {
	// Exec starts a command and returns when it runs. ctx ends when the server
	// does, by which time the command has been killed through its Process.
	Exec(ctx context.Context, c Command, streams Streams) (Process, error)
	// Processes lists what runs in the cell, whoever started it.
	Processes(ctx context.Context) ([]ProcessInfo, error)
	// Call does anything else, for as long as it takes. ctx ends when the client
	// goes away or the server is told to end; a method that must be finished once
	// it has begun continues on context.WithoutCancel. Its answer is delivered
	// even so: Serve does not return before.
	Call(ctx context.Context, method string, request json.RawMessage) (json.RawMessage, error)
}

// Process is a command that a Host has started.
type Process interface {
	// ID names the command, uniquely for the life of the server.
	ID() string
	// Wait returns when the command has ended and everything that it printed has
	// been written to its streams. It is called once, and must return soon after
	// Signal(SIGKILL).
	Wait() Exit
	// Signal sends a signal to the command's process group. Neither it nor
	// Resize blocks, and both are harmless after the end.
	Signal(signal int) error
	Resize(size api.WindowSize) error
}

// Streams are the ends of a command's streams that face away from it.
type Streams struct {
	// In is the command's input; nil means that it has none. For a Host it ends
	// by itself when the command does. For a client, a reader that is blocked
	// when the command ends is left behind, since nothing can interrupt it; one
	// that fails with ErrDetached leaves the session.
	In io.Reader
	// Out and Err take what the command prints; with a terminal, everything goes
	// to Out. A client may leave them nil, which discards. A writer that fails
	// closes the stream: the command then meets a broken pipe.
	Out, Err io.Writer
}

// Command is what to start.
type Command struct {
	// Args and Env hold any bytes but zero.
	Args, Env []string
	// Workdir and User are the Host's defaults if empty.
	Workdir, User string
	// TTY gives the command a terminal of this size.
	TTY  bool
	Size api.WindowSize
	// Stdin says that the command has an input.
	Stdin bool
	// Timeout ends the command; 0 = never. It is the Host that keeps it.
	Timeout time.Duration
	// Detachable keeps the command running when the last client has gone.
	// Without it, the command is hung up then, and killed if that is not enough.
	Detachable bool
}

// Exit is how a command ended.
type Exit struct {
	// Code is the exit code, as a shell would give it.
	Code int `json:"code"`
	// Signal is the signal that killed the command, or 0.
	Signal int `json:"signal"`
	// TimedOut says that Command.Timeout passed.
	TimedOut bool `json:"timed_out"`
	// Killed says that the command was ended from outside: with the cell, or
	// because its clients had gone.
	Killed bool `json:"killed"`
}

// ProcessInfo is a process of the cell.
type ProcessInfo struct {
	// PID and PPID are those inside the cell.
	PID, PPID int
	// UID is the user inside the cell.
	UID int
	// State is the kernel's letter.
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
	// Args is the command line: any bytes. Of a very long one it is the
	// beginning, and ArgsCut is set.
	Args       []string
	ArgsCut    bool
	TTY        bool
	Detachable bool
	Started    time.Time
	// Ended is zero while the command runs, and Exit means nothing.
	Ended time.Time
	Exit  Exit
	// Clients is the number of clients attached now.
	Clients int
	// Output is the number of bytes printed so far; Kept of them, the last ones,
	// can be replayed.
	Output, Kept uint64
}

// Running says that the command has not ended.
func (s Session) Running() bool { return s.Ended.IsZero() }
