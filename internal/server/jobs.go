package server

import (
	"context"
	"sync"
)

// jobs are the runs that this daemon carries out, by their ids.
type jobs struct {
	mu   sync.Mutex
	runs map[string]context.CancelFunc
	all  sync.WaitGroup
}

// add makes a run known until the returned function is called.
func (j *jobs) add(id string, cancel context.CancelFunc) (done func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.runs == nil {
		j.runs = map[string]context.CancelFunc{}
	}
	j.runs[id] = cancel
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.runs, id)
	}
}

// count returns the number of runs that this daemon carries out.
func (j *jobs) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.runs)
}

// known reports whether this daemon carries out a run.
func (j *jobs) known(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, ok := j.runs[id]
	return ok
}

// cancel ends a run and reports whether this daemon carries it out.
func (j *jobs) cancel(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	stop, ok := j.runs[id]
	if ok {
		stop()
	}
	return ok
}
