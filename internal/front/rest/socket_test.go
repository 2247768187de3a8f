package rest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

// TestLateSignals: signals that come when the command has ended do not keep its socket
// waiting for somebody who takes them.
func TestLateSignals(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := newExecSocket(ctx, nil)
	obeyed := make(chan error, 1)
	go func() {
		for range 3 {
			if err := s.Signal("KILL"); err != nil {
				obeyed <- err
				return
			}
			s.Resize(api.WindowSize{Cols: 80, Rows: 24})
		}
		obeyed <- s.Signal("NONE")
	}()
	cancel()
	select {
	case err := <-obeyed:
		if !errors.Is(err, execwire.ErrMessage) {
			t.Errorf("a signal that does not exist: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the messages after the end of the command are waited on")
	}
}
