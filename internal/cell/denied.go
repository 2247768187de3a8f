package cell

import (
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/suggest"
)

// deniedNetwork returns what a run was denied, also if the run succeeded: the last
// command of a pipe hides that the first one failed.
func (r *run) deniedNetwork() api.DeniedNetwork {
	if r.spec.Network == nil {
		return api.DeniedNetwork{Attempts: r.outcome.Refused, To: []string{}}
	}
	if r.events.ByAction[string(event.ActionDenied)] == 0 {
		return api.DeniedNetwork{To: []string{}}
	}
	return suggest.Destinations(r.e.journalOf(r.rec.ID, event.Filter{Action: event.ActionDenied}))
}
