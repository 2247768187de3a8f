package cell

import (
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/suggest"
)

// deniedNetwork returns the connections that a run was denied. It matters for a
// successful run too: the last command of a pipe hides that the first one failed.
func (r *run) deniedNetwork() api.DeniedNetwork {
	if r.spec.Network == nil {
		return api.DeniedNetwork{Attempts: r.outcome.Refused, To: []string{}}
	}
	if r.events.ByAction[string(event.ActionDenied)] == 0 {
		return api.DeniedNetwork{To: []string{}}
	}
	return suggest.Destinations(r.e.JournalOf(r.rec.ID, event.Filter{Action: event.ActionDenied}))
}

// unansweredNetwork returns the allowed connections of a failed run that the other
// side did not answer, or nil.
func (r *run) unansweredNetwork() *api.UnansweredNetwork {
	if r.rec.Outcome == succeeded || r.spec.Network == nil || r.events.ByAction[string(event.ActionAllowed)] == 0 {
		return nil
	}
	return suggest.Unanswered(r.e.JournalOf(r.rec.ID, event.Filter{Action: event.ActionAllowed}))
}
