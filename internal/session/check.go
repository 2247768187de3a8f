package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Checker makes the cell in which an agent is checked.
type Checker interface {
	Init(ctx context.Context, r api.InitRequest) (*api.InitResult, error)
	Run(ctx context.Context, r api.RunRequest, io engine.Stdio) (*api.RunResult, error)
	RemoveAll(ctx context.Context, cells []string, force bool) error
}

const (
	// checkLimit is the time that a program has to print its version.
	checkLimit = 30 * time.Second
	// maxAnswer bounds what is kept of the output of a program that is checked.
	maxAnswer = 4 << 10
)

// CheckRequest says which agent is to be checked, and for whom.
type CheckRequest struct {
	Agent string
	// Prefix begins the name of the cell.
	Prefix string
	// Options are those of its run. Without a policy, pins and certificates it has no
	// network; else it has that of the adapter and of the policy.
	Options api.RunOptions
	// Bounds are those of a caller who is not the operator; nil for the operator.
	Bounds *Bounds
}

// Check starts an agent in an empty cell, far enough to see it print
// its version. The cell is removed again. A program that is not installed or does not
// work in a cell is an error.
func (h Host) Check(ctx context.Context, e Checker, q CheckRequest) (*api.AgentState, error) {
	entry, err := h.Find(q.Agent)
	if err != nil {
		return nil, err
	}
	a := entry.Adapter
	if err := q.Bounds.mayStart(a); err != nil {
		return nil, err
	}
	if len(a.Program.Names) == 0 {
		return nil, api.Usagef("`forkcell agent "+a.Name+" -- PROGRAM` runs one", "agent %s has no program to check", a.Name)
	}
	in, err := a.Find(h.search())
	if err != nil {
		return nil, notUsable(a, err)
	}
	st := h.State(entry)
	options, err := q.options(entry, in)
	if err != nil {
		return nil, err
	}
	if st.Answer, err = versionAnswer(ctx, e, q.Prefix, a, in, options); err != nil {
		return nil, err
	}
	if st.Version = adapter.ParseVersion(st.Answer); st.Version == "" {
		return nil, api.Refusef(api.CodeAgent, "", "agent %s: it did not print a version in a cell: %s", a.Name, shortAnswer(st.Answer))
	}
	st.Place = a.Tested.Place(st.Version)
	return &st, nil
}

// notUsable is the error about a program that was not found.
func notUsable(a *adapter.Adapter, err error) error {
	hint := ""
	if a.Program.Package != "" {
		hint = "`npm install -g " + a.Program.Package + "` installs it"
	}
	return &api.Error{Kind: api.Refused, Code: api.CodeAgent, Message: "agent " + err.Error(), Hint: hint, Err: err}
}

// options returns the options of the run in which an agent is checked.
func (q CheckRequest) options(entry *adapter.Entry, in *adapter.Installation) (api.RunOptions, error) {
	o := q.Options
	o.ReadOnly, o.Timeout = slices.Concat(in.Show, o.ReadOnly), cmp.Or(o.Timeout, checkLimit)
	env := []string{}
	for k, v := range entry.Adapter.Environment {
		env = append(env, k+"="+v)
	}
	o.Env = append(env, o.Env...)
	if o.Policy == nil && len(o.Network.Resolve) == 0 && len(o.Network.CA) == 0 {
		o.Offline = true
		return o, nil
	}
	r := Facts{Adapter: entry}
	var err error
	if file := o.Policy; file != nil {
		if r.Extra, err = policy.Parse(string(file.Name), file.Text, policy.Options{}); err != nil {
			return o, caller.PolicyError(err)
		}
	}
	rules, err := r.policy()
	if err != nil {
		return o, err
	}
	o.Policy = &api.PolicyFile{Name: api.Text("the policy of agent " + entry.Adapter.Name), Text: rules.Canonical()}
	return o, nil
}

// versionAnswer runs the program with the arguments for its version, in a cell that is
// removed again.
func versionAnswer(ctx context.Context, e Checker, prefix string, a *adapter.Adapter, in *adapter.Installation, options api.RunOptions) (string, error) {
	name := prefix + "agent-check-" + a.Name
	end := "-" + strconv.FormatInt(time.Now().UnixNano()%1e9, 10)
	made, err := e.Init(ctx, api.InitRequest{Name: name[:min(len(name), maxCellName-len(end))] + end, Empty: true})
	if err != nil {
		return "", err
	}
	out := answer{}
	res, err := e.Run(ctx, api.RunRequest{Cell: made.Cell, Args: append(in.Command, a.Program.VersionArguments...), RunOptions: options}, engine.Stdio{Out: &out, Err: &out})
	removeErr := e.RemoveAll(context.WithoutCancel(ctx), []string{made.Cell}, true)
	text := strings.TrimSpace(out.text.String())
	if err == nil && !res.OK() {
		err = api.Refusef(api.CodeAgent, "", "agent %s: it ended with exit code %d in a cell: %s", a.Name, res.ExitCode, shortAnswer(text))
	}
	return text, errors.Join(err, removeErr)
}

// answer keeps the beginning of what a program prints to both of its streams.
type answer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text.Write(p[:min(len(p), maxAnswer-a.text.Len())])
	return len(p), nil
}

// shortAnswer returns the beginning of an answer, for an error.
func shortAnswer(text string) string {
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "..."
	}
	return quote.Line(text)
}
