package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forkcell/forkcell/internal/egress/inspect"
	"github.com/forkcell/forkcell/internal/match"
	"github.com/forkcell/forkcell/internal/policy"
)

type contextKey int

const (
	connKey contextKey = iota
	flightKey
	allowedKey
)

// withConn lets handlers find the connection that a request came on.
func withConn(ctx context.Context, raw net.Conn) context.Context {
	for {
		if c, ok := raw.(*conn); ok {
			return context.WithValue(ctx, connKey, c)
		}
		under, ok := raw.(interface{ NetConn() net.Conn })
		if !ok {
			return ctx
		}
		raw = under.NetConn()
	}
}

// flight is a request on its way.
type flight struct {
	c      *conn
	start  time.Time
	to     place
	scheme string
	q      policy.Request
	// protocol is that of the entry that speaks for the path.
	protocol string
	// one says that it came in HTTP/1.
	one      bool
	endpoint *policy.Endpoint
	view     *view
	decision policy.Explanation
	// used are the credentials that it takes along.
	used   atomic.Pointer[[]string]
	cancel context.CancelCauseFunc

	// problem is what went wrong with the upstream.
	problem string
	status  atomic.Int32
	in, out atomic.Int64
	peer    atomic.Pointer[string]
	// stopped is why it ended after it was forwarded, nil if by itself.
	stopped atomic.Pointer[refusal]
}

// serveHTTP decides about one request and forwards it.
func (p *Proxy) serveHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey).(*conn)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	f := &flight{c: c, start: time.Now(), to: c.to, scheme: "http", cancel: cancel}
	if c.secure {
		f.scheme = "https"
	}
	f.q.Method, f.one = r.Method, r.ProtoMajor == 1
	if c.explicit {
		if err := f.explicitTarget(r); err != nil {
			p.deny(w, r, f, err)
			return
		}
		if r.Method == http.MethodConnect {
			p.connect(w, r, f)
			return
		}
	}
	select {
	case p.requests <- struct{}{}:
		defer func() { <-p.requests }()
	default:
		f.status.Store(http.StatusServiceUnavailable)
		p.deny(w, r, f, refuse(layerRequest, "request", "the cell has too many requests on their way"))
		return
	}
	out, err := p.examine(w, r.WithContext(ctx), f)
	if err != nil {
		p.deny(w, r, f, err)
		return
	}
	defer f.land()
	p.forward(w, out, f)
}

// examine makes the request to be forwarded, or says why there is none.
func (p *Proxy) examine(w http.ResponseWriter, r *http.Request, f *flight) (*http.Request, error) {
	if err := f.checkForm(r); err != nil {
		return nil, err
	}
	p.mu.RLock()
	f.view = f.c.view(f.to)
	p.mu.RUnlock()
	if f.view.opaque() {
		// An explicit proxy request for a host that is not inspected: the
		// proxy speaks for itself there, as with any other.
		return nil, f.opaqueRequest()
	}
	if err := f.canonical(r); err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	// Its values come with the end of the body.
	out.Trailer = r.Trailer
	done, err := p.read(w, r, f)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := f.inspect(r, out); err != nil {
		return nil, err
	}
	if err := p.launch(f, r.Header); err != nil {
		return nil, err
	}
	f.rewrite(out)
	if len(out.Header["Upgrade"]) > 0 && !p.anyMessage(f) {
		// Messages that are looked at are not compressed.
		delete(out.Header, "Sec-Websocket-Extensions")
	}
	if err := p.credentials(out, f); err != nil {
		f.land()
		return nil, err
	}
	return out, nil
}

// read makes sure that bodies that are held in memory are few, and that they
// come soon. What it returns is called when the request is decided.
func (p *Proxy) read(w http.ResponseWriter, r *http.Request, f *flight) (done func(), err error) {
	if r.Body == nil || r.Body == http.NoBody || !f.view.reads() && f.view.gen.Credentials == nil {
		return func() {}, nil
	}
	select {
	case p.reading <- struct{}{}:
	case <-r.Context().Done():
		return nil, errClosed
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(p.lim.Hello))
	return func() {
		_ = control.SetReadDeadline(time.Time{})
		<-p.reading
	}, nil
}

