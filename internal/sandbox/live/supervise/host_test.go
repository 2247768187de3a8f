package supervise

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
	"github.com/forkcell/forkcell/internal/text/redact"
)

// fakeCell executes commands as functions: "print TEXT..." prints its
// environment and arguments, "wait" ends when it gets a signal.
type fakeCell struct {
	driver.Cell
	mu   sync.Mutex
	pid  int
	end  chan struct{}
	gone chan struct{}
}

func (c *fakeCell) Exec(ctx context.Context, cmd driver.Command, s driver.Stdio) (driver.Outcome, error) {
	if cmd.Args[0] == "missing" {
		return driver.Outcome{}, &driver.StartError{Step: "exec", Err: errors.New("no such file"), Cause: driver.CauseNotFound}
	}
	if cmd.Args[0] == "ended" {
		return driver.Outcome{}, &driver.StartError{Step: "init", Err: driver.ErrEnded}
	}
	c.mu.Lock()
	c.pid++
	pid := c.pid
	c.mu.Unlock()
	cmd.Executed(pid)
	if cmd.Args[0] == "wait" {
		select {
		case <-c.end:
			return driver.Outcome{Code: 7}, nil
		case <-ctx.Done():
			return driver.Outcome{Code: 137}, nil
		}
	}
	_, err := io.WriteString(s.Out, strings.Join(append(cmd.Env, cmd.Args...), " ")+"\n")
	return driver.Outcome{}, err
}

func (c *fakeCell) Processes() ([]driver.Process, error) {
	return []driver.Process{{PID: 5, SID: 1, Args: []string{"wait"}}}, nil
}

func (c *fakeCell) Thaw() error           { return nil }
func (c *fakeCell) Usage() driver.Usage   { return driver.Usage{} }
func (c *fakeCell) Gone() <-chan struct{} { return c.gone }
func (c *fakeCell) Close() error          { return nil }
func (c *fakeCell) Terminate(time.Duration) (bool, error) {
	close(c.end)
	return true, nil
}

// served is a host that is being served, and what it passed to its run.
type served struct {
	socket string
	*Host
	client *Client
	ending chan Ending
	stop   context.CancelFunc

	mu     sync.Mutex
	events int
	stored bytes.Buffer
}

func serve(t *testing.T, change ...func(*Config)) *served {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	listener, err := wire.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	var ids atomic.Int64
	s := &served{socket: socket, client: NewClient("demo", socket, "v"), ending: make(chan Ending, 1)}
	s.Host = NewHost(Config{
		Cell: &fakeCell{end: make(chan struct{}), gone: make(chan struct{})}, Listener: listener, Version: "v",
		Name: "demo", RunID: "run_1", MountAt: "/project", Workdir: "/project", User: 1000, UserName: "sandbox", Env: []string{"A=1"},
		NewID:      func() string { return "exec_" + strconv.FormatInt(ids.Add(1), 10) },
		Recordable: func(args []string) []string { return args },
		Record: func(event.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events++
		},
		Store: func(_ bool, p []byte) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stored.Write(p)
		},
		Secrets:    func() []redact.Secret { return []redact.Secret{{Name: "KEY", Value: "hunter2hunter2"}} },
		StartError: func(err error) error { return err },
		Checkpoint: func(_ context.Context, name string) (*api.CheckpointResult, error) {
			return &api.CheckpointResult{Name: name}, nil
		},
		ApplyPolicy: func(_ context.Context, f api.PolicyFile, _ api.GrantRequest, _ map[string][]byte) (*api.PolicyApplied, []string, error) {
			if len(f.Text) == 0 {
				return nil, nil, api.Refusef(api.CodePolicy, "", "empty")
			}
			return &api.PolicyApplied{Live: true}, []string{"A=2"}, nil
		},
	})
	for _, f := range change {
		f(&s.Config)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	go func() { s.ending <- s.Serve(ctx) }()
	return s
}

func (s *served) exec(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	_, err := s.client.Exec(ctx, api.ExecRequest{Cell: "demo", Args: args}, driver.Stdio{Out: &out, Err: &out}, nil)
	return out.String(), err
}

