package names

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"
	"pgregory.net/rapid"
)

// testServer allows the names under example.com, and the single label db. Its
// clock stands still until the test moves it, and it never waits.
type testServer struct {
	*Server
	clock  time.Time
	events []Query
	waited time.Duration
}

func newTestServer() *testServer {
	s := &testServer{clock: time.Unix(1e9, 0)}
	s.Server = &Server{
		Table:   &Table{first: 1},
		Allowed: func(n string) bool { return n == "db" || strings.HasSuffix(n, ".example.com") },
		Event:   func(q Query) { s.events = append(s.events, q) },
		IPv6:    true,
		now:     func() time.Time { return s.clock },
		pause:   func(d time.Duration) { s.waited += d; s.clock = s.clock.Add(d) },
	}
	return s
}

var testClient = Client{Addr: netip.MustParseAddrPort("127.0.0.1:40000")}

func (s *testServer) raw(t testing.TB, request string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(request, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	return hex.EncodeToString(s.respond(b, testClient))
}

// ask returns the answer in short, as in "NOERROR 198.18.0.2".
func (s *testServer) ask(t testing.TB, name string, qtype uint16) string {
	t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(name, qtype)
	b, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	var m dns.Msg
	if err := m.Unpack(s.respond(b, testClient)); err != nil {
		t.Fatal(err)
	}
	if m.Id != q.Id || !m.Response || !m.RecursionAvailable || m.Truncated || m.Authoritative {
		t.Errorf("%s: header %+v", name, m.MsgHdr)
	}
	return short(&m)
}

func short(m *dns.Msg) string {
	out := []string{dns.RcodeToString[m.Rcode]}
	for _, rr := range m.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			out = append(out, rr.A.String())
		case *dns.AAAA:
			out = append(out, rr.AAAA.String())
		case *dns.PTR:
			out = append(out, rr.Ptr)
		default:
			out = append(out, rr.String())
		}
	}
	return strings.Join(out, " ")
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	const noSuch, empty = "NXDOMAIN", "NOERROR"
	const api6 = "2.0.0.0.2.1.6.c.0.0.0.0.0.0.0.0.0.0.0.0.a.6.8.e.1.c.3.5.b.9.d.f.ip6.arpa."
	for _, c := range []struct {
		name  string
		qtype uint16
		want  string
	}{
		{"api.example.com.", dns.TypeA, "NOERROR 198.18.0.2"},
		{"API.example.COM.", dns.TypeAAAA, "NOERROR fd9b:53c1:e86a::c612:2"},
		{"api.example.com.", dns.TypeANY, "NOERROR 198.18.0.2"},
		{"a.b.example.com.", dns.TypeAAAA, "NOERROR fd9b:53c1:e86a::c612:3"},
		{"db.", dns.TypeA, "NOERROR 198.18.0.4"},
		{"api.example.com.", dns.TypeHTTPS, empty},
		{"api.example.com.", dns.TypeSVCB, empty},
		{"api.example.com.", dns.TypeTXT, empty},
		{"api.example.com.", dns.TypeMX, empty},
		{"api.example.com.", dns.TypeCNAME, empty},
		{"api.example.com.", dns.TypeAXFR, empty},
		{"api.example.com.", 65280, empty},
		{"example.com.", dns.TypeA, noSuch},
		{"api.example.com.localdomain.", dns.TypeA, noSuch},
		{"api.example.net.", dns.TypeA, noSuch},
		{"api.example.net.", dns.TypeHTTPS, noSuch},
		{"registry.", dns.TypeA, noSuch},
		{".", dns.TypeNS, noSuch},
		{`a\.b.example.com.`, dns.TypeA, noSuch},
		{`\000.example.com.`, dns.TypeA, noSuch},
		{`a\032b.example.com.`, dns.TypeA, noSuch},
		{`\042.example.com.`, dns.TypeA, noSuch},
		{"*.example.com.", dns.TypeA, noSuch},
		{"1.2.3.4.", dns.TypeA, noSuch},
		{"127.1.", dns.TypeA, noSuch},
		{"localhost.", dns.TypeA, "NOERROR 127.0.0.1"},
		{"app.LocalHost.", dns.TypeAAAA, "NOERROR ::1"},
		{"localhost.", dns.TypeMX, empty},
		{`app\.localhost.`, dns.TypeA, noSuch},
		{"2.0.18.198.in-addr.arpa.", dns.TypePTR, "NOERROR api.example.com."},
		{"2.0.18.198.In-Addr.arpa.", dns.TypeANY, "NOERROR api.example.com."},
		{"2.0.18.198.in-addr.arpa.", dns.TypeA, empty},
		{api6, dns.TypePTR, "NOERROR api.example.com."},
		{strings.Replace(api6, "2", "9", 1), dns.TypePTR, noSuch},
		{strings.Replace(api6, "2.", "x.", 1), dns.TypePTR, noSuch},
		{"02.0.18.198.in-addr.arpa.", dns.TypePTR, noSuch},
		{"0.18.198.in-addr.arpa.", dns.TypePTR, noSuch},
		{"9.0.18.198.in-addr.arpa.", dns.TypePTR, noSuch},
		{"8.8.8.8.in-addr.arpa.", dns.TypePTR, noSuch},
	} {
		if got := s.ask(t, c.name, c.qtype); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, dns.Type(c.qtype), got, c.want)
		}
	}
	if s.Table.Len() != 3 {
		t.Errorf("%d names are bound, want 3", s.Table.Len())
	}
}