// opaqueRequest refuses a request where requests are not read.
func (f *flight) opaqueRequest() error {
	if !f.view.connection.Allowed {
		return &refusal{layer: layerEndpoint, Explanation: f.view.connection, hint: connectionHint(f.to, f.c.proc)}
	}
	return &refusal{
		layer:       layerRequest,
		Explanation: policy.Explanation{Rule: f.view.connection.Rule, Reason: "the endpoint is not inspected, so requests cannot be sent through the proxy; connect to it, or use CONNECT"},
		hint:        "protocol: rest",
	}
}

// misdirected is the refusal for another host than the connection's.
type misdirected struct{ refusal }

// checkForm refuses what could mean another request to somebody else.
func (f *flight) checkForm(r *http.Request) error {
	if r.ProtoMajor == 1 && r.ProtoMinor > 1 || r.ProtoMajor > 2 || r.Method == "PRI" {
		return refuse(layerRequest, "request", "this version of HTTP is not supported here")
	}
	if r.ProtoMajor == 1 && r.URL.Host != "" && !f.c.explicit {
		if r.URL.User != nil || r.URL.Scheme != f.scheme {
			return refuse(layerRequest, "request", "the address in the request line is not one of this connection")
		}
	}
	for _, host := range append([]string{r.Host}, r.Header["Host"]...) {
		if !f.to.is(host, f.scheme) {
			return &misdirected{*refuse(layerRequest, "request", "the request is for the host "+strconv.Quote(clip(host))+", the connection is to "+f.to.authority(f.scheme))}
		}
	}
	switch {
	case r.Method == http.MethodConnect:
		return refuse(layerRequest, "request", "CONNECT within a connection to a host")
	case r.Method == textMessage:
		return refuse(layerRequest, "request", "WEBSOCKET_TEXT is a word of policies, not a method")
	case r.URL.Path == "*" || r.URL.Opaque != "":
		return refuse(layerRequest, "request", "the request names no path")
	}
	// Some servers and frameworks take the path from these.
	for _, name := range []string{"X-Original-Url", "X-Rewrite-Url"} {
		if len(r.Header[name]) > 0 {
			return refuse(layerRequest, "request", "the header "+name+" could make another request of this one")
		}
	}
	return nil
}

// is reports whether a Host header names the place.
func (to place) is(host, scheme string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, defaultPort(scheme)
		if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
			name = name[1 : len(name)-1]
		}
	}
	if port != strconv.Itoa(int(to.port)) {
		return false
	}
	if to.literal {
		addr, err := netip.ParseAddr(name)
		return err == nil && addr.String() == to.host
	}
	return strings.EqualFold(strings.TrimSuffix(name, "."), to.host)
}

// authority is the place as a Host header names it.
func (to place) authority(scheme string) string {
	port := strconv.Itoa(int(to.port))
	if port != defaultPort(scheme) {
		return net.JoinHostPort(to.host, port)
	}
	if strings.Contains(to.host, ":") {
		return "[" + to.host + "]"
	}
	return to.host
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// canonical finds the one form of the path and the query.
func (f *flight) canonical(r *http.Request) error {
	// A URL keeps the path's spelling only where it is not the usual one.
	raw := r.URL.RawPath
	if raw == "" {
		raw = r.URL.EscapedPath()
	}
	if raw == "" {
		raw = "/"
	}
	path, err := match.URLPath(escapeOdd(raw), f.view.encodedSlash())
	if err != nil {
		return refuse(layerRequest, "request", err.Error())
	}
	f.q.Path = path
	f.endpoint = f.view.speaking(path)
	if f.endpoint != nil {
		f.protocol = f.endpoint.Protocol.String()
	}
	for i := range len(r.URL.RawQuery) {
		if b := r.URL.RawQuery[i]; b <= ' ' || b >= 0x7f || b == '#' {
			return refuse(layerRequest, "request", "the query holds a control character, a space or a byte that is not ASCII")
		}
	}
	f.q.Query, err = url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		// A semicolon, or a percent sign without two digits: servers differ.
		return refuse(layerRequest, "request", "the query could be read in two ways")
	}
	return nil
}

