package cell

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/gateway"
	"github.com/forkcell/forkcell/internal/live"
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

// startWire is a StartRequest for another process. What may be no UTF-8 goes as
// bytes.
type startWire struct {
	Home          string   `json:"home"`
	Cell          string   `json:"cell"`
	Env           [][]byte `json:"env"`
	Inherit       [][]byte `json:"inherit"`
	Workdir       []byte   `json:"workdir"`
	ReadOnly      [][]byte `json:"read_only"`
	TimeoutUS     int64    `json:"timeout_us"`
	WaitUS        int64    `json:"wait_us"`
	PolicyName    []byte   `json:"policy_name"`
	Policy        []byte   `json:"policy"`
	HasPolicy     bool     `json:"has_policy"`
	PolicyPath    []byte   `json:"policy_path"`
	GrantPaths    [][]byte `json:"grant_paths"`
	GrantEnv      [][]byte `json:"grant_env"`
	ConfigFile    []byte   `json:"config_file"`
	Memory        int64    `json:"memory"`
	CPUs          int64    `json:"cpus"`
	PIDs          int64    `json:"pids"`
	AllowDegraded bool     `json:"allow_degraded"`
	Root          string   `json:"root"`
	AsRoot        bool     `json:"as_root"`
	Cache         string   `json:"cache"`
	Resolve       []string `json:"resolve"`
	CA            []byte   `json:"ca"`
	SearchPath    []byte   `json:"search_path"`
	GitName       []byte   `json:"git_name"`
	GitEmail      []byte   `json:"git_email"`
	// Values are credentials that the caller has read. They go over a private
	// pair of sockets, never by way of arguments, variables or files.
	Values map[string][]byte `json:"values,omitempty"`
}

// encodeStart makes the request that DecodeStart reads. inherited are the
// variables of the caller's that the policy lets in, values the credentials.
func encodeStart(home string, q StartRequest, inherited []string, values map[string][]byte) ([]byte, error) {
	w := &startWire{
		Home: home, Cell: q.Cell, Env: bytesOf(q.Env), Inherit: bytesOf(inherited),
		Workdir: []byte(q.Workdir), ReadOnly: bytesOf(q.ReadOnly),
		TimeoutUS: q.Timeout.Microseconds(), WaitUS: q.Wait.Microseconds(),
		Memory: q.Memory, CPUs: q.CPUs, PIDs: q.PIDs, AllowDegraded: q.AllowDegraded, Root: q.Root, AsRoot: q.AsRoot, Cache: q.Cache,
		Resolve: q.Network.Resolve, CA: q.Network.CA, Values: values,
		SearchPath: []byte(q.SearchPath), GitName: []byte(q.GitName), GitEmail: []byte(q.GitEmail),
		GrantPaths: bytesOf(q.Grants.Paths), GrantEnv: bytesOf(q.Grants.Env), ConfigFile: []byte(q.Grants.ConfigFile),
	}
	if q.Policy != nil {
		w.PolicyPath = []byte(q.Policy.Path)
		w.HasPolicy, w.PolicyName, w.Policy = true, []byte(q.Policy.Name), q.Policy.Text
	}
	return json.Marshal(w)
}

// DecodeStart reads the request that a Launcher handed over, with the home that
// it is about.
func DecodeStart(data []byte) (home string, q StartRequest, err error) {
	var w startWire
	if err := json.Unmarshal(data, &w); err != nil {
		return "", q, fmt.Errorf("the request of the supervisor: %w", err)
	}
	values, err := gateway.TakeValues(w.Values)
	if err != nil {
		return "", q, usage("", "%v", err)
	}
	q = StartRequest{
		Cell: w.Cell, Env: stringsOf(w.Env), Workdir: string(w.Workdir), ReadOnly: stringsOf(w.ReadOnly),
		Timeout: time.Duration(w.TimeoutUS) * time.Microsecond, Wait: time.Duration(w.WaitUS) * time.Microsecond,
		Memory: w.Memory, CPUs: w.CPUs, PIDs: w.PIDs, AllowDegraded: w.AllowDegraded, Root: w.Root, AsRoot: w.AsRoot, Cache: w.Cache,
		Network:    NetworkRequest{Resolve: w.Resolve, CA: w.CA, Values: values},
		CallerInfo: CallerInfo{SearchPath: string(w.SearchPath), GitName: string(w.GitName), GitEmail: string(w.GitEmail)},
		Grants:     GrantRequest{Paths: stringsOf(w.GrantPaths), Env: stringsOf(w.GrantEnv), ConfigFile: string(w.ConfigFile)},
	}
	if w.HasPolicy {
		q.Policy = &PolicyFile{Name: string(w.PolicyName), Text: w.Policy, Path: string(w.PolicyPath)}
	}
	q.Inherit = func(name string) (string, bool) {
		for _, kv := range w.Inherit {
			if n, value, _ := strings.Cut(string(kv), "="); n == name {
				return value, true
			}
		}
		return "", false
	}
	return w.Home, q, nil
}

func bytesOf(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

func stringsOf(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// startAnswer is what a supervisor says once, when it is ready or has failed.
type startAnswer struct {
	Started *StartResult `json:"started,omitempty"`
	Error   *live.Error  `json:"error,omitempty"`
}

// EncodeAnswer is a supervisor's answer, for its Launcher.
func EncodeAnswer(res *StartResult, err error) ([]byte, error) {
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

func decodeAnswer(data []byte) (*StartResult, error) {
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

var liveKinds = [...]struct {
	here  Kind
	there live.Kind
}{{Failed, live.Failed}, {Usage, live.Usage}, {NotFound, live.NotFound}, {Refused, live.Refused}, {Busy, live.Busy}}

// toLive is a failure as it crosses a socket.
func toLive(err error) *live.Error {
	out := &live.Error{Kind: live.Failed, Code: "failed", Message: err.Error()}
	if e, ok := errors.AsType[*Error](err); ok {
		out.Code, out.Hint, out.Details = e.Code, e.Hint, e.Details
		for _, k := range liveKinds {
			if k.here == e.Kind {
				out.Kind = k.there
			}
		}
	}
	return out
}

// fromLive is a failure that came over a socket.
func fromLive(cell string, err error) error {
	if e, ok := errors.AsType[*live.Error](err); ok {
		out := &Error{Kind: Failed, Code: e.Code, Message: e.Message, Hint: e.Hint, Details: e.Details, Err: err}
		for _, k := range liveKinds {
			if k.there == e.Kind {
				out.Kind = k.here
			}
		}
		return out
	}
	switch {
	case errors.Is(err, live.ErrNoServer):
		// Its lock was held a moment ago, or nobody would have been asked.
		return &Error{
			Kind: Busy, Code: "busy", Message: fmt.Sprintf("cell %s is being started or stopped", cell), Hint: "try again", Err: err,
		}
	case errors.Is(err, live.ErrLost):
		return lostLive(cell, err)
	}
	return err
}

// lostLive is the end of a supervisor that had answered before.
func lostLive(cell string, err error) error {
	return &Error{
		Kind: Failed, Code: "lost", Message: fmt.Sprintf("the supervisor of cell %s has died", cell),
		Hint: "`forkcell checkpoint " + cell + "` finishes its run", Err: err,
	}
}