func TestWithoutIPv6(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	s.IPv6 = false
	for qtype, want := range map[uint16]string{
		dns.TypeAAAA: "NOERROR", dns.TypeA: "NOERROR 198.18.0.2", dns.TypeANY: "NOERROR 198.18.0.2",
	} {
		if got := s.ask(t, "api.example.com.", qtype); got != want {
			t.Errorf("%s: %s, want %s", dns.Type(qtype), got, want)
		}
	}
}

func TestNothingAllowed(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	s.Allowed, s.Event = nil, nil
	if got := s.ask(t, "api.example.com.", dns.TypeA); got != "NXDOMAIN" {
		t.Errorf("%s, want NXDOMAIN", got)
	}
}

// TestPackets holds questions byte by byte, and the answers. Those of glibc,
// c-ares and Java were taken from the wire. Musl's, Go's and those that bear no
// resolver's name were written by hand.
func TestPackets(t *testing.T) {
	t.Parallel()
	const (
		api    = "03617069 076578616d706c65 03636f6d 00 "
		mixed  = "03417069 074578616d706c65 03434f4d 00 "
		www    = "03777777 076578616d706c65 036e6574 00 "
		opt    = "00 0029 04b0 00000000 0000 "
		ourOpt = "00 0029 04d0 00000000 0000 "
		v4     = "c00c 0001 0001 0000003c 0004 c6120002 "
		v6     = "c00c 001c 0001 0000003c 0010 fd9b53c1e86a000000000000c6120002 "
	)
	for _, c := range []struct{ name, request, want string }{
		{"glibc A", "26ed 0100 0001 0000 0000 0000 " + api + "0001 0001", "26ed 8180 0001 0001 0000 0000 " + api + "0001 0001" + v4},
		{"glibc AAAA", "26ee 0100 0001 0000 0000 0000 " + api + "001c 0001", "26ee 8180 0001 0001 0000 0000 " + api + "001c 0001" + v6},
		{"glibc edns0 trust-ad", "8d80 0120 0001 0000 0000 0001 " + api + "0001 0001" + opt, "8d80 8180 0001 0001 0000 0001 " + api + "0001 0001" + v4 + ourOpt},
		{"glibc denied", "26ef 0100 0001 0000 0000 0000 " + www + "0001 0001", "26ef 8183 0001 0000 0000 0000 " + www + "0001 0001"},
		{"musl", "1234 0120 0001 0000 0000 0000 " + api + "0001 0001", "1234 8180 0001 0001 0000 0000 " + api + "0001 0001" + v4},
		{"musl AAAA", "1235 0120 0001 0000 0000 0000 " + api + "001c 0001", "1235 8180 0001 0001 0000 0000 " + api + "001c 0001" + v6},
		{"go", "0a0b 0120 0001 0000 0000 0001 " + api + "0001 0001 00 0029 04d0 00000000 0000", "0a0b 8180 0001 0001 0000 0001 " + api + "0001 0001" + v4 + ourOpt},
		{"c-ares any", "286a 0100 0001 0000 0000 0000 " + api + "00ff 0001", "286a 8180 0001 0001 0000 0000 " + api + "00ff 0001" + v4},
		{"java, mixed case kept", "10b8 0100 0001 0000 0000 0000 " + mixed + "00ff 0001", "10b8 8180 0001 0001 0000 0000 " + mixed + "00ff 0001" + v4},
		{"https", "0001 0100 0001 0000 0000 0000 " + api + "0041 0001", "0001 8180 0001 0000 0000 0000 " + api + "0041 0001"},
		{"svcb", "0001 0100 0001 0000 0000 0000 " + api + "0040 0001", "0001 8180 0001 0000 0000 0000 " + api + "0040 0001"},
		{"no recursion wanted, checking disabled", "0001 0010 0001 0000 0000 0000 " + api + "0041 0001", "0001 8090 0001 0000 0000 0000 " + api + "0041 0001"},
		{"dnssec ok", "0001 0100 0001 0000 0000 0001 " + api + "0041 0001 00 0029 1000 00008000 0000", "0001 8180 0001 0000 0000 0001 " + api + "0041 0001 00 0029 04d0 00008000 0000"},
		{"edns cookie", "0001 0100 0001 0000 0000 0001 " + api + "0041 0001 00 0029 1000 00000000 000c 000a0008 0102030405060708", "0001 8180 0001 0000 0000 0001 " + api + "0041 0001" + ourOpt},
		{"edns version 1", "0001 0100 0001 0000 0000 0001 " + api + "0001 0001 00 0029 1000 00010000 0000", "0001 8180 0001 0000 0000 0001 " + api + "0001 0001 00 0029 04d0 01000000 0000"},
		{"chaos", "0001 0100 0001 0000 0000 0000 " + api + "0010 0003", "0001 8185 0001 0000 0000 0000 " + api + "0010 0003"},
		{"notify", "0001 2000 0001 0000 0000 0000 " + api + "0006 0001", "0001 a084 0000 0000 0000 0000"},
		{"update", "0001 2800 0001 0000 0000 0000 " + api + "0006 0001", "0001 a884 0000 0000 0000 0000"},
		{"no question", "0001 0100 0000 0000 0000 0000", "0001 8181 0000 0000 0000 0000"},
		{"two questions", "0001 0100 0002 0000 0000 0000 " + api + "0001 0001" + api + "001c 0001", "0001 8181 0000 0000 0000 0000"},
		{"with an answer", "0001 0100 0001 0001 0000 0000 " + api + "0001 0001" + v4, "0001 8181 0000 0000 0000 0000"},
		{"two opt", "0001 0100 0001 0000 0000 0002 " + api + "0001 0001" + opt + opt, "0001 8181 0000 0000 0000 0000"},
		{"opt with a name", "0001 0100 0001 0000 0000 0001 " + api + "0001 0001 c00c 0029 04b0 00000000 0000", "0001 8181 0000 0000 0000 0000"},
		{"cut short", "0001 0100 0001 0000 0000 0000 " + api + "0001", "0001 8181 0000 0000 0000 0000"},
		{"question missing", "0001 0100 0001 0000 0000 0000", "0001 8181 0000 0000 0000 0000"},
		{"opt missing", "0001 0100 0001 0000 0000 0001 " + api + "0001 0001", "0001 8181 0000 0000 0000 0000"},
		{"pointer to itself", "0001 0100 0001 0000 0000 0000 c00c 0001 0001", "0001 8181 0000 0000 0000 0000"},
		{"label of 64", "0001 0100 0001 0000 0000 0000 40" + strings.Repeat("61", 64) + "00 0001 0001", "0001 8181 0000 0000 0000 0000"},
		{"a response", "0001 8180 0001 0000 0000 0000 " + api + "0001 0001", ""},
		{"too short", "0001 0100 0001", ""},
		{"nothing", "", ""},
	} {
		s := newTestServer()
		if got, want := s.raw(t, c.request), strings.ReplaceAll(c.want, " ", ""); got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	allowed := true
	s.Allowed = func(n string) bool { return allowed && n == "api.example.com" }
	s.Who = func(Client) (int, string) { return 7, "/usr/bin/tool" }
	expect := func(what string, want ...Query) {
		t.Helper()
		for i := range want {
			want[i].Client, want[i].PID, want[i].Binary = testClient, 7, "/usr/bin/tool"
			want[i].Count = max(want[i].Count, 1)
		}
		if diff := cmp.Diff(want, s.events, cmpopts.IgnoreFields(Query{}, "From", "To"), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		s.events = nil
	}
	const api = "api.example.com"
	answered := Query{Name: api, Type: "A", Answers: []netip.Addr{netip.MustParseAddr("198.18.0.2")}, Reason: Answered}
	s.ask(t, "Api.Example.com.", dns.TypeA)
	expect("first", answered)
	s.ask(t, "api.example.com.", dns.TypeAAAA)
	expect("another type", Query{Name: api, Type: "AAAA", Answers: []netip.Addr{netip.MustParseAddr("fd9b:53c1:e86a::c612:2")}, Reason: Answered})
	s.ask(t, "api.example.com.", dns.TypeA)
	s.ask(t, "api.example.com.", dns.TypeHTTPS)
	s.ask(t, "localhost.", dns.TypeA)
	s.ask(t, "2.0.18.198.in-addr.arpa.", dns.TypePTR)
	expect("no news")
	s.clock = s.clock.Add(repeatInterval)
	s.ask(t, "api.example.com.", dns.TypeA)
	twice := answered
	twice.Count = 2
	expect("a minute later", twice)

	for range 3 {
		s.ask(t, "Other.example.com.", dns.TypeHTTPS)
		s.ask(t, "other.example.com.", dns.TypeA)
	}
	s.ask(t, `b\000\.D.example.com.`, dns.TypeA)
	expect("denied",
		Query{Name: "other.example.com", Type: "HTTPS", Rcode: dns.RcodeNameError, Reason: NotAllowed},
		Query{Name: "other.example.com", Type: "A", Rcode: dns.RcodeNameError, Reason: NotAllowed},
		Query{Name: `b\000\.d.example.com`, Type: "A", Rcode: dns.RcodeNameError, Reason: Malformed})
	allowed = false
	s.ask(t, "api.example.com.", dns.TypeA)
	allowed = true
	s.ask(t, "api.example.com.", dns.TypeA)
	expect("other policies", Query{Name: api, Type: "A", Rcode: dns.RcodeNameError, Reason: NotAllowed}, answered)
	s.Finish()
	expect("the rest",
		Query{Name: "other.example.com", Type: "A", Rcode: dns.RcodeNameError, Reason: NotAllowed, Count: 2},
		Query{Name: "other.example.com", Type: "HTTPS", Rcode: dns.RcodeNameError, Reason: NotAllowed, Count: 2})
	s.Finish()
	expect("nothing more")
	if got, want := s.stats(), (stats{Questions: 16, Denied: 8}); got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
}

func TestTableFullAnswer(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	s.Table.Max = 1
	for _, c := range []struct{ name, want string }{
		{"a.example.com.", "NOERROR 198.18.0.2"},
		{"b.example.com.", "REFUSED"},
		{"b.example.com.", "REFUSED"},
		{"a.example.com.", "NOERROR 198.18.0.2"},
	} {
		if got := s.ask(t, c.name, dns.TypeA); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if len(s.events) != 2 || s.events[1].Reason != TableFull || s.events[1].Rcode != dns.RcodeRefused {
		t.Errorf("events: %+v", s.events)
	}
}

// TestFitsAnyDatagram: no answer is longer than the 512 bytes that every client
// takes, whatever the name.
func TestFitsAnyDatagram(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	s.start()
	long := strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 49) + ".example.com"
	v4, _, err := s.Table.Assign(long)
	if err != nil || len(long) != 253 {
		t.Fatal(err, len(long))
	}
	reverse, err := dns.ReverseAddr(v4.String())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{long + ".", reverse, "other." + long[:200] + ".", "a.example.com."}).Draw(t, "name")
		q := new(dns.Msg)
		q.SetQuestion(name, rapid.Uint16().Draw(t, "type"))
		if rapid.Bool().Draw(t, "known type") {
			q.Question[0].Qtype = rapid.SampledFrom([]uint16{dns.TypeA, dns.TypeAAAA, dns.TypeANY, dns.TypePTR}).Draw(t, "of")
		}
		if rapid.Bool().Draw(t, "edns") {
			q.SetEdns0(4096, true)
		}
		b, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if out := s.respond(b, testClient); len(out) > 512 || len(out) < headerLen || out[2]&2 != 0 {
			t.Fatalf("%d bytes: %x", len(out), out)
		}
	})
}