// escapeOdd writes characters that no address may hold as escapes, so that rules
// and servers see one form of them, however they were sent.
func escapeOdd(path string) string {
	const odd = "\"<>^`{|}[]"
	if !strings.ContainsAny(path, odd) {
		return path
	}
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; strings.IndexByte(odd, c) >= 0 {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c), 16)))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// inspect reads the content where rules are about it. What was read is what is
// sent.
func (f *flight) inspect(r, out *http.Request) error {
	if !f.view.reads() {
		return nil
	}
	want := f.view.inspection(f.q)
	if want.Protocol == policy.TCP {
		return nil
	}
	var body io.Reader
	if r.Body != nil && r.Body != http.NoBody {
		body = r.Body
	}
	got, err := inspect.HTTP(want.Protocol, inspect.Request{
		Method: r.Method, Path: f.q.Path, RawQuery: r.URL.RawQuery, Header: r.Header,
		ProtoMajor: r.ProtoMajor, Body: body, MaxBody: want.MaxBody,
	})
	var refused *inspect.Refusal
	switch {
	case errors.As(err, &refused):
		return refuse(layerRequest, "request", refused.Reason)
	case err != nil:
		return refuse(layerRequest, "request", "the body could not be read")
	}
	f.q.Facts = &got.Facts
	if want.Protocol != policy.GRPC {
		out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, 0, nil
		if len(got.Body) > 0 {
			out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(got.Body)), int64(len(got.Body))
		}
		// Trailers of a body that was read as a whole have said nothing.
		out.Trailer = nil
	}
	return nil
}

// launch decides about a request, and notes an allowed one so that a new policy
// can end it.
func (p *Proxy) launch(f *flight, h http.Header) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return errClosed
	}
	f.view = f.c.view(f.to)
	f.decision = f.view.explain(f.q)
	if err := f.upgrade(h); err != nil {
		return err
	}
	if f.decision.Allowed {
		f.decision = f.readOtherwise(h)
	}
	if !f.decision.Allowed {
		return &refusal{layer: layerRequest, Explanation: f.decision, hint: requestHint(f)}
	}
	f.c.mu.Lock()
	f.c.flights[f] = struct{}{}
	f.c.mu.Unlock()
	return nil
}

// readOtherwise asks again about what servers might make of the request: with
// the methods that some frameworks take from headers, and with a path whose
// escapes are resolved further than the standard equates. All of them must be
// allowed, and what would only be recorded is.
func (f *flight) readOtherwise(h http.Header) policy.Explanation {
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		for _, method := range h[name] {
			q := f.q
			q.Method = strings.ToUpper(strings.TrimSpace(method))
			if e := f.view.explain(q); !e.Allowed || e.Audited {
				e.Reason = "the header " + name + " makes another request of this one: " + e.Reason
				return e
			}
		}
	}
	if loose := unescapeDelimiters(f.q.Path); loose != f.q.Path {
		q := f.q
		q.Path = loose
		if e := f.view.explain(q); !e.Allowed || e.Audited {
			return e
		}
	}
	return f.decision
}

// unescapeDelimiters resolves the escapes of characters that need none in a
// path. The standard lets "%40" and "@" be different, most servers do not.
func unescapeDelimiters(path string) string {
	const delimiters = "!$&'()*+,=:@"
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			v, err := strconv.ParseUint(path[i+1:i+3], 16, 8)
			if err == nil && strings.IndexByte(delimiters, byte(v)) >= 0 {
				b.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// land forgets a request that has ended.
func (f *flight) land() {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	delete(f.c.flights, f)
}

// reconsider cuts a request that a new generation does not allow, or that took a
// credential along which no longer goes there.
func (f *flight) reconsider(g *Generation) {
	v := g.view(f.c.proc, f.to.host, f.to.port)
	e := v.explain(f.q)
	if v.opaque() {
		e.Allowed = false
	}
	if e.Allowed && !g.covers(f) {
		e = policy.Explanation{Rule: "credentials", Reason: "the new policy does not let the request's credential go there"}
	}
	if !e.Allowed {
		cut := &refusal{layer: layerRequest, Explanation: e, hint: requestHint(f)}
		f.stopped.Store(cut)
		f.cancel(cut)
	}
}

// covers reports whether every credential that a request took along may still go
// there.
func (g *Generation) covers(f *flight) bool {
	used := f.used.Load()
	if used == nil {
		return true
	}
	for _, name := range *used {
		ok := false
		for i := range g.Policy.Credentials {
			cr := &g.Policy.Credentials[i]
			for j := range cr.Endpoints {
				ok = ok || cr.Name == name && cr.Endpoints[j].Covers(f.to.host, f.to.port, f.q.Path)
			}
		}
		if !ok {
			return false
		}
	}
	return true
}
