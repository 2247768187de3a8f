package names

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Reason is the reason for an answer.
type Reason string

// The reasons.
const (
	// Answered: some rule could allow the name; the decision is taken when the
	// cell connects.
	Answered Reason = "answered"
	// NotAllowed: no rule could allow the name.
	NotAllowed Reason = "no rule allows the name"
	// Malformed: a name that no host has.
	Malformed Reason = "not the name of a host"
	// TableFull: the run has used more names than a table holds.
	TableFull Reason = "too many names in one run"
	// TooManyDenied: one event for many questions, each REFUSED.
	TooManyDenied Reason = "too many names that no rule allows"
)

// Client is the origin of a question.
type Client struct {
	// Addr is the address in the cell that the question came from.
	Addr netip.AddrPort
	// Conn is the connection that it came by; nil for a datagram.
	Conn net.Conn
}

// Query is a question, as [Server.Event] gets it.
type Query struct {
	// Name is in lower case, without the dot at the end. Bytes that no host
	// name has are escaped.
	Name string
	// Type is as in "AAAA".
	Type string
	// Client is the first client, with the number and the executable of its
	// process as [Server.Who] returns them.
	Client Client
	PID    int
	Binary string
	// Rcode is the code of the answer.
	Rcode int
	// Answers are synthetic addresses.
	Answers []netip.Addr
	Reason  Reason
	// Count is how many questions this stands for, the first one at From and
	// the last one at To.
	Count    uint64
	From, To time.Time
}

// Server answers the DNS questions of one cell. Its fields must not change once
// it serves. One server may serve on many sockets at once.
//
// Names that are allowed get their synthetic addresses, and no records of other
// types; all others do not exist (NXDOMAIN). localhost is the cell itself.
type Server struct {
	// Table holds the names and their addresses. It must be set.
	Table *Table
	// Allowed reports whether some rule could allow a name, which is in lower
	// case and without the dot at its end. It is called every time, so that a
	// new policy applies at once. Nil allows nothing.
	Allowed func(name string) bool
	// Event is called for a name and type at the first question, when the
	// answer has changed from allowed to denied or back, and every minute while
	// questions continue. Nil is allowed. It is called while the client waits.
	// Finish reports the remaining questions.
	Event func(Query)
	// Who finds the process of a client that waits for its answer. If it is nil
	// or returns zeros, the process is not known.
	Who func(Client) (pid int, binary string)
	// IPv6 reports that the cell has IPv6: AAAA questions then get an address
	// instead of an empty answer.
	IPv6   bool
	Limits Limits

	once    sync.Once
	reports *reportLimiter
	// For tests: the clock, and the waiting.
	now   func() time.Time
	pause func(time.Duration)
}

// stats returns the counts so far.
func (s *Server) stats() stats {
	s.start()
	s.reports.mu.Lock()
	defer s.reports.mu.Unlock()
	return s.reports.stats
}

func (s *Server) start() {
	s.once.Do(func() {
		if s.now == nil {
			s.now = time.Now
		}
		if s.pause == nil {
			s.pause = func(d time.Duration) { <-time.After(d) }
		}
		s.reports = newReportLimiter(s.Limits, s.now)
	})
}

const (
	headerLen = 12
	// udpSize is the size that EDNS answers announce: no path fragments it.
	// Answers are far smaller, and never truncated: a name, at most one record
	// whose name is a pointer to it, and the OPT record fit 512 bytes.
	udpSize = 1232
	// ttl is a minute: the bindings last for the whole run, but programs that
	// cache an answer for its lifetime should notice a new policy.
	ttl = 60
)

