package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/forkcell/forkcell/internal/egress/credential"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/policy"
)

// Config is what a Proxy needs. Every field without a default must be given.
type Config struct {
	// Generation rules from the start; see Proxy.Reload.
	Generation *Generation
	// Names says which name a synthetic address stands for.
	Names Names
	// Destination says where an accepted connection was to go.
	Destination func(net.Conn) (Destination, error)
	// Attribute says which program opened an accepted connection. When it fails,
	// only rules for any binary match.
	Attribute func(net.Conn) (Process, error)
	// Dialer makes connections to upstreams.
	Dialer Dialer
	// Authority answers in the name of upstreams.
	Authority Authority
	// Roots verify upstreams; nil means the host's own.
	Roots *x509.CertPool
	// Event takes what happened. It is called from many goroutines and must not
	// block for long. Nil drops events.
	Event func(event.Event)
	// Limits bound what a cell can use up.
	Limits Limits
}

// Generation is what rules at one time: it is swapped as a whole and never
// changes.
type Generation struct {
	Policy *policy.Policy
	// Hash names the policy in events; empty leaves that to the journal.
	Hash string
	// Credentials are those that the policy names; nil if it names none.
	Credentials *credential.Set
}

// Names tells the names of synthetic addresses.
type Names interface {
	Name(netip.Addr) (string, bool)
}

// Destination is where a program wanted to go.
type Destination struct {
	Addr netip.AddrPort
	// Explicit says that it is the proxy itself: the program says within the
	// connection where it wants to go.
	Explicit bool
}

// Process is the program that opened a connection.
type Process struct {
	// PID and Parent are numbers inside the cell.
	PID, Parent int
	// Binary is the path of its executable in the cell.
	Binary string
	// Also are other paths by which a rule may list the executable: symbolic
	// links to it on mounts that the cell cannot write.
	Also []string
	// Untrusted says that the cell could have made or changed the executable.
	// Such a one matches only rules for any binary.
	Untrusted bool
	// Unknown is why the program cannot be told, empty if it can. Such a one
	// matches only rules for any binary.
	Unknown string
}

// Dialer resolves a host, checks its addresses and dials one of them. Allowed
// replaces the rule that addresses must be public. An error that wraps
// ErrDestination says that the host has no address where a cell may go.
type Dialer interface {
	Dial(ctx context.Context, host string, port uint16, allowed []netip.Prefix) (net.Conn, error)
}

// ErrDestination says that a destination's address is forbidden.
var ErrDestination = errors.New("the destination's address is not allowed")

// Authority gives the settings for answering in a host's name.
type Authority interface {
	Config(name string, nextProtos ...string) (*tls.Config, error)
}

// Limits bound a proxy. A zero field means its default.
type Limits struct {
	// Connections that are open at once; 2048. More are refused.
	Connections int
	// Memory is what all connections together may make the host hold; 128 MiB.
	// What would need more waits, or is refused.
	Memory int64
	// Streams that are open at once on one HTTP/2 connection; 128.
	Streams int
	// Requests that are on their way at once, on all connections; 4096.
	Requests int
	// Reading is how many requests' bodies are read at once before they are
	// decided; 64. More wait.
	Reading int
	// HeaderBytes of one request; 64 KiB.
	HeaderBytes int
	// Hello is how long a program may take for its TLS handshake, and then for
	// the header of a request, and for a body that is read before it is decided;
	// 15 seconds.
	Hello time.Duration
	// Idle is how long an inspected connection may be silent between requests;
	// 2 minutes. What is not inspected has no such limit.
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
