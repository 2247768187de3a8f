package dial

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// host is a name or an address, never both.
type host struct {
	// Name is in lower case and has no dot at its end.
	Name string
	Addr netip.Addr
}

// String returns the name, or the address in its usual form.
func (h host) String() string {
	if h.Addr.IsValid() {
		return h.Addr.String()
	}
	return h.Name
}

// parseHost reads a host. It accepts one spelling of each address, which every
// library reads alike. Resolvers and libraries differ about the others (127.1,
// 0x7f.0.0.1, 017700000001, [::1%lo], ::ffff:127.0.0.1), so parseHost rejects
// them. A name may have one dot at its end. The error is ErrHost.
func parseHost(s string) (host, error) {
	name := s
	if n := len(s); n > 1 && s[n-1] == '.' {
		name = s[:n-1]
	}
	h, err := match.NewHost(name)
	if err != nil {
		return host{}, fmt.Errorf("%w: %w", ErrHost, err)
	}
	addr, isAddr := h.Addr()
	switch {
	case isAddr && name != s:
		return host{}, fmt.Errorf("%w: an address with a dot at its end", ErrHost)
	case isAddr:
		return host{Addr: addr}, nil
	case !h.Exact():
		return host{}, fmt.Errorf("%w: it holds *", ErrHost)
	case h.String() == "localhost", strings.HasSuffix(h.String(), ".localhost"):
		// It would resolve to loopback and be refused, but on some hosts only
		// after a query to a name server.
		return host{}, fmt.Errorf("%w: localhost is the cell itself", ErrRefused)
	}
	return host{Name: h.String()}, nil
}
