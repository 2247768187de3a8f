package dial

import (
	"encoding/binary"
	"net/netip"
)

// Class is the purpose of an address range.
type Class uint8

// The classes. A policy can allow those up to Reserved, and never the others.
const (
	// Public addresses can be reached by everyone.
	Public Class = iota
	Private
	Shared        // 100.64.0.0/10, between providers and their customers
	Benchmark     // 198.18.0.0/15, 2001:2::/48
	UniqueLocal   // fc00::/7
	Documentation // 192.0.2.0/24 and such
	Reserved      // whatever else is not assigned to the public

	Unspecified // 0.0.0.0/8, ::; the kernel takes them for this host
	Loopback
	LinkLocal
	Metadata // addresses at which clouds hand out credentials
	Multicast
	Broadcast
	Transition // IPv4 inside IPv6, where what is reached depends on some relay
)

func (c Class) String() string {
	switch c {
	case Public:
		return "public"
	case Private:
		return "private"
	case Shared:
		return "shared"
	case Benchmark:
		return "benchmark"
	case UniqueLocal:
		return "unique-local"
	case Documentation:
		return "documentation"
	case Reserved:
		return "reserved"
	case Unspecified:
		return "unspecified"
	case Loopback:
		return "loopback"
	case LinkLocal:
		return "link-local"
	case Metadata:
		return "a metadata service"
	case Multicast:
		return "multicast"
	case Broadcast:
		return "broadcast"
	case Transition:
		return "IPv4 in IPv6"
	}
	return "unknown"
}

// never reports whether no policy can allow addresses of the class.
func (c Class) never() bool { return c > Reserved }

// classify returns the class of an address. A mapped IPv4 address has the class
// of the IPv4 address, because the kernel treats them alike. Public IPv4
// addresses in the well-known NAT64 form are public, because hosts without
// IPv4 need them.
func classify(addr netip.Addr) Class {
	if addr.Zone() != "" {
		// Only addresses of a link have one.
		return LinkLocal
	}
	addr = addr.Unmap()
	switch {
	case !addr.IsValid():
		return Unspecified
	case addr.Is4():
		a := addr.As4()
		return classify4(binary.BigEndian.Uint32(a[:]))
	}
	a := addr.As16()
	hi, lo := binary.BigEndian.Uint64(a[:]), binary.BigEndian.Uint64(a[8:])
	if hi == nat64 && lo>>32 == 0 {
		if classify4(uint32(lo)) == Public {
			return Public
		}
		return Transition
	}
	return classify6(hi, lo)
}

const nat64 = 0x0064_ff9b_0000_0000

// The compiler lays the tables out. The first matching entry counts.
type range4 struct {
	first, last uint32
	class       Class
}

var table4 = [...]range4{
	{0x00000000, 0x00ffffff, Unspecified},   // 0.0.0.0/8
	{0x0a000000, 0x0affffff, Private},       // 10.0.0.0/8
	{0x646464c8, 0x646464c8, Metadata},      // 100.100.100.200, Alibaba
	{0x64400000, 0x647fffff, Shared},        // 100.64.0.0/10
	{0x7f000000, 0x7fffffff, Loopback},      // 127.0.0.0/8
	{0xa83f8110, 0xa83f8110, Metadata},      // 168.63.129.16, Azure's wire server
	{0xa9fea9fe, 0xa9fea9fe, Metadata},      // 169.254.169.254
	{0xa9fe0000, 0xa9feffff, LinkLocal},     // 169.254.0.0/16
	{0xac100000, 0xac1fffff, Private},       // 172.16.0.0/12
	{0xc00000c0, 0xc00000c0, Metadata},      // 192.0.0.192, Oracle
	{0xc0000000, 0xc00000ff, Reserved},      // 192.0.0.0/24
	{0xc0000200, 0xc00002ff, Documentation}, // 192.0.2.0/24
	{0xc0586300, 0xc05863ff, Reserved},      // 192.88.99.0/24, relays of 6to4
	{0xc0a80000, 0xc0a8ffff, Private},       // 192.168.0.0/16
	{0xc6120000, 0xc613ffff, Benchmark},     // 198.18.0.0/15
	{0xc6336400, 0xc63364ff, Documentation}, // 198.51.100.0/24
	{0xcb007100, 0xcb0071ff, Documentation}, // 203.0.113.0/24
	{0xe0000000, 0xefffffff, Multicast},     // 224.0.0.0/4
	{0xffffffff, 0xffffffff, Broadcast},
	{0xf0000000, 0xfffffffe, Reserved}, // 240.0.0.0/4
}

