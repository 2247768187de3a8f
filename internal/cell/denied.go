package cell

import (
	"encoding/json"
	"net"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/event"
)

// DeniedNetwork is what a run was denied of a network.
type DeniedNetwork struct {
	// Attempts counts connections, requests and questions for names.
	Attempts int64 `json:"attempts"`
	// To has some of the destinations, as host:port; a name that was only asked
	// for has no port. It is empty in a cell without a network, which sees none.
	To []string `json:"to"`
}

// maxDestinations bounds what a message names.
const maxDestinations = 3

// deniedNetwork collects what a run was denied, also one that succeeded all the
// same: the last command of a pipe hides that the first one failed.
func (r *run) deniedNetwork() DeniedNetwork {
	d := DeniedNetwork{To: []string{}}
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
		d.add(rec)
	}
	return d
}

func (d *DeniedNetwork) add(rec event.Record) {
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
