package capture_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture/capturetest"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture/origin"
)

// serve answers everything that a cell's sockets get by what it is: connections
// by the kind of listener, where they were to go and where from; datagrams by
// "answer".
func serve(t *testing.T, o capturetest.Options) *capturetest.Cell {
	t.Helper()
	c := capturetest.Start(t, o)
	s, err := origin.Open(c.Descriptors)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if families := map[bool]int{false: 2, true: 1}[o.NoIPv6]; len(s.Proxy) != families || len(s.DNS) != families || len(s.DNSPackets) != families {
		t.Fatalf("%d, %d, %d sockets", len(s.Proxy), len(s.DNS), len(s.DNSPackets))
	}
	for _, l := range s.Proxy {
		go tell(l, "proxy")
	}
	for _, l := range s.DNS {
		go tell(l, "dns")
	}
	for _, p := range s.DNSPackets {
		go func() {
			b := make([]byte, 64)
			for {
				_, from, err := p.ReadFrom(b)
				if err != nil {
					return
				}
				_, _ = p.WriteTo([]byte("answer"), from)
			}
		}()
	}
	return c
}

func tell(l net.Listener, kind string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		d, err := origin.DestinationOf(c)
		to := kind
		if d.Explicit {
			to += " explicitly"
		}
		if err != nil {
			to = err.Error()
		}
		fmt.Fprintf(c, "%s %s from %s\n", to, d.Addr, c.RemoteAddr())
		defer c.Close() // at the end of the test: probes hold many at once
	}
}

// lines runs a probe for many arguments and returns what it prints for each.
func lines(t *testing.T, c *capturetest.Cell, probe string, args []string) []string {
	t.Helper()
	got := strings.Split(c.Probe(t, probe, args...), "\n")
	if len(got) != len(args) {
		t.Fatalf("%d answers for %d attempts: %q", len(got), len(args), got)
	}
	return got
}

// check runs a probe for each row, whose last field is how the answer begins.
func check(t *testing.T, c *capturetest.Cell, probe string, rows [][2]string) {
	t.Helper()
	var args []string
	for _, r := range rows {
		args = append(args, r[0])
	}
	for i, got := range lines(t, c, probe, args) {
		if !strings.HasPrefix(got, rows[i][1]) {
			t.Errorf("%s %s: %q, not %q", probe, rows[i][0], got, rows[i][1])
		}
	}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	c := serve(t, capturetest.Options{})
	check(t, c, "connect", [][2]string{
		{"1.2.3.4:443", "proxy 1.2.3.4:443 from 192.0.2.2:"},                                // public
		{"10.0.0.1:22", "proxy 10.0.0.1:22 from 192.0.2.2:"},                                // private
		{"169.254.169.254:80", "proxy 169.254.169.254:80 from 192.0.2.2:"},                  // metadata
		{"198.18.0.7:8443", "proxy 198.18.0.7:8443 from 192.0.2.2:"},                        // synthetic
		{"240.0.0.1:1", "proxy 240.0.0.1:1 from 192.0.2.2:"},                                // reserved
		{"1.2.3.4:64753", "proxy 1.2.3.4:64753 from 192.0.2.2:"},                            // our port elsewhere
		{"[2606:4700::1111]:443", "proxy [2606:4700::1111]:443 from [2001:db8::2]:"},        // IPv6
		{"[fd00:ec2::254]:80", "proxy [fd00:ec2::254]:80 from [2001:db8::2]:"},              // unique local
		{"[fe80::1]:80", "proxy [fe80::1]:80 from [2001:db8::2]:"},                          // link-local
		{"[::ffff:1.2.3.4]:443", "proxy 1.2.3.4:443 from 192.0.2.2:"},                       // mapped
		{"[64:ff9b::102:304]:443", "proxy [64:ff9b::102:304]:443 from [2001:db8::2]:"},      // NAT64
		{"8.8.8.8:53", "dns 8.8.8.8:53 from 192.0.2.2:"},                                    // DNS
		{capture.Resolver4 + ":53", "dns 192.0.2.53:53 from 192.0.2.2:"},                    // DNS resolver
		{"[2001:4860:4860::8888]:53", "dns [2001:4860:4860::8888]:53 from [2001:db8::2]:"},  // DNS IPv6
		{"192.0.2.53:64753", "proxy 192.0.2.53:64753 from 192.0.2.2:"},                      // other port of the resolver
		{"192.0.2.1:80", "proxy 192.0.2.1:80 from 192.0.2.2:"},                              // our listener, at another port
		{"192.0.2.1:64753", "proxy explicitly 192.0.2.1:64753 from 192.0.2.2:"},             // our listener
		{"[2001:db8::1]:64753", "proxy explicitly [2001:db8::1]:64753 from [2001:db8::2]:"}, // our listener IPv6
		{"127.0.0.1:64753", "ECONNREFUSED"},                                                 // loopback
		{"127.255.255.254:443", "ECONNREFUSED"},                                             // loopback's other end
		{"[::1]:64753", "ECONNREFUSED"},                                                     // loopback IPv6
		{"[::ffff:127.0.0.1]:443", "ECONNREFUSED"},                                          // mapped loopback
		{"0.0.0.0:443", "ECONNREFUSED"},                                                     // unspecified
		{"[::]:443", "ECONNREFUSED"},                                                        // unspecified IPv6
		{"192.0.2.2:443", "ECONNREFUSED"},                                                   // own
		{"[2001:db8::2]:443", "ECONNREFUSED"},                                               // own IPv6
		{"255.255.255.255:80", "ENETUNREACH"},                                               // broadcast
		{"224.0.0.1:80", "ENETUNREACH"},                                                     // multicast
		{"[ff02::1]:80", "ENETUNREACH"},                                                     // multicast IPv6
		{"[::1.2.3.4]:80", "proxy [::102:304]:80 from [2001:db8::2]:"},                      // IPv4-compatible
	})
}

