package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/network/egress/dial"
)

type resolver map[string]string

func (r resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(r[strings.TrimSuffix(host, ".")])}, nil
}

// TestDials checks that the real dialer's refusals differ from its failures.
func TestDials(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	d := egress.Dials(&dial.Dialer{
		Resolver: resolver{"inside.example.com": "127.0.0.1", "metadata.example.com": "169.254.169.254"},
		Pins:     dial.Pins{{Host: "pinned.example.com", Port: 443}: {netip.MustParseAddrPort(l.Addr().String())}},
	})
	for _, host := range []string{"inside.example.com", "metadata.example.com", "127.0.0.1", "0x7f.1"} {
		if c, err := d.Dial(t.Context(), host, 443, nil); !errors.Is(err, egress.ErrDestination) || c != nil {
			t.Error(host, err)
		}
	}
	c, err := d.Dial(t.Context(), "pinned.example.com", 443, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}
