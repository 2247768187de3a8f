package engine

import (
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/policy/suggest"
)

// deniedNetwork returns the connections that a run was denied. It matters for a
// successful run too: the last command of a pipe hides that the first one failed.
func (r *run) deniedNetwork() api.DeniedNetwork {
	d := api.DeniedNetwork{To: []string{}}
	if r.events.ByAction[string(event.ActionDenied)] > 0 {
		d = suggest.Destinations(r.e.JournalOf(r.rec.ID, event.Filter{Action: event.ActionDenied}))
	}
	if r.spec.Network == nil {
		// The kernel counts also what no event can name, such as a datagram.
		d.Attempts = max(d.Attempts, r.outcome.Refused)
		d.Offline = d.Attempts > 0
	}
	return d
}

// unansweredNetwork returns the allowed connections of a failed run that the other
// side did not answer, or nil.
func (r *run) unansweredNetwork() *api.UnansweredNetwork {
	if r.rec.Outcome == succeeded || r.spec.Network == nil || r.events.ByAction[string(event.ActionAllowed)] == 0 {
		return nil
	}
	return suggest.CountUnanswered(r.e.JournalOf(r.rec.ID, event.Filter{Action: event.ActionAllowed}))
}
