package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// zone is a resolver that knows a few names.
type zone map[string][]string

func (z zone) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	addrs, ok := z[host]
	if !ok || network != "ip" {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var out []netip.Addr
	for _, a := range addrs {
		addr := netip.MustParseAddr(a)
		if addr.Is4() {
			// As net.Resolver does.
			addr = netip.AddrFrom16(addr.As16())
		}
		out = append(out, addr)
	}
	return out, nil
}

func allElsewhere(netip.Addr) (bool, error) { return true, nil }

// upstream is a server on loopback that counts who comes.
type upstream struct {
	addr netip.AddrPort
	seen atomic.Int32
}

func newUpstream(t *testing.T, at string) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{addr: netip.MustParseAddrPort(l.Addr().String())}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			u.seen.Add(1)
			_, _ = io.WriteString(c, l.Addr().String())
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return u
}

func read(t *testing.T, c net.Conn) string {
	t.Helper()
	defer c.Close()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestVerdicts decides without connecting.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	z := zone{
		"public.test.":    {"93.184.216.34", "2606:2800:220:1::1"},
		"private.test.":   {"10.0.5.7"},
		"private6.test.":  {"fd12::7"},
		"loop.test.":      {"127.0.0.1"},
		"loop6.test.":     {"::1"},
		"meta.test.":      {"169.254.169.254"},
		"meta6.test.":     {"fd00:ec2::254"},
		"zero.test.":      {"0.0.0.0"},
		"mixed.test.":     {"93.184.216.34", "127.0.0.1"},
		"mixed2.test.":    {"93.184.216.34", "10.0.5.7"},
		"mapped.test.":    {"::ffff:127.0.0.1"},
		"nat64.test.":     {"64:ff9b::808:808"},
		"nat64bad.test.":  {"64:ff9b::7f00:1"},
		"sixtofour.test.": {"2002:7f00:1::"},
		"teredo.test.":    {"2001:0:7f00:1::"},
		"shared.test.":    {"100.64.1.1"},
		"bench.test.":     {"198.18.0.1"},
		"link.test.":      {"fe80::1%eth0"},
		"twice.test.":     {"93.184.216.34", "93.184.216.34"},
		"empty.test.":     {},
		"here.test.":      {"93.184.216.99"},
		"search.test.":    {"93.184.216.34"},
	}
	d := &Dialer{Resolver: z, route: func(a netip.Addr) (bool, error) {
		return a != netip.MustParseAddr("93.184.216.99"), nil
	}}
	const ten, wide = "10.0.5.0/24", "0.0.0.0/0 ::/0"
	for _, c := range []struct {
		host, allowed string
		want          string // the targets, or the error's text
	}{
		{"public.test", "", "93.184.216.34:443 [2606:2800:220:1::1]:443"},
		{"Public.Test.", "", "93.184.216.34:443 [2606:2800:220:1::1]:443"},
		{"twice.test", "", "93.184.216.34:443"},
		{"public.test", ten, "public.test resolves to 93.184.216.34, which is not in allowed_ips"},
		{"public.test", "93.184.216.0/24", "public.test resolves to 2606:2800:220:1::1, which is not in allowed_ips"},
		{"private.test", "", "private.test resolves to 10.0.5.7, which is private; it takes allowed_ips to go there"},
		{"private.test", ten, "10.0.5.7:443"},
		{"private.test", "10.0.6.0/24 10.0.5.7/32", "10.0.5.7:443"},
		{"private.test", "10.0.6.0/24", "private.test resolves to 10.0.5.7, which is not in allowed_ips"},
		{"private6.test", "", "private6.test resolves to fd12::7, which is unique-local; it takes allowed_ips to go there"},
		{"private6.test", "fd12::/16", "[fd12::7]:443"},
		{"shared.test", "", "shared.test resolves to 100.64.1.1, which is shared; it takes allowed_ips to go there"},
		{"bench.test", "", "bench.test resolves to 198.18.0.1, which is benchmark; it takes allowed_ips to go there"},
		{"bench.test", "198.18.0.0/15", "198.18.0.1:443"},
		{"mixed.test", "", "mixed.test resolves to 127.0.0.1, which is loopback, where no connection of a cell ever goes"},
		{"mixed2.test", "", "mixed2.test resolves to 10.0.5.7, which is private; it takes allowed_ips to go there"},
		{"mixed2.test", ten, "mixed2.test resolves to 93.184.216.34, which is not in allowed_ips"},
		{"mixed2.test", ten + " 93.184.216.34/32", "93.184.216.34:443 10.0.5.7:443"},
		{"loop.test", wide, "loop.test resolves to 127.0.0.1, which is loopback, where no connection of a cell ever goes"},
		{"loop6.test", wide, "loop6.test resolves to ::1, which is loopback, where no connection of a cell ever goes"},
		{"meta.test", wide, "meta.test resolves to 169.254.169.254, which is a metadata service, where no connection of a cell ever goes"},
		{"meta6.test", wide, "meta6.test resolves to fd00:ec2::254, which is a metadata service, where no connection of a cell ever goes"},
		{"zero.test", wide, "zero.test resolves to 0.0.0.0, which is unspecified, where no connection of a cell ever goes"},
		{"mapped.test", wide, "mapped.test resolves to 127.0.0.1, which is loopback, where no connection of a cell ever goes"},
		{"nat64.test", "", "[64:ff9b::808:808]:443"},
		{"nat64bad.test", wide, "nat64bad.test resolves to 64:ff9b::7f00:1, which is IPv4 in IPv6, where no connection of a cell ever goes"},
		{"sixtofour.test", wide, "sixtofour.test resolves to 2002:7f00:1::, which is IPv4 in IPv6, where no connection of a cell ever goes"},
		{"teredo.test", wide, "teredo.test resolves to 2001:0:7f00:1::, which is IPv4 in IPv6, where no connection of a cell ever goes"},
		{"link.test", wide, "link.test resolves to fe80::1%eth0, which is link-local, where no connection of a cell ever goes"},
		{"here.test", "", "here.test resolves to 93.184.216.99, which is this host, where no connection of a cell ever goes"},
		{"here.test", wide, "here.test resolves to 93.184.216.99, which is this host, where no connection of a cell ever goes"},
		{"93.184.216.99", "", "93.184.216.99 is this host, where no connection of a cell ever goes"},
		{"10.0.5.7", "", "10.0.5.7:443"},
		{"10.0.5.7", ten, "10.0.5.7:443"},
		{"10.0.5.7", "10.0.6.0/24", "10.0.5.7 is not in allowed_ips"},
		{"[fd12::1]", "", "[fd12::1]:443"},
		{"192.0.2.1", "", "192.0.2.1:443"},
		{"127.0.0.1", "", "127.0.0.1 is loopback, where no connection of a cell ever goes"},
		{"169.254.169.254", wide, "169.254.169.254 is a metadata service, where no connection of a cell ever goes"},
		{"empty.test", "", "name not resolved: empty.test has no address"},
		{"none.test", "", "name not resolved: lookup none.test.: no such host"},
		{"search", "", "name not resolved: lookup search.: no such host"},
	} {
		h, err := parseHost(c.host)
		if err != nil {
			t.Fatal(err)
		}
		var dec Decision
		ck := check{d: d, host: h, allowed: parsePrefixes(strings.Fields(c.allowed))}
		targets, err := ck.targets(t.Context(), 443, &dec)
		got := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(targets), "["), "]")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s with %q:\n got %s\nwant %s", c.host, c.allowed, got, c.want)
		}
		var r *Refusal
		if errors.As(err, &r) != errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v is a refusal or is not", c.host, err)
		}
	}
}

