package gvisor

import (
	"net"
	"net/netip"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// guestOrigin knows where the connections of a guest were to go, and not whose they
// are: every socket belongs to the runtime. A rule for named programs so matches none.
type guestOrigin struct{ driver.Origin }

// Opener implements driver.Origin.
func (guestOrigin) Opener(net.Conn) (driver.Program, error) { return driver.Program{}, nil }

// Asker implements driver.Origin.
func (guestOrigin) Asker(netip.AddrPort) (driver.Program, error) { return driver.Program{}, nil }
