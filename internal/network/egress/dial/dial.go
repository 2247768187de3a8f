// Package dial connects the host side to the servers that a cell may talk to.
// It resolves their names, checks every address, and dials only checked
// addresses.
//
// The owner of a name decides what it resolves to, so a name that a policy
// allows can point anywhere: at the host's own services, a cloud's metadata, or
// the local network. The package decides by the address alone where a
// connection may go. It does not know policies, cells or protocols; the caller
// passes the host, the port and the ranges that the rule names.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Resolver looks names up; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer dials for cells. The zero Dialer uses the host's resolver and has no
// pins. It ignores proxy settings in the host's environment.
type Dialer struct {
	// Resolver looks up only fully qualified names, with a dot at the end, so
	// that no search domain is tried. Nil is the host's.
	Resolver Resolver
	// Pins are the operator's grants.
	Pins Pins
	// Timeout covers everything, resolving included; 0 means 30 seconds.
	Timeout time.Duration
	// Stagger is the delay before the next address is tried in parallel; 0
	// means 250 ms (RFC 8305).
	Stagger time.Duration

	// For tests, which have no public address to connect to: the class of an
	// address, and whether it is on another host.
	classify func(netip.Addr) Class
	route    func(netip.Addr) (bool, error)
}

const (
	defaultTimeout = 30 * time.Second
	defaultStagger = 250 * time.Millisecond
	// maxAddrs bounds an answer. Real names have fewer addresses.
	maxAddrs = 64
)

// The errors. A *Refusal is ErrRefused. Any other error came from the network
// while connecting to an allowed address.
var (
	// ErrRefused is returned for a connection that is not allowed.
	ErrRefused = errors.New("destination refused")
	// ErrHost is returned for text that is not a host in canonical spelling.
	ErrHost = errors.New("not a host")
	// errResolve is returned for a name without an address, or when the lookup
	// failed.
	errResolve = errors.New("name not resolved")
)

// Refusal is a refused address and the reason.
type Refusal struct {
	Host   string
	Addr   netip.Addr
	Class  Class
	Reason string
}

func (r *Refusal) Error() string {
	if r.Addr.String() == r.Host {
		return fmt.Sprintf("%s %s", r.Host, r.Reason)
	}
	return fmt.Sprintf("%s resolves to %s, which %s", r.Host, r.Addr, r.Reason)
}

// Is reports whether target is ErrRefused.
func (*Refusal) Is(target error) bool { return target == ErrRefused }

// Decision records the addresses found and the one connected to.
type Decision struct {
	// Host is in lower case; an address is in its usual form.
	Host string
	Port uint16
	// Pinned reports that the operator has set the address.
	Pinned bool
	// Literal reports that the host is an address.
	Literal bool
	// Resolved are all addresses of the host, with their classes.
	Resolved []Address
	// Remote is the connected address; it is not valid if there is none.
	Remote netip.AddrPort
}

// Address is an address of a host.
type Address struct {
	Addr  netip.Addr
	Class Class
}

// Dial connects to a port of a host: a name, or an address as a policy writes
// it. allowed are the ranges that the rule names, if any: then all addresses of
// the host must be in them, public or not. Without ranges the addresses must be
// public. A host that is itself an address was named by the policy, so it may
// also be private, shared, unique-local and the like. Some are never allowed:
// loopback, link-local, metadata services, multicast, this host's own
// addresses, and IPv4 addresses inside IPv6 ones.
//
// One forbidden address refuses the host, even if others are allowed: a public
// name that also points inside is an attack or a mistake, and the outcome must
// not depend on which address answers first.
//
// Pins of the operator replace all of this: their addresses may be loopback,
// private or this host's, and are dialled without a lookup.
func (d *Dialer) Dial(ctx context.Context, host string, port uint16, allowed []netip.Prefix) (net.Conn, Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, orDefault(d.Timeout, defaultTimeout))
	defer cancel()
	h, err := parseHost(host)
	if err != nil {
		return nil, Decision{}, err
	}
	dec := Decision{Host: h.String(), Port: port, Literal: h.Addr.IsValid()}
	if port == 0 {
		return nil, dec, fmt.Errorf("%w: port 0", ErrHost)
	}
	c := check{d: d, host: h, allowed: allowed}
	targets, err := c.targets(ctx, port, &dec)
	if err != nil {
		return nil, dec, err
	}
	conn, err := d.race(ctx, targets, c.control)
	if err != nil {
		return nil, dec, fmt.Errorf("connect to %s: %w", h, err)
	}
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		dec.Remote = netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), a.AddrPort().Port())
	}
	return conn, dec, nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// check decides about one connection.