// TestRefusedSeesNothing has a real server behind every forbidden spelling of
// this host, and proves that nobody came.
func TestRefusedSeesNothing(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "127.0.0.1:0")
	everywhere := newUpstream(t, ":0")
	z := zone{"evil.test.": {"127.0.0.1"}, "two.test.": {"8.8.8.8", "127.0.0.1"}, "mapped.test.": {"::ffff:127.0.0.1"}, "zero.test.": {"0.0.0.0"}}
	hosts := []string{"evil.test", "two.test", "mapped.test", "zero.test", "127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", "::", "localhost", "a.localhost", "127.1", "0x7f.1", "::ffff:127.0.0.1", "[::1]"}
	// The addresses of this host, whatever they are.
	nets, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nets {
		host := n.(*net.IPNet).IP.String()
		hosts = append(hosts, host)
		name := fmt.Sprintf("own%d.test", len(z))
		z[name+"."] = []string{host}
		hosts = append(hosts, name)
	}
	d := &Dialer{Resolver: z, Timeout: 10 * time.Second}
	for _, host := range hosts {
		for _, port := range []uint16{u.addr.Port(), everywhere.addr.Port()} {
			conn, dec, err := d.Dial(t.Context(), host, port, parsePrefixes([]string{"0.0.0.0/0", "::/0"}))
			if conn != nil || !errors.Is(err, ErrRefused) && !errors.Is(err, ErrHost) || dec.Remote.IsValid() {
				t.Errorf("%s: %v, %v, %v; want a refusal", host, conn, dec, err)
			}
		}
	}
	if n := u.seen.Load() + everywhere.seen.Load(); n != 0 {
		t.Errorf("the servers saw %d connections", n)
	}
}

