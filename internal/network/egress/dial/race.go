package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// interleave keeps the resolver's order within a family and alternates the
// families, so that a broken family costs one attempt and not all of them.
func interleave(in []netip.AddrPort) []netip.AddrPort {
	var one, two []netip.AddrPort
	for _, a := range in {
		if a.Addr().Is4() == in[0].Addr().Is4() {
			one = append(one, a)
		} else {
			two = append(two, a)
		}
	}
	out := make([]netip.AddrPort, 0, len(in))
	for i := range max(len(one), len(two)) {
		if i < len(one) {
			out = append(out, one[i])
		}
		if i < len(two) {
			out = append(out, two[i])
		}
	}
	return out
}

type control = func(network, address string, c syscall.RawConn) error

// race starts with the first target. The next one follows when the previous one
// has failed or is slow. The first connection wins, the others are closed.
func (d *Dialer) race(ctx context.Context, targets []netip.AddrPort, guard func(netip.AddrPort) control) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	// The buffer has room for all, so that late goroutines end without a
	// receiver.
	results := make(chan result, len(targets))
	attempt := func(at netip.AddrPort) {
		conn, err := dialOne(ctx, at, guard(at))
		results <- result{conn, err}
	}
	stagger := orDefault(d.Stagger, defaultStagger)
	timer := time.NewTimer(stagger)
	defer timer.Stop()
	go attempt(targets[0])
	started, running := 1, 1
	next := func() {
		if started < len(targets) {
			go attempt(targets[started])
			started++
			running++
			timer.Reset(stagger)
		}
	}
	var errs []error
	for running > 0 {
		select {
		case <-timer.C:
			next()
		case r := <-results:
			running--
			if r.err == nil {
				go func() {
					for range running {
						if late := <-results; late.conn != nil {
							_ = late.conn.Close()
						}
					}
				}()
				return r.conn, nil
			}
			errs = append(errs, r.err)
			if ctx.Err() == nil {
				next()
			}
		}
	}
	return nil, errors.Join(errs...)
}

func dialOne(ctx context.Context, at netip.AddrPort, guard control) (net.Conn, error) {
	network := "tcp4"
	if at.Addr().Is6() {
		network = "tcp6"
	}
	nd := net.Dialer{Control: guard}
	// Connect as an ordinary client does.
	nd.SetMultipathTCP(false)
	return nd.DialContext(ctx, network, at.String())
}
