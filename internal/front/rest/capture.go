package rest

import (
	"context"
	"sync"
)

// captures lets each token copy what live cells have written one time after the other.
type captures struct {
	mu   sync.Mutex
	turn map[string]chan struct{} // by token; full while one copies
}

// begin waits for the turn of a token, which lasts until end is called.
func (t *captures) begin(ctx context.Context, token string) (end func(), err error) {
	t.mu.Lock()
	if t.turn == nil {
		t.turn = map[string]chan struct{}{}
	}
	turn := t.turn[token]
	if turn == nil {
		turn = make(chan struct{}, 1)
		t.turn[token] = turn
	}
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// roomToCapture is roomOnDisk for requests that copy what a live cell has written: how much
// that is, nobody knows before. Of a sender with a quota one copies at a time, so that each
// finds what those before it have made. The caller calls end.
func (s *Server) roomToCapture(ctx context.Context, c *call) (end func(), err error) {
	if !c.caller.boundDisk() {
		return func() {}, nil
	}
	if end, err = s.captures.begin(ctx, c.caller.grant.ID); err != nil {
		return nil, err
	}
	if err := s.roomOnDisk(ctx, c); err != nil {
		end()
		return nil, err
	}
	return end, nil
}