// respond returns the answer to one message, nil if it gets none.
func (s *Server) respond(req []byte, client Client) []byte {
	if d := s.reports.question(); d > 0 {
		s.pause(d)
	}
	// A response, or no message at all. Answering responses could keep two
	// servers talking to each other.
	if len(req) < headerLen || req[2]&0x80 != 0 {
		return nil
	}
	if req[2]&0x78 != 0 {
		return failure(req, dns.RcodeNotImplemented)
	}
	count := func(i int) uint16 { return binary.BigEndian.Uint16(req[i:]) }
	// One question, no answers, no authorities; OPT and a signature at most.
	if count(4) != 1 || count(6) != 0 || count(8) != 0 || count(10) > 2 {
		return failure(req, dns.RcodeFormatError)
	}
	var q dns.Msg
	if q.Unpack(req) != nil || len(q.Question) != 1 || len(q.Extra) != int(count(10)) || q.Question[0].Qclass == 0 {
		// Class 0 does not exist; the library leaves it where a question ends
		// early.
		return failure(req, dns.RcodeFormatError)
	}
	m := new(dns.Msg)
	m.SetReply(&q)
	m.RecursionAvailable = true
	m.Compress = true
	switch opt, err := edns(&q); {
	case err != nil:
		return failure(req, dns.RcodeFormatError)
	case opt != nil && opt.Version() != 0:
		m.SetEdns0(udpSize, opt.Do())
		m.Rcode = dns.RcodeBadVers
	default:
		if opt != nil {
			m.SetEdns0(udpSize, opt.Do())
		}
		s.fill(m, client)
	}
	out, err := m.Pack()
	if err != nil {
		return failure(req, dns.RcodeServerFailure)
	}
	return out
}

// Observe takes a question that has got no answer, as [Server.Event] reports it.
func (s *Server) Observe(req []byte) {
	s.start()
	s.respond(req, Client{})
}

// failure returns the answer to an unreadable message: only the header.
func failure(req []byte, rcode byte) []byte {
	out := make([]byte, headerLen)
	copy(out, req[:2])
	out[2] = 0x80 | req[2]&0x79 // a response, with their opcode and RD
	out[3] = 0x80 | rcode       // RA
	return out
}

func edns(q *dns.Msg) (*dns.OPT, error) {
	var found *dns.OPT
	for _, rr := range q.Extra {
		opt, ok := rr.(*dns.OPT)
		switch {
		case !ok:
		case found != nil, opt.Hdr.Name != ".":
			return nil, errors.New("more than one OPT record, or one with a name")
		default:
			found = opt
		}
	}
	return found, nil
}

