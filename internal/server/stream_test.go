package server

import (
	"net/http/httptest"
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
