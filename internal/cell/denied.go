package cell

import (
	"encoding/json"
	"net"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/event"
)

// maxDestinations bounds what a message names.
const maxDestinations = 3

// deniedNetwork collects what a run was denied, also one that succeeded all the
// same: the last command of a pipe hides that the first one failed.
func (r *run) deniedNetwork() api.DeniedNetwork {
	d := api.DeniedNetwork{To: []string{}}
	if r.spec.Network == nil {
		d.Attempts = r.outcome.Refused
		return d
	}
	if r.events.ByAction[string(event.ActionDenied)] == 0 {
		return d
	}
	for rec, err := range r.e.journalOf(r.rec.ID, event.Filter{Action: event.ActionDenied}) {
		if err != nil {
			return d // a message of less, and the receipt has the events
		}
		addDenied(&d, rec)
	}
	return d
}

func addDenied(d *api.DeniedNetwork, rec event.Record) {
	var what denied
	if json.Unmarshal(rec.Raw, &what) != nil {
		return
	}
	to := what.Endpoint.Host
	switch what.Class {
	case event.NetworkActivity, event.HTTPActivity:
		if to == "" {
			to = what.Endpoint.IP
		}
		to = net.JoinHostPort(to, strconv.Itoa(what.Endpoint.Port))
	case event.DNSActivity:
		to = what.Query.Host
	default:
		return
	}
	d.Attempts += int64(rec.Count)
	if len(d.To) < maxDestinations && !slices.Contains(d.To, to) {
		d.To = append(d.To, to)
	}
}
