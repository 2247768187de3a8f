package server

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/caller"
	"github.com/forkcell/forkcell/internal/event"
)

// TestInterruptedRepetition: a request that waits for another one with its key is told
// when the daemon interrupts it. An empty 200 would say that it was carried out.
func TestInterruptedRepetition(t *testing.T) {
	t.Parallel()
	s := New(Config{Engine: func(caller.Caller) Engine { return nil }})
	end, err := s.keyed.begin(t.Context(), strings.Join([]string{"me", "POST /v1/cells/demo/runs", "k"}, "\x00"))
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	s.stop()
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), peerKey, peer{unix: true, local: true, name: "me"}), "POST", "http://localhost/v1/cells/demo/runs", http.NoBody)
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code < 400 || w.Body.Len() == 0 {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// brokenOff has events, and ends its request after some.
type brokenOff struct {
	Engine
	cancel context.CancelFunc
	before int
}

func (b brokenOff) Events(_ context.Context, _ api.EventQuery, fn func(event.Record) error) error {
	for range b.before {
		if err := fn(event.Record{Raw: bytes.Repeat([]byte("x"), linesBuffer)}); err != nil {
			return err
		}
	}
	b.cancel()
	return fn(event.Record{Raw: []byte("{}")})
}

// TestInterruptedEvents: nobody takes the events before an interruption for all of them.
func TestInterruptedEvents(t *testing.T) {
	t.Parallel()
	for before, want := range map[int]any{0: nil, 2: http.ErrAbortHandler} {
		s := New(Config{Engine: func(caller.Caller) Engine { return nil }})
		ctx, cancel := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		x := &exchange{call: &call{id: "req_1", engine: brokenOff{cancel: cancel, before: before}}, server: s, w: w, r: httptest.NewRequest("GET", "/v1/events", http.NoBody)}
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("%d events: %v", before, got)
				}
			}()
			x.eventLines(ctx, api.EventQuery{})
		}()
		if before == 0 && w.Code < 400 {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	}
}

// TestEndIsBounded: a request that cannot be interrupted holds a daemon that stops up
// for one limit and not for two.
func TestEndIsBounded(t *testing.T) {
	t.Parallel()
	s := New(Config{Engine: func(caller.Caller) Engine { return nil }, DrainLimit: 1, InterruptLimit: 1})
	stuck := make(chan struct{})
	begun := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		release, err := s.drain.admit()
		if err != nil {
			t.Error(err)
			return
		}
		defer release()
		close(begun)
		<-stuck
	}))
	defer site.Close()
	defer close(stuck)
	go func() {
		r, err := http.Get(site.URL) //nolint:noctx // it is cut off
		if err == nil {
			_ = r.Body.Close()
		}
	}()
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- s.end(site.Config) }()
	select {
	case <-ended:
	case <-time.After(interruptLimit - 5*time.Second):
		t.Error("it waits again")
	}
}
