package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/network/egress/authority"
)

// pool keeps the connections of one cell to upstreams. Connections that were
// dialled under different rules for addresses are kept apart.
type pool struct {
	p    *Proxy
	mu   sync.Mutex
	each map[string]*http.Transport
	// asked holds the upstreams that have requested a client certificate.
	asked map[string]bool
	// sessions resume TLS with upstreams.
	sessions tls.ClientSessionCache
	links    links
}

// RoundTrip sends a request.
func (o *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	f := flightOf(r.Context())
	// A program that uses HTTP/1.1 gets it upstream too, as without the proxy;
	// only HTTP/1.1 has upgrades.
	t := o.transport(f.view.allowed(), f.one)
	if plain(r, f) {
		return o.send(r, f, t)
	}
	return t.RoundTrip(f.withTrace(r))
}

func (o *pool) transport(allowed []netip.Prefix, one bool) *http.Transport {
	key := poolKey(allowed, one)
	o.mu.Lock()
	defer o.mu.Unlock()
	if t, ok := o.each[key]; ok {
		return t
	}
	if o.each == nil {
		o.each = map[string]*http.Transport{}
		o.sessions = tls.NewLRUClientSessionCache(0)
	}
	t := o.newTransport(slices.Clone(allowed), one)
	o.each[key] = t
	return t
}

func poolKey(allowed []netip.Prefix, one bool) string {
	if len(allowed) == 0 {
		return strconv.FormatBool(one)
	}
	return fmt.Sprint(allowed, one)
}

func (o *pool) newTransport(allowed []netip.Prefix, one bool) *http.Transport {
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, err
		}
		return o.dialCounted(func() (net.Conn, error) { return o.p.cfg.Dialer.Dial(ctx, host, uint16(number), allowed) })
	}
	protocols := []string{"h2", "http/1.1"}
	if one {
		protocols = protocols[1:]
	}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, o.p.lim.Dial)
			defer cancel()
			return dial(ctx, network, addr)
		},
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, o.p.lim.Dial)
			defer cancel()
			raw, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			c, err := o.startTLS(ctx, raw, addr, protocols)
			if err != nil {
				_ = raw.Close()
				return nil, err
			}
			return c, nil
		},
		ForceAttemptHTTP2:      !one,
		HTTP2:                  &http.HTTP2Config{MaxReceiveBufferPerStream: windowCost},
		DisableCompression:     true,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        30 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: answerBytes,
		ReadBufferSize:         16 << 10,
	}
}

func (o *pool) startTLS(ctx context.Context, raw net.Conn, addr string, protocols []string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	config, err := authority.UpstreamConfig(host, o.p.cfg.Roots, nil)
	if err != nil {
		return nil, err
	}
	config.NextProtos = protocols
	o.mu.Lock()
	config.ClientSessionCache = o.sessions
	o.mu.Unlock()
	// An upstream that requests a certificate may not require it. One that does
	// sends an alert, with TLS 1.3 only after the handshake, where it may get
	// lost. So the pool remembers which upstreams requested one.
	c, err := authority.Handshake(ctx, raw, config, func() { o.note(addr) })
	if err != nil {
		return nil, err
	}
	return c, nil
}

// maxRemembered bounds the number of remembered upstreams.
const maxRemembered = 1024

func (o *pool) note(addr string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked == nil {
		o.asked = map[string]bool{}
	}
	if len(o.asked) < maxRemembered {
		o.asked[addr] = true
	}
}

// wantsCertificate reports whether an upstream probably failed because it
// requires a client certificate.
func (o *pool) wantsCertificate(addr string, err error) bool {
	var verify *authority.VerifyError
	var dial *net.OpError
	if errors.As(err, &verify) || errors.As(err, &dial) && dial.Op == "dial" {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked[addr] || authority.WantsClientCertificate(err)
}

// reset closes every idle connection.
func (o *pool) reset() {
	o.mu.Lock()
	old := o.each
	o.each = nil
	o.mu.Unlock()
	for _, t := range old {
		t.CloseIdleConnections()
	}
	o.links.reset()
}
