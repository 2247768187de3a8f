package injection

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/policy/match"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func (p *part) network(t table) error {
	keys, err := t.only("allow_endpoints", "deny_endpoints")
	if err != nil {
		return err
	}
	n := &p.policy.Network
	if n.Allow, err = keys.endpoints("allow_endpoints", n.Allow); err != nil {
		return err
	}
	n.Deny, err = keys.endpoints("deny_endpoints", n.Deny)
	return err
}

// endpoints adds the endpoints of a list to those that are known already.
func (f fields) endpoints(key string, known []Endpoint) ([]Endpoint, error) {
	list, err := f.list(key)
	for _, text := range list {
		e, ok := ParseEndpoint(text)
		if !ok {
			return nil, bad(f[key].line, "%s: %s is not HOST:PORT or [ADDRESS]:PORT", key, quote.Arg(text))
		}
		if !slices.Contains(known, e) {
			known = append(known, e)
		}
	}
	return known, err
}

// ParseEndpoint reads HOST:PORT or [ADDRESS]:PORT. The host is exact: there are no
// patterns. Two spellings of one host give the same endpoint.
func ParseEndpoint(text string) (Endpoint, bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil || port == "" || strings.Trim(port, "0123456789") != "" {
		return Endpoint{}, false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Endpoint{}, false
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return Endpoint{addr.String(), uint16(n)}, addr.Zone() == ""
	}
	if strings.Trim(host, "0123456789.") == "" || strings.HasPrefix(text, "[") {
		return Endpoint{}, false // numbers that are no address
	}
	h, err := match.NewHost(strings.TrimSuffix(strings.ToLower(host), "."))
	if err != nil || !h.Exact() {
		return Endpoint{}, false
	}
	return Endpoint{h.String(), uint16(n)}, true
}

// String returns the endpoint as ParseEndpoint reads it.
func (e Endpoint) String() string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }
