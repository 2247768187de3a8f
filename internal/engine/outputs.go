package engine

import "sync"

// runningOutputs are the outputs of runs that this process carries out.
type runningOutputs struct {
	mu   sync.Mutex
	runs map[string]*output
}

// add makes an output known until the returned function is called.
func (o *runningOutputs) add(run string, out *output) (remove func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs == nil {
		o.runs = map[string]*output{}
	}
	o.runs[run] = out
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.runs, run)
	}
}

func (o *runningOutputs) find(run string) *output {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.runs[run]
}
