package caller

import (
	"context"
	"math"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
)

// Budget bounds the disk space that one piece of work takes. It is safe for concurrent
// use.
type Budget interface {
	// Use records how many bytes the work takes now, and fails if there is no room for
	// them.
	Use(bytes int64) error
	// Left returns how much more the work may take.
	Left() int64
	// Close ends the work: what it has made is counted where it is recorded.
	Close()
}

// Begin returns the budget of a piece of work that takes disk space.
func (c Caller) Begin(ctx context.Context) (Budget, error) {
	if c.Budget == nil {
		return unlimited{}, nil
	}
	return c.Budget(ctx)
}

// unlimited is the budget of a caller without a quota.
type unlimited struct{}

func (unlimited) Use(int64) error { return nil }
func (unlimited) Left() int64     { return math.MaxInt64 }
func (unlimited) Close()          {}

// FixedBudget returns a budget of so many bytes.
func FixedBudget(bytes int64) Budget { return &fixed{most: bytes} }

type fixed struct {
	most int64
	mu   sync.Mutex
	used int64
}

func (f *fixed) Use(bytes int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used = bytes
	if bytes > f.most {
		return api.Refusef(api.CodeQuota, "remove cells or states; waiting does not help", "the quota of disk is used up")
	}
	return nil
}

func (f *fixed) Left() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most - f.used
}

func (*fixed) Close() {}
