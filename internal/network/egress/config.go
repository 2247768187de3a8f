package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

// Config configures a Proxy. Every field without a default must be set.
type Config struct {
	// Generation applies from the start; see Proxy.Reload.
	Generation *Generation
	// Names finds the name of a synthetic address.
	Names Names
	// Destination returns the original destination of an accepted connection.
	Destination func(net.Conn) (Destination, error)
	// Attribute returns the program that opened an accepted connection. When it
	// fails, only rules for any binary match.
	Attribute func(net.Conn) (Process, error)
	// Dialer makes connections to upstreams.
	Dialer Dialer
	// Authority answers in the name of upstreams.
	Authority Authority
	// Roots verify upstreams; nil means the host's own.
	Roots *x509.CertPool
	// Event records an event. It is called from many goroutines and must not
	// block for long. Nil drops events.
	Event func(event.Event)
	// Logins renews logins; nil if there are none.
	Logins Logins
	// Limits bound the resources that a cell can use.
	Limits Limits
}

// Generation is the policy and the credentials that apply at one time. It is
// replaced as a whole and never changed.
type Generation struct {
	Policy *policy.Policy
	// Hash names the policy in events; empty leaves that to the journal.
	Hash string
	// Credentials are those that the policy names; nil if it names none.
	Credentials *credential.Set
	// Unrestricted lets every program reach every host that the policy does not list
	// for it, without inspection. Addresses that no connection of a cell goes to stay
	// out of reach.
	Unrestricted bool
}

// Names finds the names of synthetic addresses.
type Names interface {
	Name(netip.Addr) (string, bool)
}

// Destination is the address that a program connected to.
type Destination struct {
	Addr netip.AddrPort
	// Explicit reports that the program connected to the proxy itself: it names
	// its destination within the connection.
	Explicit bool
}

// Process is the program that opened a connection.
type Process struct {
	// PID and Parent are numbers inside the cell.
	PID, Parent int
	// Binary is the path of its executable in the cell.
	Binary string
	// Also lists other paths by which a rule may name the executable: symbolic
	// links to it on mounts that the cell cannot write.
	Also []string
	// Untrusted reports that the cell could have made or changed the
	// executable. Such a program matches only rules for any binary.
	Untrusted bool
	// Unknown is the reason why the program cannot be identified, empty if it
	// is. Such a program matches only rules for any binary.
	Unknown string
}

// Dialer resolves a host, checks its addresses and dials one of them. Allowed
// replaces the rule that addresses must be public. The error wraps
// ErrDestination if the host has no address that a cell may connect to.
type Dialer interface {
	Dial(ctx context.Context, host string, port uint16, allowed []netip.Prefix) (net.Conn, error)
}

// ErrDestination is returned when a destination's address is forbidden.
var ErrDestination = errors.New("the destination's address is not allowed")

// Authority returns the TLS settings for answering in a host's name.
type Authority interface {
	Config(name string, nextProtos ...string) (*tls.Config, error)
}

// Limits bound a proxy. A zero field means its default.
type Limits struct {
	// Connections is how many may be open at once; 2048. More are refused.
	Connections int
	// Memory is how much all connections together may make the host hold; 128
	// MiB. Anything above waits or is refused.
	Memory int64
	// Streams is how many may be open at once on one HTTP/2 connection; 128.
	Streams int
	// Requests is how many may be in progress at once, on all connections;
	// 4096.
	Requests int
	// Reading is how many requests' bodies are read at once before they are
	// decided; 64. More wait.
	Reading int
	// HeaderBytes bounds the header of one request; 64 KiB.
	HeaderBytes int
	// Hello is how long a program may take for its TLS handshake, and then for
	// the header of a request, and for a body that is read before it is decided;
	// 15 seconds.
	Hello time.Duration
	// Idle is how long an inspected connection may be silent between requests;
	// 2 minutes. Connections that are not inspected have no such limit.
	Idle time.Duration
	// Dial is how long connecting to an upstream may take, TLS included; 30
	// seconds.
	Dial time.Duration
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		v         *int
		otherwise int
	}{{&l.Connections, 2048}, {&l.Streams, 128}, {&l.Requests, 4096}, {&l.Reading, 64}, {&l.HeaderBytes, 64 << 10}} {
		if *f.v <= 0 {
			*f.v = f.otherwise
		}
	}
	if l.Memory <= 0 {
		l.Memory = 128 << 20
	}
	for _, f := range []struct {
		v         *time.Duration
		otherwise time.Duration
	}{{&l.Hello, 15 * time.Second}, {&l.Idle, 2 * time.Minute}, {&l.Dial, 30 * time.Second}} {
		if *f.v <= 0 {
			*f.v = f.otherwise
		}
	}
	return l
}

func (c *Config) check() error {
	switch {
	case c.Generation == nil || c.Generation.Policy == nil:
		return errors.New("egress: no policy")
	case c.Names == nil, c.Destination == nil, c.Attribute == nil, c.Dialer == nil, c.Authority == nil:
		return errors.New("egress: a part is missing")
	}
	return nil
}
