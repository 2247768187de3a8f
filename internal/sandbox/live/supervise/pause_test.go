package supervise

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// pausable lets a test decide about pausing.
func pausable(s *served, err error) (calls *[]string) {
	calls = &[]string{}
	s.Pause = func(_ context.Context, fsOnly bool) (bool, error) {
		*calls = append(*calls, "pause")
		return fsOnly, err
	}
	s.Resume = func() error {
		*calls = append(*calls, "resume")
		return err
	}
	return calls
}

func (s *served) clientPause(ctx context.Context) (*api.PauseResult, error) {
	return s.client.Pause(ctx, false)
}

func (s *served) wantPause(t *testing.T, do func(context.Context) (*api.PauseResult, error), state string, changed bool) {
	t.Helper()
	res, err := do(t.Context())
	if err != nil || res.State != state || res.Changed != changed || res.Cell != "demo" || res.RunID != "run_1" {
		t.Errorf("%+v, %v; want %s, %v", res, err, state, changed)
	}
}

// TestPause: each verb takes effect once, commands are refused meanwhile, and the
// end of the cell thaws it.
func TestPause(t *testing.T) {
	t.Parallel()
	s := serve(t)
	calls := pausable(s, nil)
	s.wantPause(t, s.client.Resume, api.StateLive, false)
	s.wantPause(t, s.clientPause, api.StatePaused, true)
	s.wantPause(t, s.clientPause, api.StatePaused, false)
	_, err := s.exec(t.Context(), "print")
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodePaused || e.Hint == "" {
		t.Errorf("a command in a paused cell: %v", err)
	}
	if state, err := s.client.State(t.Context()); err != nil || !state.Paused || state.Commands != 0 {
		t.Errorf("%+v, %v", state, err)
	}
	s.wantPause(t, s.client.Resume, api.StateLive, true)
	if _, err := s.exec(t.Context(), "print"); err != nil {
		t.Error(err)
	}
	s.wantPause(t, s.clientPause, api.StatePaused, true)
	if len(*calls) != 3 {
		t.Errorf("calls %v", *calls)
	}
	s.stop()
	s.finish(t, Interrupted)
	if _, err := s.pause(t.Context(), pauseCall{}); api.KindOf(err) != api.Refused {
		t.Errorf("paused after the end: %v", err)
	}
}

// TestSuspend: a cell that is paused on disk ends, and whoever asked is answered when it
// has ended. A stop at the same time does not end the pause.
func TestSuspend(t *testing.T) {
	t.Parallel()
	s := serve(t)
	pausable(s, nil)
	type answer struct {
		res *api.PauseResult
		err error
	}
	paused := make(chan answer, 1)
	go func() {
		res, err := s.client.Pause(t.Context(), true)
		paused <- answer{res, err}
	}()
	s.finish(t, Suspended)
	if a := <-paused; a.err != nil || a.res.State != api.StatePaused || !a.res.Changed || !a.res.OnDisk || !a.res.FSOnly {
		t.Errorf("%+v, %v", a.res, a.err)
	}
	_, err := s.requestStop(stopCall{})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodePaused {
		t.Errorf("stopped: %v", err)
	}
}

// TestSuspendWhileItEnds: a pause that was recorded when the cell began to end leaves no
// grace to processes whose memory was kept.
func TestSuspendWhileItEnds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Pause = func(context.Context, bool) (bool, error) { return true, nil }
	if _, err := s.beginPause(t.Context(), pauseCall{}); err != nil {
		t.Fatal(err)
	}
	why := <-s.ending
	if why.Cause == Suspended {
		s.suspend <- why.Grace // as if another cause had been first
	}
	s.End(usualGrace)
	c, _ := s.Cell.(*fakeCell)
	select {
	case <-c.end:
		t.Error("they were asked to end")
	default:
	}
	s.Close()
	if err := s.Finish(&api.RunResult{RunID: "run_1"}, nil); err != nil {
		t.Error(err)
	}
}

// TestPauseFails: a cell that cannot be paused goes on.
func TestPauseFails(t *testing.T) {
	t.Parallel()
	s := serve(t)
	pausable(s, api.Refusef(api.CodeFreezer, "", "no freezer"))
	_, err := s.client.Pause(t.Context(), false)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeFreezer {
		t.Errorf("%v", err)
	}
	if _, err := s.exec(t.Context(), "print"); err != nil {
		t.Error(err)
	}
	s.stop()
	s.finish(t, Interrupted)
}

// TestIdle: requests and commands count as use, asking for the state does not, and
// a command that runs does, except while it is paused.
func TestIdle(t *testing.T) {
	t.Parallel()
	s := serve(t)
	pausable(s, nil)
	long := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.Host.mu.Lock()
		defer s.Host.mu.Unlock()
		s.used = time.Now().Add(-time.Hour)
	}
	idle := func() time.Duration {
		t.Helper()
		state, err := s.client.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return state.Idle
	}
	long()
	if d := idle(); d < time.Hour {
		t.Errorf("idle for %s", d)
	}
	if _, err := s.client.Checkpoint(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if d := idle(); d >= time.Hour {
		t.Errorf("idle for %s after a request", d)
	}
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := s.client.Exec(t.Context(), api.ExecRequest{Args: []string{"wait"}}, driver.Stdio{}, func(string) { close(started) })
		ended <- err
	}()
	<-started
	long()
	if state := s.state(); state.Idle != 0 || state.Commands != 1 {
		t.Errorf("%+v while a command runs", state)
	}
	s.wantPause(t, s.clientPause, api.StatePaused, true)
	long()
	if d := idle(); d < time.Hour {
		t.Errorf("idle for %s in a paused cell", d)
	}
	s.stop()
	s.finish(t, Interrupted)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