// finish ends the cell as its run does.
func (s *served) finish(t *testing.T, want Cause) {
	t.Helper()
	why := <-s.ending
	if why.Cause != want {
		t.Errorf("it ends for the cause %d, want %d", why.Cause, want)
	}
	if e := s.End(why.Grace); e.TerminateErr != nil || e.CloseErr != nil {
		t.Error(e)
	}
	s.Close()
	if err := s.Finish(&api.RunResult{RunID: "run_1"}, nil); err != nil {
		t.Error(err)
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := t.Context()
	out, err := s.exec(ctx, "print", "hunter2hunter2")
	if err != nil || out != "A=1 print hunter2hunter2\n" {
		t.Errorf("%q, %v", out, err)
	}
	if got := s.stored.String(); got == "" || strings.Contains(got, "hunter2") {
		t.Errorf("stored %q", got)
	}
	if s.events != 2 {
		t.Errorf("%d events of a command", s.events)
	}
	_, err = s.exec(ctx, "missing")
	if start, ok := errors.AsType[*driver.StartError](err); !ok || start.Cause != driver.CauseNotFound {
		t.Errorf("%v", err)
	}
	var logs bytes.Buffer
	if err := s.client.Logs(ctx, "run_1", false, &logs, &logs); err != nil || logs.String() != s.stored.String() {
		t.Errorf("logs %q, %v", logs.String(), err)
	}
	if err := s.client.Logs(ctx, "run_2", false, &logs, &logs); api.KindOf(err) != api.NotFound {
		t.Errorf("logs of another run: %v", err)
	}
	if res, err := s.client.Checkpoint(ctx, "here"); err != nil || res.Name != "here" {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := s.client.ApplyPolicy(ctx, api.PolicyFile{}, api.GrantRequest{}, nil); api.KindOf(err) != api.Refused {
		t.Errorf("a policy that is refused: %v", err)
	}
	if res, err := s.client.ApplyPolicy(ctx, api.PolicyFile{Text: []byte("version: 1")}, api.GrantRequest{}, nil); err != nil || !res.Live {
		t.Errorf("%+v, %v", res, err)
	}
	if out, err := s.exec(ctx, "print"); err != nil || out != "A=2 print\n" {
		t.Errorf("under the new policy: %q, %v", out, err)
	}
	s.stop()
	s.finish(t, Interrupted)
}

// TestMainMissing: a cell that waits for the command that it ends with ends without it,
// and other commands do not count.
func TestMainMissing(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.AwaitMain = time.Millisecond })
	s.finish(t, MainMissing)

	const wait = 200 * time.Millisecond
	began := time.Now()
	s = serve(t, func(c *Config) { c.AwaitMain = wait })
	_, err := s.client.Exec(t.Context(), api.ExecRequest{Args: []string{"missing"}, Main: true}, driver.Stdio{}, nil)
	if err == nil {
		t.Error("it began")
	}
	s.finish(t, MainMissing)
	if time.Since(began) < wait {
		t.Error("it did not wait")
	}
}

// TestSocketRemoved: a cell that nobody can reach any more ends.
func TestSocketRemoved(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.Look = time.Millisecond })
	if _, err := s.exec(t.Context(), "print"); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Dir(s.socket)); err != nil {
		t.Fatal(err)
	}
	s.finish(t, SocketFailed)
}

// TestDied: a cell whose processes are killed says so, also before its end is noticed.
func TestDied(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const want = "cell demo has ended: its first process was killed"
	for _, command := range []string{"ended", "print"} { // then what is known stays
		if _, err := s.exec(t.Context(), command); err == nil || err.Error() != want {
			t.Errorf("%s: %v", command, err)
		}
	}
	close(s.Cell.(*fakeCell).gone)
	why := <-s.ending
	if why.Cause != Died {
		t.Errorf("%+v", why)
	}
	if _, err := s.exec(t.Context(), "print"); err == nil || err.Error() != want {
		t.Error(err)
	}
	s.End(why.Grace)
	s.Close()
	if err := s.Finish(&api.RunResult{}, nil); err != nil {
		t.Error(err)
	}
}

// TestMainBegun: a cell whose command has begun in time lives until the command ends.
func TestMainBegun(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.AwaitMain = 5 * time.Second })
	ended := make(chan error, 1)
	go func() {
		_, err := s.client.Exec(t.Context(), api.ExecRequest{Args: []string{"wait"}, Main: true}, driver.Stdio{}, nil)
		ended <- err
	}()
	select {
	case why := <-s.ending:
		t.Fatalf("it ended for the cause %d", why.Cause)
	case <-time.After(6 * time.Second):
	}
	close(s.Cell.(*fakeCell).end)
	why := <-s.ending
	if why.Cause != MainEnded || why.Exit.Code != 7 {
		t.Errorf("%+v", why)
	}
	s.End(0)
	s.Close()
	if err := errors.Join(s.Finish(&api.RunResult{}, nil), <-ended); err != nil {
		t.Error(err)
	}
}

// TestHangUpInTime: whatever time a cell has to end, the hangup comes before the kill.
func TestHangUpInTime(t *testing.T) {
	t.Parallel()
	for grace, want := range map[time.Duration]time.Duration{usualGrace: 3 * time.Second, time.Minute: 3 * time.Second, 2 * time.Second: 1200 * time.Millisecond} {
		if got := hangUpAfter(grace); got != want {
			t.Errorf("of %v: %v, want %v", grace, got, want)
		}
	}
}

