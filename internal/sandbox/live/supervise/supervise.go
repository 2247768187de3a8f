// Package supervise implements both sides of a live cell, its supervisor and its
// clients: commands, output, copies, forwarded ports, and the end of the cell.
//
// A live cell belongs to a supervisor: a process that holds the cell's lock from
// start to stop, and serves the others on a socket. [Host] is the supervisor's side,
// [Client] the side of the others. The package knows the protocol and the driver's
// cell. It knows no store, no workspace and no policy: its caller passes the
// functions that record, seal and decide.
package supervise

import (
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

// The methods that a supervisor answers, besides those of the protocol itself.
const (
	callStop       = "stop"
	callCheckpoint = "checkpoint"
	callOutput     = "output"
	callPolicy     = "policy"
	callPause      = "pause"
	callResume     = "resume"
	callState      = "state"
	callExpire     = "expire"
	callRead       = "read"
	callBranch     = "branch"
	callUnbranch   = "unbranch"
	callEval       = "eval"
	callTurn       = "turn"
)

// turnCall requests a turn. By is its cause, Asked how many programs asked for it.
type turnCall struct {
	By    string `json:"by,omitempty"`
	Asked int64  `json:"asked,omitempty"`
}

type stopCall struct {
	GraceUS int64  `json:"grace_us"`
	For     string `json:"for,omitempty"` // see api.StopRequest
}

type checkpointCall struct {
	Name   string `json:"name"`
	Memory bool   `json:"memory,omitempty"`
}

// outputCall requests output from an offset on; with Wait, it waits for some.
type outputCall struct {
	Run  string `json:"run"`
	From uint64 `json:"from"`
	Wait bool   `json:"wait"`
}

// policyCall has a policy, and the values of credentials, which both sides hold in
// memory and nowhere else.
type policyCall struct {
	Name   []byte            `json:"name"`
	Text   []byte            `json:"text"`
	Path   api.Text          `json:"path,omitempty"`
	Grants api.GrantRequest  `json:"grants,omitzero"`
	Values map[string][]byte `json:"values,omitempty"`
}

// outputPart is a part of a live cell's output.
type outputPart struct {
	Chunks []outputChunk `json:"chunks"`
	// Next is where the next part begins, Skipped how many bytes before this one
	// are not kept any more.
	Next    uint64 `json:"next"`
	Skipped uint64 `json:"skipped"`
	// Ended reports that nothing will follow.
	Ended bool `json:"ended"`
}

type outputChunk struct {
	Stderr bool   `json:"stderr,omitempty"`
	Data   []byte `json:"data"`
}

// toWire returns an error as it crosses a socket.
func toWire(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		out := *e
		out.Message = err.Error() // with the text of all wrapping errors
		return &out
	}
	return &api.Error{Kind: api.Failed, Code: api.CodeFailed, Message: err.Error()}
}

// fromWire returns an error that came over the socket of a cell.
func fromWire(cell string, err error) error {
	switch {
	case errors.Is(err, wire.ErrNoServer):
		// Its lock was held a moment ago, or there would be no client.
		return &api.Error{
			Kind: api.Busy, Code: api.CodeBusy, Message: fmt.Sprintf("cell %s is being started or stopped", cell), Hint: "try again", Err: err,
		}
	case errors.Is(err, wire.ErrLost):
		return lostError(cell, err)
	}
	return err
}

// lostError returns the error of a supervisor that answered before and is gone.
func lostError(cell string, err error) error {
	return &api.Error{
		Kind: api.Failed, Code: api.CodeLost, Message: fmt.Sprintf("the supervisor of cell %s has died", cell),
		Hint: "`forkcell checkpoint " + cell + "` finishes its run", Err: err,
	}
}
