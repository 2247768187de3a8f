package cell

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/gateway"
	"github.com/forkcell/forkcell/internal/live"
	"github.com/forkcell/forkcell/internal/policy"
)

// The methods that a supervisor answers, besides those of the protocol itself.
const (
	callStop       = "stop"
	callCheckpoint = "checkpoint"
	callOutput     = "output"
	callPolicy     = "policy"
)

type stopCall struct {
	GraceUS int64 `json:"grace_us"`
}

type checkpointCall struct {
	Name string `json:"name"`
}

// outputCall asks for output from a place on; with Wait, when there is some.
type outputCall struct {
	Run  string `json:"run"`
	From uint64 `json:"from"`
	Wait bool   `json:"wait"`
}

// policyCall brings a policy, and the values of credentials, which are held in
// memory on both sides and nowhere else.
type policyCall struct {
	Name   []byte            `json:"name"`
	Text   []byte            `json:"text"`
	Values map[string][]byte `json:"values,omitempty"`
}

// outputPart is a part of a live cell's output.
type outputPart struct {
	Chunks []outputChunk `json:"chunks"`
	// Next is where the next part begins, Skipped how many bytes before this one
	// are not kept any more.
	Next    uint64 `json:"next"`
	Skipped uint64 `json:"skipped"`
	// Ended says that nothing will follow.
	Ended bool `json:"ended"`
}

type outputChunk struct {
	Stderr bool   `json:"stderr,omitempty"`
	Data   []byte `json:"data"`
}

// StartOrder is what a supervisor is told to do: the request, the home it is
// about, and what it needs of the caller, whose process it is not.
type StartOrder struct {
	Home    string           `json:"home"`
	Request api.StartRequest `json:"request"`
	Actor   string           `json:"actor"`
	// GitName and GitEmail are who the caller is to git.
	GitName  api.Text `json:"git_name"`
	GitEmail api.Text `json:"git_email"`
	// UserHome is the caller's home directory, Dir the caller's working directory.
	UserHome api.Text `json:"user_home"`
	Dir      api.Text `json:"dir"`
	// Env has the caller's search path, and the variables that the policy passes on.
	Env api.Texts `json:"env"`
	// Secrets are credentials that the caller has read. They go over a private
	// pair of sockets, never by way of arguments, variables or files.
	Secrets map[string][]byte `json:"secrets,omitempty"`

	Values gateway.Values `json:"-"`
}

// encodeStart makes the order that DecodeStart reads.
func (e *Engine) encodeStart(q api.StartRequest, p *policy.Policy, secrets map[string][]byte) ([]byte, error) {
	o := StartOrder{
		Home: e.home, Request: q, Actor: e.caller.Actor(), UserHome: api.Text(e.caller.Home), Dir: api.Text(e.caller.Dir), Env: e.caller.inherited(p), Secrets: secrets,
	}
	git := e.caller.git()
	o.GitName, o.GitEmail = api.Text(git.Name), api.Text(git.Email)
	if path, ok := e.caller.lookupEnv("PATH"); ok {
		o.Env = append(o.Env, "PATH="+path)
	}
	return json.Marshal(o)
}

// DecodeStart reads the order that a Launcher handed over.
func DecodeStart(data []byte) (o StartOrder, err error) {
	if err := json.Unmarshal(data, &o); err != nil {
		return o, fmt.Errorf("the request of the supervisor: %w", err)
	}
	if o.Values, err = gateway.TakeValues(o.Secrets); err != nil {
		return o, api.Usagef("", "%v", err)
	}
	return o, nil
}

// Caller returns the one who gave the order, as far as the order tells.
func (o StartOrder) Caller() Caller {
	return Caller{
		Actor: func() string { return o.Actor }, Git: func() GitUser { return GitUser{Name: string(o.GitName), Email: string(o.GitEmail)} },
		Env: o.Env, Home: string(o.UserHome), Dir: string(o.Dir),
	}
}

// startAnswer is what a supervisor says once, when it is ready or has failed.
type startAnswer struct {
	Started *api.StartResult `json:"started,omitempty"`
	Error   *api.Error       `json:"error,omitempty"`
}

// EncodeAnswer is a supervisor's answer, for its Launcher.
func EncodeAnswer(res *api.StartResult, err error) ([]byte, error) {
	a := startAnswer{Started: res}
	if err != nil {
		a = startAnswer{Error: toLive(err)}
	}
	return json.Marshal(a)
}

// IsFailure tells of a supervisor's answer that it ends, and is no promise.
func IsFailure(answer []byte) bool {
	_, err := decodeAnswer(answer)
	return err != nil
}

func decodeAnswer(data []byte) (*api.StartResult, error) {
	var a startAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("the supervisor's answer: %w", err)
	}
	switch {
	case a.Error != nil:
		return nil, fromLive("", a.Error)
	case a.Started == nil:
		return nil, errors.New("the supervisor's answer is empty")
	}
	return a.Started, nil
}

// toLive is a failure as it crosses a socket.
func toLive(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		out := *e
		out.Message = err.Error() // with the words of those who wrapped it
		return &out
	}
	return &api.Error{Kind: api.Failed, Code: api.CodeFailed, Message: err.Error()}
}

// fromLive is a failure that came over a socket.
func fromLive(cell string, err error) error {
	switch {
	case errors.Is(err, live.ErrNoServer):
		// Its lock was held a moment ago, or nobody would have been asked.
		return &api.Error{
			Kind: api.Busy, Code: api.CodeBusy, Message: fmt.Sprintf("cell %s is being started or stopped", cell), Hint: "try again", Err: err,
		}
	case errors.Is(err, live.ErrLost):
		return lostLive(cell, err)
	}
	return err
}

// lostLive is the end of a supervisor that had answered before.
func lostLive(cell string, err error) error {
	return &api.Error{
		Kind: api.Failed, Code: api.CodeLost, Message: fmt.Sprintf("the supervisor of cell %s has died", cell),
		Hint: "`forkcell checkpoint " + cell + "` finishes its run", Err: err,
	}
}
