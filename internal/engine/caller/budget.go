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
		return unlimitedBudget{}, nil
	}
	return c.Budget(ctx)
}

// unlimitedBudget is the budget of a caller without a quota.
type unlimitedBudget struct{}

func (unlimitedBudget) Use(int64) error { return nil }
func (unlimitedBudget) Left() int64     { return math.MaxInt64 }
func (unlimitedBudget) Close()          {}

// SharedBudget returns what begins work that shares so many bytes.
func SharedBudget(bytes int64) func(context.Context) (Budget, error) {
	all := &sharedBudget{most: bytes}
	return func(context.Context) (Budget, error) { return &part{of: all}, nil }
}

// sharedBudget is disk space that several pieces of work share.
type sharedBudget struct {
	most int64

	mu    sync.Mutex
	used  int64 // by work under way
	spent int64 // by work that has ended, which may have kept it
}

type part struct {
	of   *sharedBudget
	used int64
}

func (p *part) Use(bytes int64) error {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.used += bytes - p.used
	p.used = bytes
	if p.of.used+p.of.spent > p.of.most {
		return api.Refusef(api.CodeQuota, "remove cells, with now=true so that their states are not kept; waiting does not help", "the quota of disk is used up")
	}
	return nil
}

func (p *part) Left() int64 {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	return p.of.most - p.of.used - p.of.spent
}

func (p *part) Close() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.used -= p.used
	p.of.spent += p.used
	p.used = 0
}
