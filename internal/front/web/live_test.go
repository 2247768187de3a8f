package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// timedWriter notes the deadline of each write.
type timedWriter struct {
	*httptest.ResponseRecorder
	deadline time.Time
	writes   []time.Time
}

func (w *timedWriter) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *timedWriter) Write(p []byte) (int, error) {
	w.writes = append(w.writes, w.deadline)
	return w.ResponseRecorder.Write(p)
}

// TestEventsHaveDeadlines: a browser that does not read is given up.
func TestEventsHaveDeadlines(t *testing.T) {
	t.Parallel()
	w := &timedWriter{ResponseRecorder: httptest.NewRecorder()}
	begin := time.Now()
	for range 2 {
		if err := send(w, http.NewResponseController(w), "state", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.writes) != 2 || w.writes[0].Before(begin.Add(sendLimit)) || !w.writes[1].After(w.writes[0]) {
		t.Errorf("deadlines %v", w.writes)
	}
}
