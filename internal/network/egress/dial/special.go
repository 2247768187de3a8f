package dial

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
)

// Special returns the parts of a range that are not public and that a policy can allow. It
// leaves out those that no policy can: they are refused when they are dialled.
func Special(p netip.Prefix) (parts []netip.Prefix) {
	for _, s := range specialRanges() {
		switch {
		case s.Bits() <= p.Bits() && s.Contains(p.Addr()):
			return []netip.Prefix{p}
		case p.Contains(s.Addr()):
			parts = append(parts, s)
		}
	}
	return parts
}

// specialRanges lists the tables of the classes that are not public and can be allowed.
func specialRanges() []netip.Prefix {
	// Outside of 2000::/3 nothing is public.
	list := []netip.Prefix{netip.MustParsePrefix("::/3"), netip.MustParsePrefix("4000::/2"), netip.MustParsePrefix("8000::/1")}
	for _, r := range &table4 {
		if r.class != Public && !r.class.never() {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], r.first)
			list = append(list, netip.PrefixFrom(netip.AddrFrom4(a), 32-bits.Len32(r.first^r.last)))
		}
	}
	for _, r := range &table6 {
		if r.class != Public && !r.class.never() {
			var a [16]byte
			binary.BigEndian.PutUint64(a[:8], r.hi)
			binary.BigEndian.PutUint64(a[8:], r.lo)
			list = append(list, netip.PrefixFrom(netip.AddrFrom16(a), r.bits))
		}
	}
	return list
}

// Inside returns the ranges of a that are parts of ranges of b.
func Inside(a, b []netip.Prefix) []netip.Prefix {
	known := map[netip.Prefix]bool{}
	for _, p := range b {
		known[p.Masked()] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(p netip.Prefix) bool {
		for bits := p.Bits(); bits >= 0; bits-- {
			if known[netip.PrefixFrom(p.Addr(), bits).Masked()] {
				return false
			}
		}
		return true
	})
}
