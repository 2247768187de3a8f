package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/forkcell/forkcell/internal/network/egress/dial"
)

// Dials returns a Dialer that uses a dial.Dialer.
func Dials(d *dial.Dialer) Dialer { return dialer{d} }

type dialer struct{ d *dial.Dialer }

func (w dialer) Dial(ctx context.Context, host string, port uint16, allowed []netip.Prefix) (net.Conn, error) {
	c, _, err := w.d.Dial(ctx, host, port, allowed)
	if errors.Is(err, dial.ErrRefused) || errors.Is(err, dial.ErrHost) {
		return nil, fmt.Errorf("%w: %w", ErrDestination, err)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