func classify4(ip uint32) Class {
	for _, r := range &table4 {
		if r.first <= ip && ip <= r.last {
			return r.class
		}
	}
	return Public
}

// range6 is a prefix; the bits of lo count only beyond 64.
type range6 struct {
	hi, lo uint64
	bits   int
	class  Class
}

var table6 = [...]range6{
	{0, 0, 128, Unspecified},
	{0, 1, 128, Loopback},
	{0, 0, 96, Transition},                              // ::/96, IPv4-compatible
	{0, 0x0000_ffff_0000_0000, 96, Transition},          // ::ffff:0:0/96; Unmap has seen it before
	{0, 0xffff_0000_0000_0000, 96, Transition},          // ::ffff:0:0:0/96, IPv4-translated
	{0x0064_ff9b_0001_0000, 0, 48, Transition},          // 64:ff9b:1::/48, NAT64 of a network's own
	{0x0064_ff9b_0000_0000, 0, 32, Transition},          // what is left of the NAT64 block
	{0x2001_0000_0000_0000, 0, 32, Transition},          // Teredo
	{0x2001_0002_0000_0000, 0, 48, Benchmark},           // 2001:2::/48
	{0x2001_0000_0000_0000, 0, 23, Reserved},            // 2001::/23, protocols
	{0x2001_0db8_0000_0000, 0, 32, Documentation},       // 2001:db8::/32
	{0x2002_0000_0000_0000, 0, 16, Transition},          // 6to4
	{0x3fff_0000_0000_0000, 0, 20, Documentation},       // 3fff::/20
	{0x2000_0000_0000_0000, 0, 3, Public},               // 2000::/3, all that is public
	{0xfd00_0ec2_0000_0000, 0, 32, Metadata},            // fd00:ec2::/32, Amazon: metadata, identities, names
	{0xfd20_00ce_0000_0000, 0x254, 128, Metadata},       // fd20:ce::254, Google
	{0xfd00_00c1_0000_0000, 0xa9fe_a9fe, 128, Metadata}, // fd00:c1::a9fe:a9fe, Oracle
	{0xfd00_0042_0000_0000, 0x42, 128, Metadata},        // fd00:42::42, Scaleway
	{0xfd00_a9fe_a9fe_0000, 0x1, 128, Metadata},         // fd00:a9fe:a9fe::1, Akamai
	{0xfd00_0100_0000_0000, 0x0100_0200, 128, Metadata}, // fd00:100::100:200, Alibaba
	{0xfc00_0000_0000_0000, 0, 7, UniqueLocal},
	{0xfe80_0000_0000_0000, 0, 10, LinkLocal},
	{0xfec0_0000_0000_0000, 0, 10, Reserved}, // site-local, no longer in use
	{0xff00_0000_0000_0000, 0, 8, Multicast},
}

func classify6(hi, lo uint64) Class {
	for _, r := range &table6 {
		if r.holds(hi, lo) {
			return r.class
		}
	}
	return Reserved
}

func (r range6) holds(hi, lo uint64) bool {
	if r.bits <= 64 {
		return (hi^r.hi)>>(64-r.bits) == 0
	}
	return hi == r.hi && (lo^r.lo)>>(128-r.bits) == 0
}
