package history

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Requests whose sender is not known are recorded one by one up to a number; the others
// are counted, and each peer gets one record for all of them when the window ends. So
// callers without a token cannot fill the journal or push older records out of it.
const (
	strangerWindow = 10 * time.Minute
	strangerEach   = 10  // records of one peer in a window
	strangerAll    = 100 // records of all peers
	strangerPeers  = 64  // peers that are counted apart; those beyond share one record
)

// unknownSenders counts requests without a known sender. It belongs to one goroutine.
type unknownSenders struct {
	begun time.Time // of the window
	all   int
	peers map[string]*unknownSender
}

type unknownSender struct {
	recorded int
	last     timedCall // of those that were only counted
	count    uint64
	first    time.Time
}

// admit reports whether a request is recorded by itself. If not, it is counted.
func (s *unknownSenders) admit(c timedCall) bool {
	if c.Caller != "" {
		return true
	}
	if s.peers == nil {
		s.begun, s.peers = c.at, map[string]*unknownSender{}
	}
	from := network(c.From)
	if s.peers[from] == nil && len(s.peers) >= strangerPeers {
		from, c.From = "", ""
	}
	p := s.peers[from]
	if p == nil {
		p = &unknownSender{}
		s.peers[from] = p
	}
	if p.recorded < strangerEach && s.all < strangerAll {
		p.recorded++
		s.all++
		return true
	}
	if p.count == 0 {
		p.first = c.at
	}
	p.last = c
	p.count++
	return false
}

// take returns a record for each peer whose requests were only counted, the earliest
// first, and begins a new window. Before the window has ended it returns nothing, unless
// it is to end now.
func (s *unknownSenders) take(now time.Time, end bool) (counted []timedCall) {
	if !end && now.Sub(s.begun) < strangerWindow {
		return nil
	}
	for _, p := range s.peers {
		if p.count > 0 {
			c := p.last
			c.Count, c.First = p.count, p.first
			counted = append(counted, c)
		}
	}
	*s = unknownSenders{}
	slices.SortFunc(counted, func(a, b timedCall) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.From, b.From)) })
	return counted
}

// network returns what counts as one peer: an address, or a network of IPv6, because one
// host has all of its addresses.
func network(from string) string {
	addr, err := netip.ParseAddr(from)
	if err != nil {
		return from
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		addr = netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	return addr.String()
}
