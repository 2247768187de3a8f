package dial

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addr string
		want Class
	}{
		{"1.1.1.1", Public},
		{"8.8.8.8", Public},
		{"0.0.0.0", Unspecified},
		{"0.255.255.255", Unspecified},
		{"1.0.0.0", Public},
		{"9.255.255.255", Public},
		{"10.0.0.0", Private},
		{"10.255.255.255", Private},
		{"11.0.0.0", Public},
		{"100.63.255.255", Public},
		{"100.64.0.0", Shared},
		{"100.100.100.199", Shared},
		{"100.100.100.200", Metadata},
		{"100.127.255.255", Shared},
		{"100.128.0.0", Public},
		{"126.255.255.255", Public},
		{"127.0.0.0", Loopback},
		{"127.0.0.1", Loopback},
		{"127.255.255.255", Loopback},
		{"128.0.0.0", Public},
		{"168.63.129.15", Public},
		{"168.63.129.16", Metadata},
		{"169.253.255.255", Public},
		{"169.254.0.0", LinkLocal},
		{"169.254.169.254", Metadata},
		{"169.254.170.2", LinkLocal},
		{"169.254.255.255", LinkLocal},
		{"169.255.0.0", Public},
		{"172.15.255.255", Public},
		{"172.16.0.0", Private},
		{"172.31.255.255", Private},
		{"172.32.0.0", Public},
		{"192.0.0.0", Reserved},
		{"192.0.0.192", Metadata},
		{"192.0.0.255", Reserved},
		{"192.0.1.0", Public},
		{"192.0.2.1", Documentation},
		{"192.0.3.0", Public},
		{"192.88.99.1", Reserved},
		{"192.167.255.255", Public},
		{"192.168.0.0", Private},
		{"192.168.255.255", Private},
		{"192.169.0.0", Public},
		{"198.17.255.255", Public},
		{"198.18.0.0", Benchmark},
		{"198.19.255.255", Benchmark},
		{"198.20.0.0", Public},
		{"198.51.100.7", Documentation},
		{"203.0.113.7", Documentation},
		{"223.255.255.255", Public},
		{"224.0.0.0", Multicast},
		{"239.255.255.255", Multicast},
		{"240.0.0.0", Reserved},
		{"255.255.255.254", Reserved},
		{"255.255.255.255", Broadcast},

		{"::", Unspecified},
		{"::1", Loopback},
		{"::2", Transition},
		{"::127.0.0.1", Transition},
		{"::8.8.8.8", Transition},
		{"::ffff:8.8.8.8", Public},
		{"::ffff:127.0.0.1", Loopback},
		{"::ffff:169.254.169.254", Metadata},
		{"::ffff:10.0.0.1", Private},
		{"::ffff:0:127.0.0.1", Transition},
		{"::ffff:0:8.8.8.8", Transition},
		{"0:0:0:1::1", Reserved},
		{"64:ff9b::8.8.8.8", Public},
		{"64:ff9b::127.0.0.1", Transition},
		{"64:ff9b::169.254.169.254", Transition},
		{"64:ff9b::168.63.129.16", Transition},
		{"64:ff9b::10.0.0.1", Transition},
		{"64:ff9b::192.168.1.1", Transition},
		{"64:ff9b::198.18.0.1", Transition},
		{"64:ff9b::0.0.0.0", Transition},
		{"64:ff9b::224.0.0.1", Transition},
		{"64:ff9b::1:8.8.8.8", Transition},
		{"64:ff9b:1::8.8.8.8", Transition},
		{"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Transition},
		{"64:ff9b:2::8.8.8.8", Transition},
		{"64:ff9c::1", Reserved},
		{"100::1", Reserved},
		{"1fff:ffff::", Reserved},
		{"2000::1", Public},
		{"2001::1", Transition}, // Teredo
		{"2001:0:7f00:1::", Transition},
		{"2001:1::1", Reserved},
		{"2001:2::1", Benchmark},
		{"2001:2:1::1", Reserved},
		{"2001:10::1", Reserved},
		{"2001:1ff:ffff::", Reserved},
		{"2001:200::1", Public},
		{"2001:db8::1", Documentation},
		{"2001:db9::1", Public},
		{"2002::1", Transition},
		{"2002:7f00:1::1", Transition},
		{"2002:808:808::1", Transition},
		{"2003::1", Public},
		{"2606:4700:4700::1111", Public},
		{"2a00:1450::1", Public},
		{"3ffe:ffff::", Public},
		{"3fff::1", Documentation},
		{"3fff:fff:ffff::", Documentation},
		{"3fff:1000::", Public},
		{"4000::1", Reserved},
		{"5f00::1", Reserved},
		{"fbff::1", Reserved},
		{"fc00::1", UniqueLocal},
		{"fd00::1", UniqueLocal},
		{"fd00:ec1:ffff::", UniqueLocal},
		{"fd00:ec2::254", Metadata},
		{"fd00:ec2::23", Metadata},
		{"fd00:ec2:ffff::1", Metadata},
		{"fd00:ec3::", UniqueLocal},
		{"fd20:ce::254", Metadata},
		{"fd20:ce::253", UniqueLocal},
		{"fd00:c1::a9fe:a9fe", Metadata},
		{"fd00:42::42", Metadata},
		{"fd00:a9fe:a9fe::1", Metadata},
		{"fd00:100::100:200", Metadata},
		{"fdff:ffff::", UniqueLocal},
		{"fe00::1", Reserved},
		{"fe80::1", LinkLocal},
		{"fe80::a9fe:a9fe", LinkLocal},
		{"febf:ffff::", LinkLocal},
		{"fec0::1", Reserved},
		{"fe80::1%eth0", LinkLocal},
		{"2606:4700::1%eth0", LinkLocal},
		{"ff02::1", Multicast},
		{"ffff::1", Multicast},
	} {
		if got := classify(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("Classify(%s) = %s, want %s", c.addr, got, c.want)
		}
	}
	if got := classify(netip.Addr{}); got != Unspecified {
		t.Errorf("no address at all is %s", got)
	}
}

func TestClassNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for c := Public; c <= Transition; c++ {
		if s := c.String(); s == "unknown" || seen[s] {
			t.Errorf("class %d is %q", c, s)
		} else {
			seen[s] = true
		}
	}
	if got := (Transition + 1).String(); got != "unknown" {
		t.Errorf("a class that does not exist is %q", got)
	}
}

// special is the registries of special-purpose addresses (RFC 6890, IANA),
// written down on their own: what of it is never public.
var special = []string{
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/2", "8000::/1",
}

// forbidden is what no policy can allow.
var forbidden = []string{
	"0.0.0.0/8", "100.100.100.200/32", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.192/32", "224.0.0.0/4", "255.255.255.255/32",
	"::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "2001::/32", "2002::/16",
	"fd00:ec2::/32", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128", "fd00:a9fe:a9fe::1/128", "fd00:100::100:200/128",
	"fe80::/10", "ff00::/8",
}

func parsePrefixes(list []string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func anyAddr(edges []netip.Prefix) *rapid.Generator[netip.Addr] {
	return rapid.Custom(func(t *rapid.T) netip.Addr {
		if rapid.Bool().Draw(t, "near an edge") {
			p := rapid.SampledFrom(edges).Draw(t, "prefix")
			a := p.Addr()
			if rapid.Bool().Draw(t, "at the end") {
				a = last(p)
			}
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 1:
				if n := a.Next(); n.IsValid() {
					return n
				}
			case 2:
				if n := a.Prev(); n.IsValid() {
					return n
				}
			}
			return a
		}
		if rapid.Bool().Draw(t, "v4") {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], rapid.Uint32().Draw(t, "address"))
			return netip.AddrFrom4(b)
		}
		var b [16]byte
		binary.BigEndian.PutUint64(b[:], rapid.Uint64().Draw(t, "high"))
		binary.BigEndian.PutUint64(b[8:], rapid.Uint64().Draw(t, "low"))
		return netip.AddrFrom16(b)
	})
}

func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// TestClassifyModel compares the tables with the lists above, and with what the
// standard library knows.
func TestClassifyModel(t *testing.T) {
	t.Parallel()
	specials, forbiddens := parsePrefixes(special), parsePrefixes(forbidden)
	wellKnown := netip.MustParsePrefix("64:ff9b::/96")
	addrs := anyAddr(append(append([]netip.Prefix{wellKnown}, specials...), forbiddens...))
	rapid.Check(t, func(t *rapid.T) {
		a := addrs.Draw(t, "address")
		class := classify(a)
		plain := a.Unmap()
		public := !isAllowed(plain, specials)
		never := isAllowed(plain, forbiddens)
		switch {
		case wellKnown.Contains(a):
			b := a.As16()
			inner := netip.AddrFrom4([4]byte(b[12:]))
			public = !isAllowed(inner, specials)
			never = !public
		case netip.MustParsePrefix("64:ff9b::/32").Contains(a):
			never = true
		}
		if (class == Public) != public || class.never() != never {
			t.Fatalf("%s is %s; the lists say public %v, never %v", a, class, public, never)
		}
		if bad := plain.IsLoopback() || plain.IsLinkLocalUnicast() || plain.IsMulticast() || plain.IsUnspecified(); bad && !class.never() {
			t.Fatalf("%s is %s", a, class)
		}
		if plain.IsPrivate() && class == Public {
			t.Fatalf("%s is private", a)
		}
		if a.Is4() {
			if mapped := classify(netip.AddrFrom16(a.As16())); mapped != class {
				t.Fatalf("%s is %s, mapped it is %s", a, class, mapped)
			}
		}
	})
}
