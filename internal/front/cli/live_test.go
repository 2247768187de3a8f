package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

func TestLiveRequests(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]any{
		"start a --env K=v --workdir w --ro /x --timeout 2s --wait --memory 1GiB --cpus 1.5 --pids 9 --allow-degraded": api.StartRequest{Cell: "a", RunOptions: api.RunOptions{Env: []string{"K=v"}, Workdir: "w", ReadOnly: []string{"/x"}, Timeout: 2 * time.Second, Wait: -1, Memory: 1 << 30, CPUs: 1500, PIDs: 9, AllowDegraded: true, Network: api.NetworkRequest{CredentialsFile: credentialsFile()}, Grants: api.GrantRequest{ConfigFile: api.Text(configFile("config.yaml"))}}},
		"stop a":              api.StopRequest{Cell: "a", Grace: -1},
		"stop a --timeout 0":  api.StopRequest{Cell: "a"},
		"stop a --timeout 3s": api.StopRequest{Cell: "a", Grace: 3 * time.Second},
		"exec -t a --env K=v --workdir w --user u --timeout 1s -- c -x --json": api.ExecRequest{
			Cell: "a", Args: []string{"c", "-x", "--json"}, Env: []string{"K=v"}, Workdir: "w", User: "u", Timeout: time.Second, TTY: true,
			Size: api.WindowSize{Rows: 24, Cols: 80},
		},
		"shell a": api.ExecRequest{
			Cell: "a", Args: []string{"bash"}, TTY: true, Detachable: true, Size: api.WindowSize{Rows: 24, Cols: 80},
		},
		"shell a --attach exec_1":  []any{"a", "exec_1"},
		"logs -f a --run run_1":    []string{"a", "run_1"},
		"cp f a:p":                 []any{"in", api.CopyRequest{Cell: "a", Path: "p", Host: "f"}},
		"cp a:p ./x:y":             []any{"out", api.CopyRequest{Cell: "a", Path: "p", Host: "./x:y"}},
		"cp a: d":                  []any{"out", api.CopyRequest{Cell: "a", Path: ".", Host: "d"}},
		"cp a:/etc/hosts:x target": []any{"out", api.CopyRequest{Cell: "a", Path: "/etc/hosts:x", Host: "target"}},
		"restore a --force":        api.RestoreRequest{Cell: "a", Force: true},
		"ps a":                     "a",
	} {
		f := &fakeEngine{run: &api.RunResult{Outcome: "succeeded"}}
		code, _, stderr := call(t, f, strings.Fields(line)...)
		got := f.got
		if q, ok := got.(api.ExecRequest); ok {
			q.Env = noTerm(q.Env)
			got = q
		}
		if q, ok := got.(api.StartRequest); ok && q.Wait < 0 {
			q.Wait = -1
			got = q
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); code != 0 || diff != "" {
			t.Errorf("%s: exit %d, %s %s", line, code, stderr, diff)
		}
	}
}

// noTerm removes variables that depend on the terminal of the test run.
func noTerm(env []string) (out []string) {
	for _, kv := range env {
		if !strings.HasPrefix(kv, "TERM=") {
			out = append(out, kv)
		}
	}
	return out
}

func TestExecExitCodes(t *testing.T) {
	t.Parallel()
	start := func(cause driver.Cause) error {
		return &api.Error{Message: "m", Err: &driver.StartError{Step: "exec", Err: errors.New("e"), Cause: cause}}
	}
	for _, c := range []struct {
		res  *api.ExecResult
		err  error
		want int
	}{
		{res: &api.ExecResult{ExitCode: 7}, want: 7},
		{res: &api.ExecResult{ExitCode: 124, TimedOut: true}, want: 124},
		{res: &api.ExecResult{ExitCode: 137, Signal: 9}, want: 137},
		{res: &api.ExecResult{Detached: true, ExecID: "exec_1", Cell: "a"}, want: 0},
		{err: start(driver.CauseNotFound), want: 127},
		{err: start(driver.CauseNotExecutable), want: 126},
		{err: errPlain, want: 125},
		{err: &api.Error{Kind: api.Refused, Message: "m"}, want: 4},
		{err: &api.Error{Kind: api.NotFound, Message: "m"}, want: 3},
	} {
		for _, line := range []string{"exec a -- c", "shell a --attach x"} {
			f := &fakeEngine{exec: c.res, err: c.err}
			if code, _, stderr := call(t, f, strings.Fields(line)...); code != c.want {
				t.Errorf("%s with %+v, %v: exit %d, want %d; %s", line, c.res, c.err, code, c.want, stderr)
			}
		}
	}
	f := &fakeEngine{exec: &api.ExecResult{Detached: true, ExecID: "exec_1", Cell: "a"}}
	_, _, stderr := call(t, f, "shell", "a")
	if stderr != "forkcell: left; `forkcell shell a --attach exec_1` comes back\n" {
		t.Errorf("%q", stderr)
	}
}