// fill answers the question of m.
func (s *Server) fill(m *dns.Msg, client Client) {
	q := m.Question[0]
	if q.Qclass != dns.ClassINET {
		m.Rcode = dns.RcodeRefused
		return
	}
	host, err := hostName(q.Name)
	if err != nil {
		s.deny(m, Query{Name: printable(q.Name), Reason: Malformed, Client: client})
		return
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		// RFC 6761 requires resolvers to answer with the loopback address.
		s.address(m, q, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
		return
	}
	if s.reverse(m, q, host) {
		return
	}
	if s.Allowed == nil || !s.Allowed(host) {
		s.deny(m, Query{Name: host, Reason: NotAllowed, Client: client})
		return
	}
	switch q.Qtype {
	case dns.TypeA, dns.TypeAAAA, dns.TypeANY:
	default:
		// These include HTTPS and SVCB, which would name other ports, addresses
		// and keys for encrypted names.
		return
	}
	v4, v6, err := s.Table.Assign(host)
	if err != nil {
		s.deny(m, Query{Name: host, Reason: TableFull, Client: client})
		return
	}
	told := Query{Name: host, Reason: Answered, Client: client}
	if addr := s.address(m, q, v4, v6); addr.IsValid() {
		told.Answers = []netip.Addr{addr}
	}
	s.note(m, told)
}

// address adds the requested record. A question for any type gets one record
// (RFC 8482).
func (s *Server) address(m *dns.Msg, q dns.Question, v4, v6 netip.Addr) netip.Addr {
	hdr := dns.RR_Header{Name: q.Name, Class: dns.ClassINET, Ttl: ttl}
	switch {
	case q.Qtype == dns.TypeA, q.Qtype == dns.TypeANY:
		hdr.Rrtype = dns.TypeA
		m.Answer = append(m.Answer, &dns.A{Hdr: hdr, A: v4.AsSlice()})
		return v4
	case q.Qtype == dns.TypeAAAA && s.IPv6:
		hdr.Rrtype = dns.TypeAAAA
		m.Answer = append(m.Answer, &dns.AAAA{Hdr: hdr, AAAA: v6.AsSlice()})
		return v6
	}
	return netip.Addr{}
}

// deny answers that a name does not exist, or refuses the question if it is
// over the limits.
func (s *Server) deny(m *dns.Msg, q Query) {
	m.Rcode = dns.RcodeNameError
	if q.Reason == TableFull || !s.reports.admitDenied(question{q.Name, m.Question[0].Qtype}) {
		// Over the limits the answer must not claim that the name does not exist.
		m.Rcode = dns.RcodeRefused
	}
	if m.Rcode == dns.RcodeRefused && q.Reason != TableFull {
		q.Reason = TooManyDenied
	}
	s.note(m, q)
}

// record counts a question, and reports it if that is due.
func (s *Server) note(m *dns.Msg, q Query) {
	q.Type = dns.Type(m.Question[0].Qtype).String()
	q.Rcode = m.Rcode
	key := question{q.Name, m.Question[0].Qtype}
	if q.Reason == TooManyDenied {
		key = question{} // they share one
	}
	if s.Who != nil && s.reports.isNew(key) {
		q.PID, q.Binary = s.Who(q.Client)
	}
	s.report(s.reports.record(key, q))
}

func (s *Server) report(list []Query) {
	for _, q := range list {
		if s.Event != nil {
			s.Event(q)
		}
	}
}

// Finish reports the questions that Event has not received yet. It is called
// when nothing is served any more.
func (s *Server) Finish() {
	s.start()
	s.report(s.reports.takeUnreported())
}

// reverse answers with the name that an address is bound to.
func (s *Server) reverse(m *dns.Msg, q dns.Question, host string) bool {
	addr, ok := reverseAddr(host)
	if !ok {
		return false
	}
	name, ok := s.Table.Name(addr)
	if !ok {
		return false
	}
	if q.Qtype == dns.TypePTR || q.Qtype == dns.TypeANY {
		hdr := dns.RR_Header{Name: q.Name, Rrtype: dns.TypePTR, Class: dns.ClassINET, Ttl: ttl}
		m.Answer = append(m.Answer, &dns.PTR{Hdr: hdr, Ptr: name + "."})
	}
	return true
}

// reverseAddr reads a name such as "1.0.18.198.in-addr.arpa".
func reverseAddr(name string) (netip.Addr, bool) {
	if head, ok := strings.CutSuffix(name, ".in-addr.arpa"); ok {
		parts := strings.Split(head, ".")
		if len(parts) != 4 {
			return netip.Addr{}, false
		}
		addr, err := netip.ParseAddr(parts[3] + "." + parts[2] + "." + parts[1] + "." + parts[0])
		return addr, err == nil
	}
	head, ok := strings.CutSuffix(name, ".ip6.arpa")
	if !ok || len(head) != 63 {
		return netip.Addr{}, false
	}
	var a [16]byte
	for i := range 32 {
		c := strings.IndexByte("0123456789abcdef", head[62-2*i])
		if c < 0 || (i > 0 && head[63-2*i] != '.') {
			return netip.Addr{}, false
		}
		a[i/2] = a[i/2]<<4 | byte(c)
	}
	return netip.AddrFrom16(a), true
}

// printable returns a name as the library escapes it, which is ASCII without
// control characters, in lower case and without the dot at the end.
func printable(name string) string {
	if name != "." {
		name = strings.TrimSuffix(name, ".")
	}
	return strings.ToLower(name)
}

func addrOf(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.UDPAddr:
		return unmapped(a.AddrPort())
	case *net.TCPAddr:
		return unmapped(a.AddrPort())
	}
	return netip.AddrPort{}
}

func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
