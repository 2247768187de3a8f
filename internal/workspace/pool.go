package workspace

import (
	"context"
	"runtime"
	"sync"
)

// pool bounds how many things are read or copied at once. Work that finds no
// room is done by the one who brings it, so that nesting cannot block and what
// is in memory stays bounded by the depth of a tree, not by its size.
type pool struct {
	tokens chan struct{}
}

// newPool has twice the number of cores: part of the time goes to waiting for
// the disk.
func newPool() *pool {
	return &pool{tokens: make(chan struct{}, 2*runtime.GOMAXPROCS(0)-1)}
}

// group is work that is waited for together. After the first error no more is
// started.
type group struct {
	ctx  context.Context
	pool *pool
	wg   sync.WaitGroup
	mu   sync.Mutex
	err  error
}

func (p *pool) group(ctx context.Context) *group {
	return &group{ctx: ctx, pool: p}
}

func (g *group) do(fn func() error) {
	g.mu.Lock()
	failed := g.err != nil
	g.mu.Unlock()
	if failed {
		return
	}
	if err := g.ctx.Err(); err != nil {
		g.note(err)
		return
	}
	select {
	case g.pool.tokens <- struct{}{}:
		g.wg.Go(func() {
			defer func() { <-g.pool.tokens }()
			g.note(fn())
		})
	default:
		g.note(fn())
	}
}

func (g *group) note(err error) {
	if err == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
}

func (g *group) wait() error {
	g.wg.Wait()
	return g.err
}
