package suggest

import (
	"encoding/json"
	"iter"
	"net"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/event"
)

// denied is what is read of the event of something that was denied.
type denied struct {
	Class   event.Class `json:"class_uid"`
	Reason  string      `json:"status_detail"`
	Message string      `json:"message"`
	Actor   struct {
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