func TestExecDocumentIsAlone(t *testing.T) {
	t.Parallel()
	f := &fakeEngine{exec: &api.ExecResult{Cell: "a", ExitCode: 3}, output: "output"}
	code, stdout, stderr := call(t, f, "exec", "a", "--json", "--", "c")
	if code != 3 || strings.Count(stdout, "\n") != 1 || !strings.HasPrefix(stdout, `{"cell":"a"`) || stderr != "output" {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}

func TestLogsOfALiveCell(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"logs a", "logs -f a"} {
		f := &fakeEngine{followed: "live\n"}
		if code, stdout, _ := call(t, f, strings.Fields(line)...); code != 0 || stdout != "live\n" {
			t.Errorf("%s: exit %d, %q", line, code, stdout)
		}
		f = &fakeEngine{}
		if code, stdout, stderr := call(t, f, strings.Fields(line)...); code != 0 || stdout != "out\xff" || stderr != "err" {
			t.Errorf("%s: exit %d, %q %q", line, code, stdout, stderr)
		}
	}
	f := &fakeEngine{followed: "live\n"}
	if _, stdout, _ := call(t, f, "logs", "a", "--json"); stdout != `{"cell":"a","stdout":"live\n","stderr":""}`+"\n" {
		t.Errorf("%q", stdout)
	}
}

func TestProcessesAreOneDocument(t *testing.T) {
	t.Parallel()
	if _, stdout, _ := call(t, &fakeEngine{}, "ps", "a", "--json"); stdout != `{"cell":"a","processes":[]}`+"\n" {
		t.Errorf("%q", stdout)
	}
}

// interruptedStop cannot stop a cell, and is interrupted meanwhile.
type interruptedStop struct {
	fakeEngine
	interrupt context.CancelFunc
}

func (e *interruptedStop) Stop(context.Context, api.StopRequest) (*api.RunResult, error) {
	e.interrupt()
	return nil, api.Refusef(api.CodeNotStarted, "", "cell a is not live")
}

// TestStopInterrupted: what failed before an interrupt is said.
func TestStopInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	e := &interruptedStop{interrupt: interrupt}
	open := func(string, Mode, caller.Caller) (Engine, func() error, error) {
		return e, func() error { return nil }, nil
	}
	var out, errs bytes.Buffer
	code := Main(ctx, []string{"stop", "a", "b"}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, open, Programs{}, "v0-test")
	if code != exitRefused || !strings.Contains(errs.String(), "cell a is not live") {
		t.Errorf("exit %d, %s", code, errs.String())
	}
}

// TestLeftByASignal: a client that a signal ends says how to come back to what it leaves
// running, which is not undone.
func TestLeftByASignal(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	for line, want := range map[string]string{
		"shell a":       "forkcell: left; `forkcell shell a --attach exec_1` comes back\n",
		"exec a -- cat": "", // the end of its client ends it
	} {
		f := &fakeEngine{err: context.Canceled, execID: "exec_1"}
		var out, errs bytes.Buffer
		code := Main(ctx, strings.Fields(line), Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, f.open, Programs{}, "v0-test")
		if got, _, _ := strings.Cut(errs.String(), "forkcell: interrupted"); code != exitSignalBase || got != want {
			t.Errorf("%s: exit %d, %s", line, code, errs.String())
		}
	}
	running := []api.SessionInfo{{ExecID: "exec_1", Running: true, Detachable: true, Main: true}}
	for _, c := range []struct {
		id       string
		sessions []api.SessionInfo
		want     bool
	}{
		{"exec_1", running, true},
		{"", running, true}, // word of its beginning did not arrive
		{"", nil, false},
	} {
		f := &fakeEngine{err: context.Canceled, execID: c.id, sessions: c.sessions}
		var errs bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetContext(ctx)
		r := &agentRun{session: newSession(f.open, Streams{In: strings.NewReader(""), Out: &errs, Err: &errs}, "v0-test"), cmd: cmd, opts: &agentOptions{}}
		begun, err := r.attend(api.ExecRequest{Cell: "a", Detachable: true}, Engine.Exec)
		said := strings.Contains(errs.String(), leftSession("a"))
		if begun != c.want || said != c.want || !errors.Is(err, errInterrupted) {
			t.Errorf("%q, %d sessions: executed %v, %v: %s", c.id, len(c.sessions), begun, err, errs.String())
		}
	}
}

// TestInterruptedApply: a signal that ends an apply after its run was accepted leaves the
// work to be applied, and the error says so.
func TestInterruptedApply(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	f := &fakeEngine{err: engine.AfterAccept(context.Canceled, "a")}
	var out, errs bytes.Buffer
	code := Main(ctx, []string{"accept", "a", "--apply"}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, f.open, Programs{}, "v0-test")
	want := "forkcell: the apply was interrupted; the run is accepted, and nothing was written; `forkcell apply a` writes it\n"
	if code != exitInterrupted || errs.String() != want {
		t.Errorf("exit %d, %s", code, errs.String())
	}
}
