package capture

import (
	_ "embed" // messages
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnsupported is wrapped by errors about missing kernel features.
var ErrUnsupported = errors.New("not supported by this kernel")

// firstIPv6Step is the index of the first message of routeProgram that is about
// IPv6.
const firstIPv6Step = 3

// Setup sets up the network of the calling thread's namespace, which must be
// new, and returns the sockets that serve it, which the caller owns. The thread
// needs CAP_NET_ADMIN in the user namespace that owns it. If the kernel lacks
// IPv6, or it is switched off in the namespace, Setup leaves it out without an
// error.
func Setup() (*Sockets, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, fmt.Errorf("byte order: %w", ErrUnsupported)
	}
	six, err := configure()
	if err != nil {
		return nil, fmt.Errorf("interface: %w", err)
	}
	if err := filter(rules(six)); err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	return openSockets(six)
}

// configure brings loopback up and gives it addresses and routes. It reports
// whether there is IPv6.
func configure() (bool, error) {
	p := routeProgram()
	errnos, err := exchange(unix.NETLINK_ROUTE, p.bytes)
	if err != nil {
		return false, err
	}
	six := true
	for i := range strings.Count(p.steps, "\n") {
		errno, answered := errnos.of(i + 1)
		switch {
		case !answered:
			return false, fmt.Errorf("%s: no answer", p.step(i+1))
		case errno == 0:
		case i == firstIPv6Step && noIPv6(errno):
			six = false
		case i > firstIPv6Step && !six:
		default:
			return false, fmt.Errorf("%s: %w", p.step(i+1), errno)
		}
	}
	return six, nil
}

// noIPv6 reports whether an error is the kernel's answer to a request for an
// address without IPv6 (the first two), or with IPv6 switched off.
func noIPv6(errno unix.Errno) bool {
	return errno == unix.EOPNOTSUPP || errno == unix.EAFNOSUPPORT || errno == unix.EACCES
}

// filter loads the rules, all or none. The kernel answers the messages that
// fail, and always the last one, because only that one requests an answer.
func filter(p program) error {
	errnos, err := exchange(unix.NETLINK_NETFILTER, p.bytes)
	if err != nil {
		return err
	}
	for _, a := range errnos {
		switch {
		case a.errno == 0:
		case a.errno == unix.ENOENT || a.errno == unix.EOPNOTSUPP || a.errno == unix.EAFNOSUPPORT || a.errno == unix.EPROTONOSUPPORT:
			// In a new namespace only parts of the kernel can be missing.
			return fmt.Errorf("%s: %w: %w", p.step(a.seq), ErrUnsupported, a.errno)
		default:
			return fmt.Errorf("%s: %w", p.step(a.seq), a.errno)
		}
	}
	if _, answered := errnos.of(p.acked); !answered {
		return errors.New("no answer")
	}
	return nil
}

// program is a sequence of netlink messages, numbered from 1.
type program struct {
	bytes string
	// steps has a line for each message: what it is for.
	steps string
	// acked is the number of the message that asks for an answer, 0 if all do.
	acked int
}

// The messages, and what each is for. The tests write them with -update.
var (
	//go:embed program_route.bin
	routeBytes string
	//go:embed program_route.txt
	routeSteps string
	//go:embed program_inet.bin
	inetBytes string
	//go:embed program_inet.txt
	inetSteps string
	//go:embed program_ip.bin
	ipBytes string
	//go:embed program_ip.txt
	ipSteps string
)

// routeProgram brings up the interface, with its addresses and routes.
func routeProgram() program { return program{routeBytes, routeSteps, 0} }

// rules returns the rules for both address families, or for IPv4 alone. The last
// message but one is answered: the last ends the sequence.
func rules(six bool) program {
	p := program{bytes: ipBytes, steps: ipSteps}
	if six {
		p = program{bytes: inetBytes, steps: inetSteps}
	}
	p.acked = strings.Count(p.steps, "\n") - 1
	return p
}

// step names a message. Failures of the whole sequence are reported for its
// first one.
func (p program) step(seq int) string {
	steps := strings.Split(p.steps, "\n")
	if seq < 1 || seq >= len(steps) {
		return "unknown message"
	}
	return steps[seq-1]
}
