package remote

import (
	"context"
	"sync"
)

// unreadInput counts the input that was sent and that the command has not read.
type unreadInput struct {
	mu    sync.Mutex
	bytes int
	freed chan struct{} // gets a value when bytes were read
}

func newUnread() *unreadInput { return &unreadInput{freed: make(chan struct{}, 1)} }

// reserve waits until n bytes may be sent. It reports false if ctx ends before.
func (u *unreadInput) reserve(ctx context.Context, n int) bool {
	for {
		u.mu.Lock()
		fits := u.bytes+n <= window
		if fits {
			u.bytes += n
		}
		u.mu.Unlock()
		if fits {
			return true
		}
		select {
		case <-u.freed:
		case <-ctx.Done():
			return false
		}
	}
}

// release takes n bytes as read.
func (u *unreadInput) release(n int) {
	u.mu.Lock()
	u.bytes -= n
	u.mu.Unlock()
	select {
	case u.freed <- struct{}{}:
	default:
	}
}