// TestRoutes asks the kernel about this host and others.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1":       false,
		"127.200.3.4":     false, // of a range that is routed here
		"127.255.255.255": false, // a network's broadcast
		"8.8.8.8":         true,
		"2606:4700::1":    true,
	} {
		got, err := isOtherHost(netip.MustParseAddr(addr))
		if err != nil || got != want {
			t.Errorf("elsewhere(%s) = %v, %v; want %v", addr, got, err, want)
		}
	}
	nets, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nets {
		a, _ := netip.AddrFromSlice(n.(*net.IPNet).IP)
		if a = a.Unmap(); a.IsLinkLocalUnicast() {
			continue // its route depends on the link
		}
		if got, err := isOtherHost(a); err != nil || got {
			t.Errorf("%s is this host's, elsewhere = %v, %v", a, got, err)
		}
	}
	for _, b := range [][]byte{nil, make([]byte, 20), make([]byte, 64)} {
		if ok, err := routeAnswer(b); ok || err == nil {
			t.Errorf("routeAnswer(%x) = %v, %v", b, ok, err)
		}
	}
}

func TestRouteUnknown(t *testing.T) {
	t.Parallel()
	d := &Dialer{route: func(netip.Addr) (bool, error) { return false, errors.New("out of descriptors") }}
	if _, _, err := d.Dial(t.Context(), "8.8.8.8", 443, nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "out of descriptors") {
		t.Errorf("%v, want a refusal that says why", err)
	}
}

// loopbackDialer takes 127.0.0.x for the public, so that there is something to
// connect to.
func loopbackDialer(z zone) *Dialer {
	return &Dialer{
		Resolver: z, Timeout: 20 * time.Second, route: allElsewhere,
		classify: func(a netip.Addr) Class {
			if a.IsLoopback() && a != netip.MustParseAddr("127.0.0.99") {
				return Public
			}
			return classify(a)
		},
	}
}

func TestDial(t *testing.T) {
	// Not parallel: it sets the environment. Proxies are not looked at.
	for _, v := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(v, "http://127.0.0.1:1")
	}
	u := newUpstream(t, "127.0.0.1:0")
	d := loopbackDialer(zone{"up.test.": {"127.0.0.1"}, "bad.test.": {"127.0.0.1", "127.0.0.99"}})
	conn, dec, err := d.Dial(t.Context(), "Up.Test.", u.addr.Port(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, conn); got != u.addr.String() {
		t.Errorf("connected to %s", got)
	}
	want := Decision{Host: "up.test", Port: u.addr.Port(), Resolved: []Address{{Addr: u.addr.Addr(), Class: Public}}, Remote: u.addr}
	if diff := cmp.Diff(want, dec, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	_, dec, err = d.Dial(t.Context(), "bad.test", u.addr.Port(), nil)
	if !errors.Is(err, ErrRefused) || len(dec.Resolved) != 2 || dec.Resolved[1].Class != Loopback || u.seen.Load() != 1 {
		t.Errorf("one bad address of two: %+v, %v, %d connections", dec, err, u.seen.Load())
	}
	if _, _, err := d.Dial(t.Context(), "up.test", 0, nil); !errors.Is(err, ErrHost) {
		t.Errorf("port 0: %v", err)
	}
}

func TestPins(t *testing.T) {
	t.Parallel()
	one, two := newUpstream(t, "127.0.0.1:0"), newUpstream(t, "127.0.0.1:0")
	// No resolver is asked, and nothing is taken for anything else.
	d := &Dialer{Resolver: zone{}, Pins: Pins{
		{"api.test", 443}:                {one.addr},
		{"api.test", 0}:                  {netip.AddrPortFrom(two.addr.Addr(), 0)},
		{"192.0.2.9", 80}:                {two.addr},
		{"meta.test", 0}:                 {netip.MustParseAddrPort("169.254.169.254:80")},
		{"all.test", 0}:                  {netip.MustParseAddrPort("0.0.0.0:0")},
		{"pinned.test", two.addr.Port()}: {netip.AddrPortFrom(two.addr.Addr(), 0)},
		// The first of several does not answer.
		{"several.test", 443}: {netip.MustParseAddrPort("127.0.0.1:1"), two.addr},
		{"mixed.test", 443}:   {two.addr, netip.MustParseAddrPort("169.254.169.254:80")},
	}}
	for _, c := range []struct {
		host string
		port uint16
		want *upstream
	}{
		{"API.test", 443, one},
		{"api.test.", two.addr.Port(), two},
		{"192.0.2.9", 80, two},
		{"pinned.test", two.addr.Port(), two},
		{"several.test", 443, two},
	} {
		conn, dec, err := d.Dial(t.Context(), c.host, c.port, parsePrefixes([]string{"10.0.0.0/8"}))
		if err != nil {
			t.Errorf("%s:%d: %v", c.host, c.port, err)
			continue
		}
		if got := read(t, conn); got != c.want.addr.String() || !dec.Pinned || dec.Remote != c.want.addr || dec.Resolved[0].Class != Loopback {
			t.Errorf("%s:%d: connected to %s, %+v", c.host, c.port, got, dec)
		}
	}
	for _, host := range []string{"meta.test", "all.test"} {
		if _, _, err := d.Dial(t.Context(), host, one.addr.Port(), nil); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want a refusal", host, err)
		}
	}
	if _, _, err := d.Dial(t.Context(), "pinned.test", 1, nil); !errors.Is(err, errResolve) {
		t.Errorf("another port than the pinned one: %v", err)
	}
	if _, _, err := d.Dial(t.Context(), "sub.api.test", 443, nil); !errors.Is(err, errResolve) {
		t.Errorf("a name below the pinned one: %v", err)
	}
}

