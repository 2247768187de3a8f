package dial

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

func TestSpecial(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.1.2.3/32":     "[10.1.2.3/32]",
		"10.0.0.0/8":      "[10.0.0.0/8]",
		"172.16.0.0/11":   "[172.16.0.0/12]",
		"192.168.1.0/24":  "[192.168.1.0/24]",
		"192.0.0.0/16":    "[192.0.0.0/24 192.0.2.0/24]",
		"100.64.0.0/10":   "[100.64.0.0/10]",
		"240.0.0.0/5":     "[240.0.0.0/5]",
		"8.8.8.8/32":      "[]",
		"2000::/4":        "[2001:2::/48 2001::/23 2001:db8::/32]",
		"2606:4700::/32":  "[]",
		"fd00::/8":        "[fd00::/8]",
		"fc00::/7":        "[fc00::/7]",
		"5000::/16":       "[5000::/16]",
		"2001:db8::1/128": "[2001:db8::1/128]",
	} {
		if got := fmt.Sprint(Special(netip.MustParsePrefix(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestSpecialAgrees compares the ranges with the class of addresses at their edges.
func TestSpecialAgrees(t *testing.T) {
	t.Parallel()
	var addrs []netip.Addr
	for _, p := range specialRanges() {
		last := p.Addr().AsSlice()
		for i := p.Bits(); i < len(last)*8; i++ {
			last[i/8] |= 0x80 >> (i % 8)
		}
		end, _ := netip.AddrFromSlice(last)
		addrs = append(addrs, p.Addr(), p.Addr().Prev(), end, end.Next())
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "2606:4700::1", "2001:200::1", "fd12::1", "5f00::1"} {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	for _, a := range addrs {
		class := classify(a)
		if !a.IsValid() || class.never() {
			continue
		}
		special := len(Special(netip.PrefixFrom(a, a.BitLen()))) > 0
		if special != (class != Public) {
			t.Errorf("%s is %s, and special is %v", a, class, special)
		}
	}
	if len(addrs) < 40 || slices.Contains(addrs, netip.MustParseAddr("0.0.0.0")) {
		t.Errorf("%d addresses", len(addrs))
	}
}
