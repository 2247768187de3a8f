package dial

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Endpoint is a port of a host; port 0 is every port.
type Endpoint struct {
	// Host is as host.String returns it.
	Host string
	Port uint16
}

// Pins map hosts to the addresses that the operator set: one, or several that
// are tried in turn. Port 0 in an address means the requested port.
type Pins map[Endpoint][]netip.AddrPort

// lookup prefers the pin of one port to that of all ports.
func (p Pins) lookup(host string, port uint16) []netip.AddrPort {
	found, ok := p[Endpoint{host, port}]
	if !ok {
		found = p[Endpoint{host, 0}]
	}
	pins := slices.Clone(found)
	for i, pin := range pins {
		if pin.Port() == 0 {
			pins[i] = netip.AddrPortFrom(pin.Addr(), port)
		}
	}
	return pins
}

// PinsFor makes pins of the addresses of a host that the operator's own tools
// are configured for. It returns none if all addresses are public, which need
// no pin. It leaves out addresses that cannot be pinned.
func PinsFor(host string, port uint16, addrs []netip.Addr) []string {
	special := slices.ContainsFunc(addrs, func(a netip.Addr) bool { return classify(a) != Public })
	if h, err := parseHost(host); !special || err != nil || h.Addr.IsValid() {
		return nil
	}
	var pins []string
	for _, a := range addrs {
		if a = a.Unmap(); !pinnable(classify(a)) {
			continue
		}
		to := a.String()
		if a.Is6() {
			to = "[" + to + "]"
		}
		pins = append(pins, fmt.Sprintf("%s:%d=%s", host, port, to))
	}
	slices.Sort(pins)
	return slices.Compact(pins)
}

// pinnable reports whether the operator may pin a host to such an address.
// Loopback and private addresses may be pinned. Addresses that are not one host
// may not, nor metadata services, which would be a mistake.
func pinnable(c Class) bool { return !c.never() || c == Loopback }

// ParsePin reads HOST[:PORT]=IP[:PORT]. An IPv6 address before a port is in
// brackets.
func ParsePin(s string) (Endpoint, netip.AddrPort, error) {
	fail := func(err error) (Endpoint, netip.AddrPort, error) {
		return Endpoint{}, netip.AddrPort{}, fmt.Errorf("%q is not HOST[:PORT]=IP[:PORT]: %w", s, err)
	}
	left, right, ok := strings.Cut(s, "=")
	if !ok {
		return fail(errors.New("no ="))
	}
	host, port, err := splitPort(left)
	if err != nil {
		return fail(err)
	}
	h, err := parseHost(host)
	if err != nil {
		return fail(err)
	}
	ip, toPort, err := splitPort(right)
	if err != nil {
		return fail(err)
	}
	to, err := parseHost(ip)
	switch {
	case err != nil:
		return fail(err)
	case !to.Addr.IsValid():
		return fail(fmt.Errorf("%s is a name and not an address", to))
	case !pinnable(classify(to.Addr)):
		return fail(fmt.Errorf("%s is %s", to, classify(to.Addr)))
	}
	return Endpoint{h.String(), port}, netip.AddrPortFrom(to.Addr, toPort), nil
}

// splitPort splits a port from the end, if there is one. An IPv6 address
// without brackets has none.
func splitPort(s string) (string, uint16, error) {
	i := strings.LastIndexByte(s, ':')
	bracket := strings.HasPrefix(s, "[")
	if i < 0 || (bracket && strings.HasSuffix(s, "]")) || (!bracket && strings.Count(s, ":") > 1) {
		return s, 0, nil
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 16)
	if err != nil || n == 0 || s[i+1] == '0' {
		return "", 0, fmt.Errorf("%q is not a port", s[i+1:])
	}
	return s[:i], uint16(n), nil
}
