package client

import (
	"net/http"
	"slices"
	"sync"
)

// seen is the undecided work that a Cell has shown to its caller: runs and captured states,
// the oldest first. Accept takes nothing else.
type seen struct {
	mu  sync.Mutex
	ids []string
}

// set remembers what a comparison of all undecided work showed.
func (s *seen) set(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = slices.Clone(ids)
}

// add remembers more work.
func (s *seen) add(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if !slices.Contains(s.ids, id) {
			s.ids = append(s.ids, id)
		}
	}
}

// ran remembers a run, if it waits for a decision.
func (s *seen) ran(r RunResult) {
	if r.Decision == "pending" {
		s.add(r.RunID)
	}
}

// left forgets what a move back from a run has left.
func (s *seen) left(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = s.ids[:max(0, slices.Index(s.ids, run))]
}

// bind has a request that chooses nothing name what the caller has seen.
func (s *seen) bind(r *Accept, opts []CallOption) {
	in := &call{header: http.Header{}}
	for _, o := range opts {
		o(in)
	}
	if r.Run != "" || len(r.Runs) > 0 || in.header.Get("If-Match") != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.ids {
		if !slices.Contains(r.LeaveOut, id) {
			r.Runs = append(r.Runs, id)
		}
	}
}
