package egress

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/policy/match"
)

// serveExplicit reads requests from a program that uses the proxy explicitly.
// The program sends plain HTTP and names the destination in each request.
func (p *Proxy) serveExplicit(c *conn) {
	if !p.keep(c) {
		return
	}
	defer p.leave(c)
	if !c.account.take(plainCost) {
		reset(c.Conn)
		p.recordConn(c, event.Refused, p.overBudget(layerRequest))
		return
	}
	if err := p.inner.put(&servedConn{Conn: c, c: c}); err != nil {
		return
	}
	<-c.done
	p.recordConn(c, event.Closed, c.why())
}

// explicitTarget finds the destination that a request to the proxy names.
func (f *flight) explicitTarget(r *http.Request) error {
	authority, port := r.URL.Host, "80"
	if r.Method == http.MethodConnect {
		authority, port = r.Host, ""
	}
	switch {
	case r.ProtoMajor != 1 || r.Method == "PRI":
		return refuse(layerRequest, "request", "requests to the proxy itself use HTTP/1.1")
	case authority == "" || r.URL.User != nil:
		return refuse(layerRequest, "request", "this is a proxy: a request names a host, as in CONNECT example.com:443 or GET http://example.com/")
	case r.Method != http.MethodConnect && r.URL.Scheme != "http":
		return refuse(layerRequest, "request", "a request to the proxy is for http://; for anything else there is CONNECT")
	}
	name := authority
	if h, n, err := net.SplitHostPort(authority); err == nil {
		name, port = h, n
	} else if strings.HasPrefix(name, "[") {
		name = strings.Trim(name, "[]")
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return refuse(layerRequest, "request", "the request names no port")
	}
	f.to = place{host: name, port: uint16(number)}
	if addr, err := netip.ParseAddr(name); err == nil {
		if f.to, err = f.c.p.placeOf(netip.AddrPortFrom(addr, f.to.port)); err != nil {
			return err
		}
		// A synthetic address in the request line also stands for the name, but
		// then the Host header would differ.
		if !f.to.literal && r.Method != http.MethodConnect {
			return refuse(layerRequest, "request", "the request names an address; write the name that it stands for")
		}
		return nil
	}
	h, err := match.NewHost(strings.TrimSuffix(name, "."))
	if err != nil || !h.Exact() {
		return refuse(layerRequest, "request", "the request names no host")
	}
	f.to.host = h.String()
	return nil
}

// connect turns a CONNECT request into a connection. From then on it is handled
// like one of a program that does not know the proxy.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request, f *flight) {
	c := p.newConn(f.c)
	c.proc, c.to = f.c.proc, f.to
	v, err := p.admit(c)
	if err != nil {
		p.deny(w, r, f, err)
		return
	}
	defer p.leave(c)
	defer c.account.close()
	var up net.Conn
	if v.opaque() {
		c.sent = p.unsent.add()
		defer c.sent()
		if up, err = p.dialFor(r.Context(), c.to, v); err != nil {
			p.recordConn(c, event.Failed, err)
			p.connectFailed(w, r, f, err)
			return
		}
		defer func() { _ = up.Close() }()
	}
	raw, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = raw.Close() }()
	_ = raw.SetDeadline(time.Time{})
	if n := buffered.Reader.Buffered(); n > 0 {
		c.ahead, _ = buffered.Peek(n)
		c.in.Add(int64(n))
	}
	if _, err := raw.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		return
	}
	if up != nil {
		p.tunnel(c, up)
		return
	}
	p.serveInspected(r.Context(), c)
}

func (p *Proxy) connectFailed(w http.ResponseWriter, r *http.Request, f *flight, err error) {
	if no, ok := err.(*refusal); ok { //nolint:errorlint // made by dialFor and not wrapped
		p.writeRefusal(w, r, f, no)
		return
	}
	p.writeUpstreamError(w, r, f, err.Error(), "")
}