// TestStop: a running command is terminated. Its client and the client that
// asked for the end get their answers.
func TestStop(t *testing.T) {
	t.Parallel()
	s := serve(t)
	started, ended := make(chan struct{}), make(chan *api.ExecResult, 1)
	go func() {
		res, err := s.client.Exec(t.Context(), api.ExecRequest{Args: []string{"wait"}}, driver.Stdio{}, func(string) { close(started) })
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	<-started
	list, err := s.client.Processes(t.Context())
	if err != nil || len(list) != 1 || list[0].ExecID != "exec_1" {
		t.Errorf("%+v, %v", list, err)
	}
	stopped := make(chan error, 1)
	go func() {
		res, err := s.client.Stop(t.Context(), api.StopRequest{Grace: -1})
		if err == nil && res.RunID != "run_1" {
			err = errors.New("it is the result of " + res.RunID)
		}
		stopped <- err
	}()
	s.finish(t, Stopped)
	if res := <-ended; res == nil || res.ExitCode != 7 || res.ExecID != "exec_1" {
		t.Errorf("%+v", res)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := s.Exec(t.Context(), wire.Command{Args: []string{"print"}}, wire.Streams{}); api.KindOf(err) != api.Refused {
		t.Errorf("a command after the end: %v", err)
	}
	if _, err := s.exec(t.Context(), "print"); api.KindOf(err) != api.Busy {
		t.Errorf("without a socket: %v", err)
	}
}

// TestEndedBeforeTheExit: what is known of a command's clients is in the journal before its
// exit, after which the journal may be closed.
func TestEndedBeforeTheExit(t *testing.T) {
	t.Parallel()
	s := serve(t)
	atEnd := -1
	p, err := s.Exec(t.Context(), wire.Command{Args: []string{"print"}}, wire.Streams{Out: io.Discard, Ended: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		atEnd = s.events
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	s.mu.Lock()
	if atEnd != s.events-1 {
		t.Errorf("told after %d of %d events", atEnd, s.events)
	}
	s.mu.Unlock()
	s.stop()
	s.finish(t, Interrupted)
}

func TestCommand(t *testing.T) {
	t.Parallel()
	h := NewHost(Config{MountAt: "/project", Workdir: "/project/sub", User: 1000, UserName: "sandbox", Env: []string{"A=1", "B=2"}})
	for name, c := range map[string]struct {
		in   wire.Command
		dir  string
		env  string
		arg  string
		kind api.Kind
	}{
		"as it is":              {in: wire.Command{Args: []string{"x"}}, dir: "/project/sub", env: "A=1 B=2", arg: "x"},
		"a relative directory":  {in: wire.Command{Args: []string{"x"}, Workdir: "a/../b"}, dir: "/project/b", env: "A=1 B=2", arg: "x"},
		"an absolute directory": {in: wire.Command{Args: []string{"x"}, Workdir: "/tmp"}, dir: "/tmp", env: "A=1 B=2", arg: "x"},
		"a variable":            {in: wire.Command{Args: []string{"x"}, Env: []string{"A=3"}}, dir: "/project/sub", env: "B=2 A=3", arg: "x"},
		"the only user":         {in: wire.Command{Args: []string{"x"}, User: "1000"}, dir: "/project/sub", env: "A=1 B=2", arg: "x"},
		"a copy":                {in: wire.Command{Args: []string{carrier}, Workdir: "/tmp"}, dir: "/project", env: "A=1 B=2", arg: CarrierFile},
		"another user":          {in: wire.Command{Args: []string{"x"}, User: "root"}, kind: api.Refused},
		"no variable":           {in: wire.Command{Args: []string{"x"}, Env: []string{"A"}}, kind: api.Usage},
	} {
		cmd, _, err := h.command(c.in)
		if c.kind != "" {
			if api.KindOf(err) != c.kind {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || cmd.Workdir != c.dir || strings.Join(cmd.Env, " ") != c.env || cmd.Args[0] != c.arg {
			t.Errorf("%s: %+v, %v", name, cmd, err)
		}
	}
}

// TestBranchDied: a branch that has ended before it could be used is not this cell.
func TestBranchDied(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) {
		c.Branch = func(context.Context, BranchOrder) (*api.BranchResult, error) {
			return nil, &driver.StartError{Step: "gvisor", Err: driver.ErrEnded}
		}
	})
	if _, err := s.client.Branch(t.Context(), BranchOrder{}); err == nil || strings.Contains(err.Error(), "cell demo has ended") {
		t.Error(err)
	}
	if _, err := s.exec(t.Context(), "print", "on"); err != nil {
		t.Error(err)
	}
	stopped := make(chan error, 1)
	go func() {
		_, err := s.client.Stop(t.Context(), api.StopRequest{})
		stopped <- err
	}()
	s.finish(t, Stopped)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
