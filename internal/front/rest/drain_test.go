package rest

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/evidence/event"
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

// slowEnd is a listener of a service manager that tells of its next Accept and of its end.
type slowEnd struct {
	net.Listener
	accepting chan struct{}
	closed    func()
}

func (l *slowEnd) Accept() (net.Conn, error) {
	l.accepting <- struct{}{}
	return l.Listener.Accept()
}

func (l *slowEnd) Close() error {
	defer l.closed()
	return l.Listener.Close()
}

// TestAcceptedAtTheEnd: a caller whose connection was accepted just before the daemon stops
// gets an answer.
func TestAcceptedAtTheEnd(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	l := &slowEnd{inner, make(chan struct{}, 2), sync.OnceFunc(func() { close(closed) })}
	s := New(Config{Engine: func(caller.Caller) Engine { return nil }})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, InheritedListener{l}) }()
	<-l.accepting
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-l.accepting // so it is accepted
	stop()
	<-closed
	if _, err := conn.Write([]byte("GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
