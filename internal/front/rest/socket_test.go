package rest

import (
	"context"
	"testing"
	"time"
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
			for _, text := range []string{`{"type":"signal","name":"KILL"}`, `{"type":"resize","cols":80,"rows":24}`} {
				if err := s.obey([]byte(text)); err != nil {
					obeyed <- err
					return
				}
			}
		}
		obeyed <- nil
	}()
	cancel()
	select {
	case err := <-obeyed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the messages after the end of the command are waited on")
	}
}
