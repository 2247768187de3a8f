package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
)

// fakeEngine starts cells, unless their policy has limits.
type fakeEngine struct {
	Engine

	memory  bool // it can limit memory, and no processes
	started []api.StartRequest
}

func (e *fakeEngine) Start(_ context.Context, r api.StartRequest) (*api.StartResult, error) {
	e.started = append(e.started, r)
	p, err := policy.Parse("sent", r.Policy.Text, policy.Options{})
	if err == nil && (p.Limits.PIDs > 0 || p.Limits.Memory > 0 && !e.memory) {
		err = api.Refusef(api.CodeUnenforced, "", "a limit cannot be enforced")
	}
	return &api.StartResult{RunID: "run_1", MountAt: "/work"}, err
}

func (e *fakeEngine) Exec(context.Context, api.ExecRequest, engine.Stdio) (*api.ExecResult, error) {
	return &api.ExecResult{}, nil
}

// CellAt finds two cells of the directory.
func (e *fakeEngine) CellAt(context.Context, string) (name, below string, err error) {
	return "", "", api.Refusef(api.CodeSeveralCells, "give the name of one of them", "several cells")
}

// TestBaseOfSeveral: agent takes no name of a cell, so the hint says something else.
func TestBaseOfSeveral(t *testing.T) {
	t.Parallel()
	_, err := Base(t.Context(), &fakeEngine{}, "/work", "", false, nil, nil)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeSeveralCells || !strings.Contains(e.Hint, "`forkcell rm CELL`") {
		t.Errorf("got %+v", err)
	}
}

// TestBeginAsksOnce: the start says where the files are. The status of the cell, which the
// engine of this test has not, costs a tenth of the start of a session.
func TestBeginAsksOnce(t *testing.T) {
	t.Parallel()
	p, err := Make(request(t, "generic"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := begin(t.Context(), &fakeEngine{memory: true}, "s", Start{Plan: p, Notes: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Exec.Workdir != "/work" || p.Workspace != "/work" {
		t.Errorf("the agent is executed in %q, with its workspace in %q", s.Exec.Workdir, p.Workspace)
	}
}

// TestOnlyDefaultLimitsAreOptional starts sessions where limits cannot be enforced.
func TestOnlyDefaultLimitsAreOptional(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		limits  policy.Limits // of the operator's policy
		memory  bool          // memory can be limited
		without string        // what the session goes without; "" if it does not start
	}{
		{"a policy without limits", policy.Limits{}, false, noLimits},
		{"a runtime that counts no processes", policy.Limits{}, true, noProcessLimit},
		{"a policy with limits", policy.Limits{WallTime: time.Hour, Memory: 512 << 20}, false, ""},
	} {
		q := request(t, "generic")
		q.Limits = policy.Limits{Memory: 1 << 30, PIDs: 100}
		q.Extra = policy.Default()
		q.Extra.Limits = c.limits
		p, err := Make(q)
		if err != nil {
			t.Fatal(err)
		}
		e := &fakeEngine{memory: c.memory}
		_, err = start(t.Context(), e, "s", Start{Plan: p, Notes: func(string) {}})
		if ok := c.without != ""; (err == nil) != ok || !ok && (api.CodeOf(err) != api.CodeUnenforced || len(e.started) != 1) {
			t.Errorf("%s: %v after %d starts", c.name, err, len(e.started))
		}
		last := e.started[len(e.started)-1]
		if last.WatchDisk != (c.limits == policy.Limits{}) {
			t.Errorf("%s: a limit on the disk that is looked at is accepted: %v", c.name, last.WatchDisk)
		}
		if c.without != "" && !slices.Equal(last.Degraded, []string{c.without}) {
			t.Errorf("%s: the receipt gets %q", c.name, last.Degraded)
		}
	}
}
