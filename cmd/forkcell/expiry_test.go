package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
)

// expiring runs an Expirer until the test ends, as the daemon does.
func (h *home) expiring() *engine.Expirer {
	x := h.e.NewExpirer()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		x.Run(ctx)
	}()
	h.Cleanup(func() {
		cancel()
		<-ended
	})
	return x
}

func (h *home) set(s api.Settings) {
	h.Helper()
	_, err := h.e.Update(h.Context(), api.UpdateRequest{Cell: "demo", TTL: &s.TTL, IdleTimeout: &s.IdleTimeout, OnTimeout: &s.OnTimeout})
	h.ok(err)
}

// awaitState waits until the cell has a state, and returns when it had it. "" is a
// cell that was removed.
func (h *home) awaitState(state string) time.Time {
	h.Helper()
	for ; ; <-time.After(10 * time.Millisecond) {
		res, err := h.e.Status(h.T.Context(), "demo")
		if state == "" && api.KindOf(err) == api.NotFound {
			return time.Now()
		}
		h.ok(err)
		if res.State == state {
			return time.Now()
		}
	}
}

// within fails unless something happened at its time, or up to a second later. The
// rest is for a host that is busy with other tests, which may be for long.
func (h *home) within(what string, due, at time.Time) {
	h.Helper()
	if late := at.Sub(due); late < 0 || late > 30*time.Second {
		h.Errorf("%s: %s late", what, late)
	}
	h.Logf("%s: %s late", what, at.Sub(due))
}

// TestLiveExpires: a live cell is stopped, paused or removed at its time, by another
// process than the one that started it.
func TestLiveExpires(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"stop", "pause", "remove"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, "")
			info, err := h.e.Status(h.Context(), "demo")
			h.ok(err)
			h.start()
			if action != "remove" { // a cell with work that nobody decided about is kept
				h.sh("echo two > file")
			}
			h.set(api.Settings{TTL: api.Duration(3 * time.Second), OnTimeout: action})
			h.expiring()
			state := map[string]string{"stop": api.StateIdle, "pause": api.StatePaused}[action]
			if can, _ := canFreeze(); !can && action == "pause" {
				state = api.StateIdle // it is stopped
			}
			h.within("the ttl", info.CreatedAt.Add(3*time.Second), h.awaitState(state))
			if action == "remove" {
				return
			}
			log, err := h.e.Log(h.Context(), "demo")
			h.ok(err)
			n := 0
			for _, entry := range log {
				if entry.Kind == "expire" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d statements: %+v", n, log)
			}
			if state == api.StatePaused {
				_, err = h.e.Resume(h.Context(), api.ResumeRequest{Cell: "demo"})
				h.ok(err)
				h.stop()
			}
			h.sound()
		})
	}
}

// TestLiveIdle: a command that runs keeps its cell. The cell is stopped when it was
// not used for long enough after it.
func TestLiveIdle(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.start()
	began := time.Now()
	out, says := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := h.e.Exec(h.Context(), shell("echo begun; sleep 3"), engine.Stdio{Out: says})
		ended <- err
	}()
	_, err := io.ReadFull(out, make([]byte, len("begun\n")))
	h.ok(err)
	h.set(api.Settings{IdleTimeout: api.Duration(time.Second)})
	h.expiring()
	h.ok(<-ended)
	// Status asks the supervisor for its sessions, which is no use of the cell.
	h.within("the idle timeout", began.Add(4*time.Second), h.awaitState(api.StateIdle))
	res, err := h.e.Status(h.Context(), "demo")
	h.ok(err)
	if res.LastOutcome != "succeeded" {
		t.Errorf("%+v", res)
	}
	h.sound()
}