type check struct {
	d       *Dialer
	host    host
	allowed []netip.Prefix
	pins    []netip.AddrPort // if the operator has set some
}

// targets returns the addresses that may be dialled, in the order of attempts.
func (c *check) targets(ctx context.Context, port uint16, dec *Decision) ([]netip.AddrPort, error) {
	if c.pins = c.d.Pins.lookup(c.host.String(), port); len(c.pins) > 0 {
		dec.Pinned = true
		for _, pin := range c.pins {
			dec.Resolved = append(dec.Resolved, Address{Addr: pin.Addr(), Class: c.class(pin.Addr())})
			if err := c.verdict(pin.Addr()); err != nil {
				return nil, err
			}
		}
		return interleave(c.pins), nil
	}
	addrs, err := c.resolve(ctx)
	if err != nil {
		return nil, err
	}
	var first error
	targets := make([]netip.AddrPort, 0, len(addrs))
	for _, a := range addrs {
		dec.Resolved = append(dec.Resolved, Address{Addr: a, Class: c.class(a)})
		if err := c.verdict(a); err != nil && first == nil {
			first = err
		}
		targets = append(targets, netip.AddrPortFrom(a, port))
	}
	if first != nil {
		return nil, first
	}
	return interleave(targets), nil
}

func (c *check) resolve(ctx context.Context) ([]netip.Addr, error) {
	if c.host.Addr.IsValid() {
		return []netip.Addr{c.host.Addr}, nil
	}
	var r Resolver = net.DefaultResolver
	if c.d.Resolver != nil {
		r = c.d.Resolver
	}
	found, err := r.LookupNetIP(ctx, "ip", c.host.Name+".")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errResolve, err)
	}
	var addrs []netip.Addr
	seen := make(map[netip.Addr]bool, len(found))
	for _, a := range found {
		// The resolver returns IPv4 addresses in mapped form.
		if a = a.Unmap(); !seen[a] {
			seen[a] = true
			addrs = append(addrs, a)
		}
	}
	switch {
	case len(addrs) == 0:
		return nil, fmt.Errorf("%w: %s has no address", errResolve, c.host)
	case len(addrs) > maxAddrs:
		return nil, fmt.Errorf("%w: %s has %d addresses, more than %d", errResolve, c.host, len(addrs), maxAddrs)
	}
	return addrs, nil
}

// verdict returns a *Refusal if an address may not be dialled.
func (c *check) verdict(a netip.Addr) error {
	class := c.class(a)
	refuse := func(format string, args ...any) error {
		return &Refusal{Host: c.host.String(), Addr: a, Class: class, Reason: fmt.Sprintf(format, args...)}
	}
	if len(c.pins) > 0 {
		if !slices.ContainsFunc(c.pins, func(pin netip.AddrPort) bool { return pin.Addr() == a }) || !pinnable(class) {
			return refuse("is %s, where not even the operator can point a host", class)
		}
		return nil
	}
	switch {
	case class.never():
		return refuse("is %s, where no connection of a cell ever goes", class)
	case len(c.allowed) > 0 && !isAllowed(a, c.allowed):
		return refuse("is not in allowed_ips")
	case len(c.allowed) == 0 && class != Public && !c.host.Addr.IsValid():
		return refuse("is %s; it takes allowed_ips to go there", class)
	}
	route := isOtherHost
	if c.d.route != nil {
		route = c.d.route
	}
	switch ok, err := route(a); {
	case err != nil:
		return refuse("may be this host: %v", err)
	case !ok:
		return refuse("is this host, where no connection of a cell ever goes")
	}
	return nil
}

func isAllowed(a netip.Addr, allowed []netip.Prefix) bool {
	for _, p := range allowed {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func (c *check) class(a netip.Addr) Class {
	if c.d.classify != nil {
		return c.d.classify(a)
	}
	return classify(a)
}

// control returns a function that runs before a socket connects. It fails if
// the address is not the one that was decided on.
func (c *check) control(want netip.AddrPort) func(string, string, syscall.RawConn) error {
	return func(network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || at != want || (network != "tcp4" && network != "tcp6") {
			return fmt.Errorf("%w: about to connect to %s %s and not to %s", ErrRefused, network, address, want)
		}
		return c.verdict(at.Addr())
	}
}
