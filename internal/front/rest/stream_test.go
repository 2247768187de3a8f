package rest

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowWriter takes long for all but the first part of an answer.
type slowWriter struct {
	*httptest.ResponseRecorder
	parts int
	begun chan struct{}
	busy  bool
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.parts++; w.parts > 1 {
		w.busy = true
		close(w.begun)
		<-time.After(bodyTimeout) // by the clock of the bubble
		w.busy = false
	}
	return w.ResponseRecorder.Write(p)
}

// TestHeartbeat: a stream without events has a comment every 15 seconds, so that both
// sides learn when the other one is gone.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		stop := newEventStream(w).beat()
		<-time.After(15*time.Second - 1)
		synctest.Wait()
		if got := w.Body.String(); got != ":\n\n" {
			t.Errorf("before: %q", got)
		}
		<-time.After(30*time.Second + 1)
		synctest.Wait()
		stop()
		<-time.After(time.Minute)
		if got := w.Body.String(); got != strings.Repeat(":\n\n", 4) || !w.Flushed {
			t.Errorf("after: %q", got)
		}
	})
}

// TestNothingAfterTheEnd: when a stream has ended, no heartbeat is being written, and
// nothing else will be. The writer of a request is of no use then.
func TestNothingAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &slowWriter{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{})}
		s := newEventStream(w)
		stop := s.beat()
		<-w.begun
		stop()
		if w.busy {
			t.Fatal("a heartbeat is being written")
		}
		if err := s.send("late", streamData{}); err == nil || w.parts != 2 {
			t.Errorf("%v, %d parts", err, w.parts)
		}
	})
}
