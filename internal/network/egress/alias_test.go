package egress

import (
	"net/netip"
	"testing"

	"github.com/forkcell/forkcell/internal/policy"
)

// TestAliasOfTwoEntries: a binary that two entries name apart, and that a link makes
// one, gets no address that only one of them allows.
func TestAliasOfTwoEntries(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p", []byte(`version: 1
network_policies:
  a: { endpoints: [{ host: h.example, port: 443 }], binaries: [{ path: /usr/bin/python3 }] }
  b: { endpoints: [{ host: h.example, port: 443, allowed_ips: [10.0.0.0/8] }], binaries: [{ path: /usr/bin/python3.11 }] }
  c: { endpoints: [{ host: h.example, port: 443, protocol: rest, access: read-only }], binaries: [{ path: /usr/bin/python3.12 }] }
`), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gen := &Generation{Policy: p}
	inside, public := netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("93.184.216.34")
	holds := func(list []netip.Prefix, a netip.Addr) bool {
		for _, pre := range list {
			if pre.Contains(a) {
				return true
			}
		}
		return false
	}
	if got := gen.view(Process{Binary: "/usr/bin/python3"}, "h.example", 443).allowed(); len(got) != 0 {
		t.Errorf("the first: %v", got)
	}
	if got := gen.view(Process{Binary: "/usr/bin/python3.11"}, "h.example", 443).allowed(); !holds(got, inside) {
		t.Errorf("the second: %v", got)
	}
	both := gen.view(Process{Binary: "/usr/bin/python3.11", Also: []string{"/usr/bin/python3"}}, "h.example", 443)
	if got := both.allowed(); len(got) == 0 || holds(got, inside) || holds(got, public) {
		t.Errorf("both: %v", got)
	}
	// One entry that reads requests is enough to read them.
	if v := gen.view(Process{Binary: "/usr/bin/python3.12", Also: []string{"/usr/bin/python3"}}, "h.example", 443); v.opaque() {
		t.Error("requests are not read")
	}
}
