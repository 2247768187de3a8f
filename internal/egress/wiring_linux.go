package egress

import (
	"net"

	"github.com/forkcell/forkcell/internal/capture/origin"
)

// Captured returns Config.Destination and Config.Attribute for connections that
// package capture brings. Also says by which other paths rules may list an
// executable; it may be nil.
func Captured(a *origin.Attributor, also func(binary string) []string) (func(net.Conn) (Destination, error), func(net.Conn) (Process, error)) {
	destination := func(c net.Conn) (Destination, error) {
		d, err := origin.DestinationOf(c)
		return Destination{Addr: d.Addr, Explicit: d.Explicit}, err
	}
	attribute := func(c net.Conn) (Process, error) {
		found, err := a.Of(c)
		if err != nil {
			return Process{}, err
		}
		p := Process{PID: found.PID, Binary: found.Binary, Untrusted: !found.Trusted()}
		if also != nil && found.Trusted() {
			p.Also = also(found.Binary)
		}
		return p, nil
	}
	return destination, attribute
}
