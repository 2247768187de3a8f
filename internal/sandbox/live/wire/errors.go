package wire

import (
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

// ErrNoServer means that no server listens at the path: the cell is not
// started, or its supervisor was killed.
var ErrNoServer = errors.New("no supervisor listens")

// ErrLost means that the connection ended before the answer: the supervisor
// died, or dropped a client that blocked others.
var ErrLost = errors.New("the connection to the supervisor was lost")

// ErrDetached is returned by Exec and Attach after the client has left the
// session on purpose: the reader of its input failed with this error. The
// command is still running.
var ErrDetached = execwire.ErrDetached

// ErrInUse means that another server listens at the path.
var ErrInUse = errors.New("another supervisor listens")

// StartError is the error for a command that could not be started.
type StartError struct {
	// Step is what failed, such as "workdir" or "exec".
	Step    string `json:"step"`
	Message string `json:"message"`
	// NotFound and NotExecutable distinguish the two failures of the command
	// itself from those of the cell.
	NotFound      bool `json:"not_found,omitempty"`
	NotExecutable bool `json:"not_executable,omitempty"`
}

func (e *StartError) Error() string { return e.Step + ": " + e.Message }

// protocolError returns the error for a peer that breaks the protocol.
func protocolError(format string, args ...any) *api.Error {
	return &api.Error{Kind: api.Failed, Code: api.CodeProtocol, Message: "live protocol: " + fmt.Sprintf(format, args...)}
}

// wireError is a failure as it is sent: one of the two fields is set.
type wireError struct {
	Error *api.Error  `json:"error,omitempty"`
	Start *StartError `json:"start,omitempty"`
}

func toWire(err error) wireError {
	if e, ok := errors.AsType[*StartError](err); ok {
		return wireError{Start: e}
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		c := *e
		c.Message = err.Error() // with the text of the errors that wrap it
		return wireError{Error: &c}
	}
	return wireError{Error: &api.Error{Kind: api.Failed, Code: api.CodeFailed, Message: err.Error()}}
}

func (w wireError) err() error {
	switch {
	case w.Start != nil:
		return w.Start
	case w.Error != nil:
		return w.Error
	default:
		return protocolError("a failure without a reason")
	}
}
