package supervise

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
)

// StartOrder is the order to a new supervisor: the request, the home, and what it
// needs to know about the caller.
type StartOrder struct {
	Home    api.Text         `json:"home"`
	Request api.StartRequest `json:"request"`
	Actor   string           `json:"actor"`
	// Caller is the id of the caller; "" is the operator.
	Caller string `json:"caller,omitempty"`
	// Bounded: the caller may give nothing that else only the operator gives.
	Bounded bool `json:"bounded,omitempty"`
	// GitName and GitEmail are the caller's identity for git.
	GitName  api.Text `json:"git_name"`
	GitEmail api.Text `json:"git_email"`
	// UserHome is the caller's home directory, Dir the caller's working directory.
	UserHome api.Text `json:"user_home"`
	Dir      api.Text `json:"dir"`
	// Env has the caller's search path, and the variables that the policy passes on.
	Env api.Texts `json:"env"`
	// Ceiling is the caller's policy that the cell's policies must be under.
	Ceiling *api.PolicyFile `json:"ceiling,omitempty"`
	// DiskLeft is how many bytes the caller's quota leaves for all cells that the supervisor
	// will have; nil is any number. Loan is the id of this loan.
	DiskLeft *int64 `json:"disk_left,omitempty"`
	Loan     string `json:"loan,omitempty"`
	// Branch, if set, is an order for branches of a checkpoint, instead of Request.
	Branch *BranchOrder `json:"branch,omitempty"`
	// Resume, if set, makes a paused cell live again, instead of Request.
	Resume *api.ResumeRequest `json:"resume,omitempty"`
	// Secrets are credentials that the caller has read. They go over a private
	// pair of sockets, never by way of arguments, variables or files.
	Secrets map[string][]byte `json:"secrets,omitempty"`
}

// DecodeOrder reads the JSON of an order.
func DecodeOrder(data []byte) (o StartOrder, err error) {
	if err := json.Unmarshal(data, &o); err != nil {
		return o, fmt.Errorf("the request of the supervisor: %w", err)
	}
	return o, nil
}

// startAnswer is a supervisor's only answer to its order, when it is ready or has
// failed.
type startAnswer struct {
	Started  *api.StartResult  `json:"started,omitempty"`
	Branched *api.BranchResult `json:"branched,omitempty"`
	Error    *api.Error        `json:"error,omitempty"`
}

// EncodeAnswer returns the JSON of a supervisor's answer.
func EncodeAnswer(res *api.StartResult, err error) ([]byte, error) {
	a := startAnswer{Started: res}
	if err != nil {
		a = startAnswer{Error: toWire(err)}
	}
	return json.Marshal(a)
}

// EncodeBranched returns the JSON of the answer to an order for branches.
func EncodeBranched(res *api.BranchResult) ([]byte, error) {
	return json.Marshal(startAnswer{Branched: res})
}

func decodeAnswer(data []byte) (a startAnswer, err error) {
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("the supervisor's answer: %w", err)
	}
	switch {
	case a.Error != nil:
		return a, fromWire("", a.Error)
	case a.Started == nil && a.Branched == nil:
		return a, errors.New("the supervisor's answer is empty")
	}
	return a, nil
}

// DecodeAnswer reads a supervisor's answer.
func DecodeAnswer(data []byte) (*api.StartResult, error) {
	a, err := decodeAnswer(data)
	if err == nil && a.Started == nil {
		err = errors.New("the supervisor's answer is to another order")
	}
	return a.Started, err
}

// DecodeBranched reads a supervisor's answer to an order for branches.
func DecodeBranched(data []byte) (*api.BranchResult, error) {
	a, err := decodeAnswer(data)
	if err == nil && a.Branched == nil {
		err = errors.New("the supervisor's answer is to another order")
	}
	return a.Branched, err
}

// IsFailure reports whether a supervisor's answer is a failure, after which it ends.
func IsFailure(answer []byte) bool {
	_, err := decodeAnswer(answer)
	return err != nil
}