// TestSources connects from addresses that a program chooses itself.
func TestSources(t *testing.T) {
	t.Parallel()
	c := serve(t, capturetest.Options{})
	check(t, c, "connect", [][2]string{
		{"1.2.3.4:443 192.0.2.2:4000", "proxy 1.2.3.4:443 from 192.0.2.2:4000"},
		{"1.2.3.4:443 0.0.0.0:4001", "proxy 1.2.3.4:443 from 192.0.2.2:4001"},
		{"[2606::1]:443 [2001:db8::2]:4002", "proxy [2606::1]:443 from [2001:db8::2]:4002"},
		{"1.2.3.4:443 127.0.0.1:4003", "ECONNREFUSED"},
		{"1.2.3.4:443 8.8.8.8:4004", "ECONNREFUSED"},
		{"1.2.3.4:8443 1.2.3.4:8443", "ECONNREFUSED"},
		{"[2606::1]:443 [::1]:4005", "ECONNREFUSED"},
		{"[2606::1]:443 [2606::2]:4006", "EADDRNOTAVAIL"}, // the kernel's own rule
		{"192.0.2.1:64753 8.8.8.8:4007", "ECONNREFUSED"},
	})
}

func TestInside(t *testing.T) {
	t.Parallel()
	c := serve(t, capturetest.Options{})
	check(t, c, "inside", [][2]string{
		{"127.0.0.1:0 127.0.0.1:0", "inside"},
		{"127.8.9.1:8080 127.8.9.1:8080", "inside"},
		{"0.0.0.0:8081 127.0.0.1:8081", "inside"},
		{"0.0.0.0:8082 192.0.2.2:8082", "inside"},
		{"0.0.0.0:8083 0.0.0.0:8083", "inside"},
		{"[::]:8084 [::1]:8084", "inside"},
		{"[::]:8085 127.0.0.1:8085", "inside"},
		{"[::]:0 [2001:db8::2]:0", "inside"},
		{"192.0.2.2:8086 192.0.2.2:8086", "inside"},
		{"127.0.0.1:64753 127.0.0.1:64753", "inside"},
		{"192.0.2.2:64753 192.0.2.2:64753", "inside"},
		// The one port that the wildcard cannot have, and our own addresses.
		{"0.0.0.0:64753 127.0.0.1:64753", "listen tcp 0.0.0.0:64753: bind: address already in use"},
		{"[::]:64753 127.0.0.1:64753", "listen tcp 0.0.0.0:64753: bind: address already in use"},
		{"192.0.2.1:64753 127.0.0.1:64753", "listen tcp 192.0.2.1:64753: bind: address already in use"},
		{"192.0.2.53:64753 127.0.0.1:64753", "listen tcp 192.0.2.53:64753: bind: address already in use"},
	})
	// A listener on a foreign address gets nothing, and takes nothing away.
	check(t, c, "connect", [][2]string{{"1.2.3.4:8443 192.0.2.2:0 1.2.3.4:8443", "proxy 1.2.3.4:8443 "}})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	c := serve(t, capturetest.Options{})
	check(t, c, "attempt", [][2]string{
		{"udp 1.2.3.4:443", "EPERM"},
		{"udp [2606::1]:443", "EPERM"},
		{"udp [::ffff:1.2.3.4]:443", "EPERM"},
		{"udp 192.0.2.1:64753", "EPERM"},
		{"udp 255.255.255.255:67", "EPERM"},
		{"udp 224.0.0.251:5353", "EPERM"},
		{"udp [ff02::fb]:5353", "EPERM"},
		{"udp 127.0.0.1:9", "sent"},
		{"udp 192.0.2.2:9", "sent"},
		{"udp 1.2.3.4:443 connected", "EPERM ECONNREFUSED"},
		{"udp [2606::1]:443 connected", "EPERM ECONNREFUSED"},
		{"ping 1.2.3.4:0", "EACCES"}, // the kernel's default gives nobody such sockets
		{"ping6 [2606::1]:0", "EACCES"},
		{"raw 1.2.3.4:0", "EPERM"},
	})
	// UDP-Lite stands for the protocols that only some kernels have.
	if got := lines(t, c, "attempt", []string{"udplite 1.2.3.4:443"}); got[0] != "EPERM" && got[0] != "EPROTONOSUPPORT" {
		t.Errorf("UDP-Lite: %s", got[0])
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	c := serve(t, capturetest.Options{})
	for _, to := range [][]string{
		{"192.0.2.53:53"},
		{"8.8.8.8:53"},
		{"8.8.8.8:53", "1.1.1.1:53", "192.0.2.53:53"},
		{"[2001:4860:4860::8888]:53", "[2001:db8::53]:53"},
		{"[::ffff:8.8.8.8]:53", "[::ffff:1.1.1.1]:53"},
	} {
		got := strings.Split(c.Probe(t, "query", to...), "\n")
		var want []string
		for _, a := range to {
			want = append(want, "answer from "+a)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%v: %q, not %q", to, got, want)
		}
	}
	// A resolver of the cell's own is not ours.
	check(t, c, "attempt", [][2]string{{"udp 127.0.0.53:53 connected", "sent"}})
}

func TestNobodyChangesIt(t *testing.T) {
	t.Parallel()
	c := serve(t, capturetest.Options{})
	if got := c.Probe(t, "change"); got != "EPERM EPERM EPERM EPERM EPERM" {
		t.Error(got)
	}
	if _, err := c.TryProbe("setup"); err == nil || !strings.Contains(err.Error(), "interface: loopback: operation not permitted") {
		t.Errorf("set up again: %v", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	c := serve(t, capturetest.Options{})
	if got := c.Probe(t, "many"); got != "1000 of 1000" {
		t.Error(got)
	}
}

func TestWithoutIPv6(t *testing.T) {
	t.Parallel()
	c := serve(t, capturetest.Options{NoIPv6: true})
	check(t, c, "connect", [][2]string{
		{"1.2.3.4:443", "proxy 1.2.3.4:443 from 192.0.2.2:"},
		{"8.8.8.8:53", "dns 8.8.8.8:53 from 192.0.2.2:"},
		{"[::ffff:1.2.3.4]:443", "proxy 1.2.3.4:443"},
		{"[2606::1]:443", "EADDRNOTAVAIL"},
		{"[::1]:443", "EADDRNOTAVAIL"},
		{"127.0.0.1:443", "ECONNREFUSED"},
		{"1.2.3.4:443 8.8.8.8:4000", "ECONNREFUSED"},
	})
	check(t, c, "attempt", [][2]string{{"udp 1.2.3.4:443 connected", "EPERM ECONNREFUSED"}})
	if got := c.Probe(t, "query", "8.8.8.8:53"); got != "answer from 8.8.8.8:53" {
		t.Error(got)
	}
}

func BenchmarkSetup(b *testing.B) {
	var took float64
	for range b.N {
		took += float64(capturetest.Start(b, capturetest.Options{}).Setup.Microseconds())
	}
	b.ReportMetric(took/float64(b.N), "setup-µs")
}