// TestControl: the last look before the connection.
func TestControl(t *testing.T) {
	t.Parallel()
	here := false
	d := &Dialer{route: func(netip.Addr) (bool, error) { return !here, nil }}
	c := check{d: d, host: host{Name: "up.test"}}
	want := netip.MustParseAddrPort("8.8.8.8:443")
	for _, at := range []struct {
		network, address string
		ok               bool
	}{
		{"tcp4", "8.8.8.8:443", true},
		{"udp4", "8.8.8.8:443", false},
		{"tcp4", "8.8.8.8:80", false},
		{"tcp4", "8.8.4.4:443", false},
		{"tcp6", "[::ffff:8.8.8.8]:443", false},
		{"tcp4", "127.0.0.1:443", false},
		{"tcp4", "up.test:443", false},
	} {
		if err := c.control(want)(at.network, at.address, nil); (err == nil) != at.ok || (err != nil && !errors.Is(err, ErrRefused)) {
			t.Errorf("%s %s: %v", at.network, at.address, err)
		}
	}
	// What has become this host since it was resolved.
	here = true
	if err := c.control(want)("tcp4", "8.8.8.8:443", nil); !errors.Is(err, ErrRefused) {
		t.Errorf("%v, want a refusal", err)
	}
	loop := netip.MustParseAddrPort("127.0.0.1:443")
	if err := c.control(loop)("tcp4", "127.0.0.1:443", nil); !errors.Is(err, ErrRefused) {
		t.Errorf("%v, want a refusal", err)
	}
}

// TestChangedRoute: an address that turns into this host's between the check
// and the connection is not connected to.
func TestChangedRoute(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "127.0.0.1:0")
	d := loopbackDialer(zone{"up.test.": {"127.0.0.1"}})
	var mu sync.Mutex
	asked := 0
	d.route = func(netip.Addr) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return asked == 1, nil
	}
	var r *Refusal
	if _, _, err := d.Dial(t.Context(), "up.test", u.addr.Port(), nil); !errors.Is(err, ErrRefused) || !errors.As(err, &r) {
		t.Errorf("%v, want a refusal", err)
	}
	if asked != 2 || u.seen.Load() != 0 {
		t.Errorf("asked %d times, %d connections", asked, u.seen.Load())
	}
}

// TestManyAddresses bounds what a name can make this side do.
func TestManyAddresses(t *testing.T) {
	t.Parallel()
	var addrs []string
	for i := range maxAddrs + 1 {
		addrs = append(addrs, fmt.Sprintf("93.184.216.%d", i+1))
	}
	d := &Dialer{Resolver: zone{"many.test.": addrs}, route: allElsewhere}
	if _, _, err := d.Dial(t.Context(), "many.test", 443, nil); !errors.Is(err, errResolve) {
		t.Errorf("%v, want ErrResolve", err)
	}
}
