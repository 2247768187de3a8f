package network

import (
	"net/netip"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress/names"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// noNetwork is the reason of the events about what a cell without a network tries to
// reach.
const noNetwork = "endpoint: the cell has no network"

// noNetworkName is that reason for a name.
const noNetworkName = string(names.NotAllowed) + ": the cell has no network"

// Attempts makes events of what a cell without a network tries to reach: denials, as
// those of a network policy that allows nothing. finish is called when the cell is gone.
func Attempts(record func(event.Event)) (a *driver.Attempts, finish func()) {
	questions := &names.Server{Table: &names.Table{}, Event: func(q names.Query) {
		s := event.Subject{Verdict: event.Denied, Rule: "dns", Reason: string(q.Reason)}
		if q.Reason == names.NotAllowed {
			s.Reason = noNetworkName
		}
		record(event.DNS(s, event.Query{Name: q.Name, Type: q.Type, Rcode: q.Rcode, Count: q.Count, From: q.From, To: q.To}))
	}}
	return &driver.Attempts{
		Connect: func(p driver.Program, to netip.AddrPort, udp bool) {
			s := event.Subject{Verdict: event.Denied, Reason: noNetwork, Process: event.Process{PID: p.PID, Binary: p.Binary}}
			record(event.Network(s, event.Refused, event.Connection{IP: to.Addr().String(), Port: int(to.Port()), UDP: udp}))
		},
		Question: questions.Observe,
	}, questions.Finish
}
