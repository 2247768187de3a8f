package suggest

import (
	"encoding/json"
	"iter"
	"net"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// deniedEvent has the fields of an event about something that was denied.
type deniedEvent struct {
	Class    event.Class `json:"class_uid"`
	Activity int         `json:"activity_id"`
	Reason   string      `json:"status_detail"`
	Message  string      `json:"message"`
	Actor    struct {
		Process struct {
			File struct {
				Path string `json:"path"`
			} `json:"file"`
		} `json:"process"`
	} `json:"actor"`
	Rule struct {
		Name string `json:"name"`
	} `json:"firewall_rule"`
	Endpoint struct {
		Host string `json:"hostname"`
		IP   string `json:"ip"`
		Port int    `json:"port"`
	} `json:"dst_endpoint"`
	Request struct {
		Method string `json:"http_method"`
		URL    struct {
			Path string `json:"path"`
		} `json:"url"`
	} `json:"http_request"`
	Query struct {
		Host string `json:"hostname"`
	} `json:"query"`
	Unmapped struct {
		Layer string `json:"layer"`
	} `json:"unmapped"`
}

// maxDestinations bounds how many destinations are named.
const maxDestinations = 3

// Destinations counts the events of what a run was denied in the network, and names
// some of the destinations. It ends at events that cannot be read: it is for a
// message, and the receipt has the events.
func Destinations(events iter.Seq2[event.Record, error]) api.DeniedNetwork {
	d := api.DeniedNetwork{To: []string{}}
	for rec, err := range events {
		if err != nil {
			return d
		}
		addDestination(&d, rec)
	}
	return d
}

func addDestination(d *api.DeniedNetwork, rec event.Record) {
	var what deniedEvent
	if json.Unmarshal(rec.Raw, &what) != nil {
		return
	}
	var to string
	switch what.Class {
	case event.NetworkActivity, event.HTTPActivity:
		to = what.destination()
	case event.DNSActivity:
		to = what.Query.Host
	default:
		return
	}
	d.Attempts += int64(rec.Count)
	d.To = name(d.To, to)
}

// destination returns where a connection or request went, as host:port.
func (d *deniedEvent) destination() string {
	host := d.Endpoint.Host
	if host == "" {
		host = d.Endpoint.IP
	}
	return net.JoinHostPort(host, strconv.Itoa(d.Endpoint.Port))
}

// name adds a destination to a list, unless it is there or the list is full.
func name(list []string, to string) []string {
	if len(list) < maxDestinations && !slices.Contains(list, to) {
		list = append(list, to)
	}
	return list
}

// CountUnanswered counts the allowed connections and requests of a run that the other
// side did not answer, and names some of the destinations. It returns nil if there
// are none, and like Destinations ends at events that cannot be read.
func CountUnanswered(events iter.Seq2[event.Record, error]) *api.UnansweredNetwork {
	var u *api.UnansweredNetwork
	for rec, err := range events {
		if err != nil {
			return u
		}
		var what struct {
			deniedEvent
			Alert bool `json:"is_alert"`
		}
		if json.Unmarshal(rec.Raw, &what) != nil || what.Reason == "" || what.Alert {
			continue // the reason of an alert is the rule's, not the upstream's
		}
		if what.Class != event.HTTPActivity && (what.Class != event.NetworkActivity || what.Activity != int(event.Failed)) {
			continue
		}
		if u == nil {
			u = &api.UnansweredNetwork{Reason: what.Reason}
		}
		u.Attempts += int64(rec.Count)
		u.To = name(u.To, what.destination())
	}
	return u
}