func TestDeniedLimits(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	s.Limits = Limits{Denied: 20, DeniedRate: 2} // 8 at once
	asked := 0
	deny := func(n int) (codes map[string]int) {
		codes = map[string]int{}
		for range n {
			codes[s.ask(t, fmt.Sprintf("h%d.example.net.", asked), dns.TypeA)]++
			asked++
		}
		return codes
	}
	expect := func(what string, got, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("a burst", deny(30), map[string]int{"NXDOMAIN": 8, "REFUSED": 22})
	if n := len(s.events); n != 9 || s.events[8].Reason != TooManyDenied || s.events[8].Count != 1 {
		t.Errorf("%d events, the last %+v; want 8 names and one that says there are more", n, s.events[n-1])
	}
	if got := s.ask(t, "h0.example.net.", dns.TypeA); got != "NXDOMAIN" {
		t.Errorf("a name that was told already: %s", got)
	}
	if got := s.ask(t, "api.example.com.", dns.TypeA); got != "NOERROR 198.18.0.2" {
		t.Errorf("an allowed name meanwhile: %s", got)
	}
	s.clock = s.clock.Add(2 * time.Second)
	expect("two seconds later", deny(10), map[string]int{"NXDOMAIN": 4, "REFUSED": 6})
	s.clock = s.clock.Add(time.Hour)
	s.events = nil
	expect("an hour later", deny(10), map[string]int{"NXDOMAIN": 8, "REFUSED": 2})
	if n := len(s.events); n != 9 || s.events[8].Count != 28 {
		t.Errorf("%d events, the last %+v; want 28 suppressed", n, s.events[n-1])
	}
	s.clock = s.clock.Add(time.Hour)
	expect("the run's share is used up", deny(100), map[string]int{"REFUSED": 100})
	if got := s.stats(); got.Suppressed != 130 {
		t.Errorf("Stats = %+v, want 130 suppressed", got)
	}
	if n := len(s.reports.known); n != 22 {
		t.Errorf("%d questions are remembered, want 20, an allowed one and one for the rest", n)
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	s := newTestServer()
	s.Limits.Rate = 100
	for range 100 {
		s.ask(t, "api.example.com.", dns.TypeA)
	}
	if s.waited != 0 {
		t.Errorf("waited %s within the burst", s.waited)
	}
	for range 50 {
		if got := s.ask(t, "api.example.com.", dns.TypeA); got != "NOERROR 198.18.0.2" {
			t.Errorf("%s", got)
		}
	}
	if s.waited < 499*time.Millisecond || s.waited > 501*time.Millisecond {
		t.Errorf("50 too many at 100 a second waited %s, want half a second", s.waited)
	}
}

func BenchmarkRespond(b *testing.B) {
	s := newTestServer()
	s.start()
	q, err := hex.DecodeString("26ed0100000100000000000003617069076578616d706c6503636f6d0000010001")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.respond(q, testClient)
	}
}
