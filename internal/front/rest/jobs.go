package rest

import (
	"context"
	"sync"
)

// jobs are the runs that this daemon carries out, by their ids.
type jobs struct {
	mu   sync.Mutex
	runs map[string]job
	all  sync.WaitGroup
}

// job is a run that this daemon carries out.
type job struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the engine has returned
}

// add makes a run known until the returned function is called.
func (j *jobs) add(id string, cancel context.CancelFunc) (done func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.runs == nil {
		j.runs = map[string]job{}
	}
	ended := make(chan struct{})
	j.runs[id] = job{cancel, ended}
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.runs, id)
		close(ended)
	}
}

// count returns the number of runs that this daemon carries out.
func (j *jobs) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.runs)
}

// has reports whether this daemon carries out a run.
func (j *jobs) has(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, ok := j.runs[id]
	return ok
}

// settle waits until this daemon does not carry out a run. A run is recorded before its
// cell is free, and who is told that it has ended may change the cell at once.
func (j *jobs) settle(ctx context.Context, id string) error {
	j.mu.Lock()
	run, ok := j.runs[id]
	j.mu.Unlock()
	if !ok {
		return nil
	}
	select {
	case <-run.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cancel ends a run and reports whether this daemon carries it out.
func (j *jobs) cancel(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	run, ok := j.runs[id]
	if ok {
		run.cancel()
	}
	return ok
}
