package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"github.com/forkcell/forkcell/internal/network/egress/inspect"
	"github.com/forkcell/forkcell/internal/policy"
)

type contextKey int

const (
	connKey contextKey = iota
	flightKey
)

// withConn stores the connection in the context of its requests.
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

// flight is a request that is being handled.
type flight struct {
	c      *conn
	start  time.Time
	to     place
	scheme string
	q      policy.Request
	// account is the memory that the request holds; holds reports that it
	// includes what is read of the body.
	account account
	holds   atomic.Bool
	// protocol is that of the endpoint that applies to the path.
	protocol string
	// one reports that the request came in HTTP/1.
	one      bool
	endpoint *policy.Endpoint
	view     *view
	decision policy.Explanation
	// used are the names of the credentials in the request.
	used   atomic.Pointer[[]string]
	cancel context.CancelCauseFunc

	// searched reports that the answer is searched for values of credentials, which
	// its host may have got.
	searched bool
	// part is the range of bytes that the program asks for, if the upstream is asked
	// for more; else nil.
	part *part

	// problem describes the failure of the upstream; "" without one.
	problem string
	status  atomic.Int32
	in, out atomic.Int64
	peer    atomic.Pointer[string]
	// stopped is why the request was ended after it was forwarded, nil if it
	// ended normally.
	stopped atomic.Pointer[refusal]
}

// withTrace returns the request with a trace that stores the address of the
// upstream in the flight.
func (f *flight) withTrace(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		addr := i.Conn.RemoteAddr().String()
		f.peer.Store(&addr)
	}}))
}

// serveHTTP decides about one request and forwards it.
func (p *Proxy) serveHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey).(*conn)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	c.unhandled.Store(false)
	c.header.end()
	if r.ProtoMajor == 2 {
		defer c.account.give(streamCost)
	}
	// Close waits for the request, so that no event follows it.
	if !p.enter(func() { p.wg.Add(1) }) {
		panic(http.ErrAbortHandler)
	}
	defer p.wg.Done()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	f := &flight{c: c, start: time.Now(), to: c.to, scheme: c.scheme(), cancel: cancel}
	ctx = context.WithValue(ctx, flightKey, f)
	f.q.Scheme, f.q.Method, f.one = f.scheme, r.Method, r.ProtoMajor == 1
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
		p.deny(w, r, f, refuse(layerRequest, "request", "the cell has too many requests in progress"))
		return
	}
	f.account.b = &p.memory
	defer f.account.close()
	if !p.memory.wait(ctx, f.cost(), p.lim.Hello) {
		f.status.Store(http.StatusServiceUnavailable)
		p.deny(w, r, f, p.overBudget(layerRequest))
		return
	}
	f.account.held = f.cost()
	out, err := p.examine(w, r.WithContext(ctx), f)
	if err != nil {
		p.deny(w, r, f, err)
		return
	}
	defer f.remove()
	p.forward(w, out, f)
}

// cost returns the memory that a request holds besides header and body.
func (f *flight) cost() int64 {
	if f.one {
		return requestCost
	}
	return requestCost + windowCost
}

// examine returns the request to be forwarded, or the reason for refusing it.
func (p *Proxy) examine(w http.ResponseWriter, r *http.Request, f *flight) (*http.Request, error) {
	if err := f.checkForm(r); err != nil {
		return nil, err
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &heldBody{r.Body, f}
		f.holds.Store(true)
		defer f.holds.Store(false)
	}
	p.mu.RLock()
	f.view = f.c.view(f.to)
	p.mu.RUnlock()
	if f.view.opaque() {
		// This is an explicit proxy request for a host that is not inspected.
		return nil, f.opaqueRequest()
	}
	if err := f.view.checkScheme(f.scheme); err != nil {
		return nil, err
	}
	if err := f.canonical(r); err != nil {
		return nil, err
	}
	// rewrite replaces what Clone would copy besides the header.
	out := r.WithContext(r.Context())
	out.Header = r.Header.Clone()
	announce(out, r)
	done, err := p.read(w, r, f)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := f.inspect(r, out); err != nil {
		return nil, err
	}
	if err := p.register(f, r.Header); err != nil {
		return nil, err
	}
	f.rewrite(out)
	if len(out.Header["Upgrade"]) > 0 && !p.extends(f) {
		delete(out.Header, "Sec-Websocket-Extensions")
	}
	err = p.credentials(out, f)
	if err == nil {
		err = checkTrailers(out)
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return out, nil
}

// maxSearched is the length of the longest body that package credential reads
// as a whole.
const maxSearched = 1 << 20

// read limits the number of bodies that are held in memory and the time to
// receive them. done is called when the request is decided.
func (p *Proxy) read(w http.ResponseWriter, r *http.Request, f *flight) (done func(), err error) {
	searched := f.view.gen.secrets() != nil && r.ContentLength > 0 && r.ContentLength <= maxSearched
	if r.Body == nil || r.Body == http.NoBody || !f.view.reads() && !searched {
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

// opaqueRequest refuses a request to an endpoint that is not inspected.
func (f *flight) opaqueRequest() error {
	if !f.view.connection.Allowed {
		return f.view.refuse(f.to, f.c.proc)
	}
	return &refusal{
		layer:       layerRequest,
		Explanation: policy.Explanation{Rule: f.view.connection.Rule, Reason: "the endpoint is not inspected, so requests cannot be sent through the proxy; connect to it, or use CONNECT"},
		hint:        "protocol: rest",
	}
}

// inspect reads the content where rules depend on it. The bytes that were read
// are the bytes that are sent.
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
	var over *refusal
	switch {
	case errors.As(err, &refused):
		return refuse(layerRequest, "request", refused.Reason)
	case errors.As(err, &over):
		f.status.Store(http.StatusServiceUnavailable)
		return over
	case err != nil:
		return refuse(layerRequest, "request", "the body could not be read")
	}
	f.q.Facts = &got.Facts
	if want.Protocol != policy.GRPC {
		out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, 0, nil
		if len(got.Body) > 0 {
			open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(got.Body)), nil }
			out.Body, _ = open()
			out.GetBody, out.ContentLength = open, int64(len(got.Body))
		}
		// Trailers of a body that was read as a whole were not checked.
		out.Trailer = nil
	}
	return nil
}

// register decides about a request, and adds an allowed one to its connection so
// that a new policy can end it.
func (p *Proxy) register(f *flight, h http.Header) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return errClosed
	}
	// A new generation may have come while the body was read.
	f.view = f.c.view(f.to)
	f.endpoint = f.view.endpointFor(f.q.Path)
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
	f.searched = f.view.gen.Credentials.Echo(f.to.host) != nil
	f.c.mu.Lock()
	f.c.flights[f] = struct{}{}
	f.c.mu.Unlock()
	p.watch()
	return nil
}

// remove takes a request that has ended from its connection.
func (f *flight) remove() {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	delete(f.c.flights, f)
}

// reconsider ends a request that a new generation does not allow, or whose
// credential may no longer be sent there.
func (f *flight) reconsider(g *Generation) {
	v := g.view(f.c.proc, f.to.host, f.to.port)
	e := v.explain(f.q)
	if v.opaque() {
		e.Allowed = false
	}
	if e.Allowed && !g.covers(f) {
		e = policy.Explanation{Rule: "credentials", Reason: "the new policy does not let the request's credential go there"}
	}
	if e.Allowed && !f.searched && g.Credentials.Echo(f.to.host) != nil {
		e = policy.Explanation{Rule: "credentials", Reason: "the new policy lets a credential go to the host, and the answer to this request is not searched for it"}
	}
	if !e.Allowed {
		cut := &refusal{layer: layerRequest, policy: g.Hash, Explanation: e, hint: requestHint(f)}
		f.stopped.Store(cut)
		f.cancel(cut)
	}
}

// use records the names of credentials that a request, or a message of it, holds.
func (f *flight) use(names []string) {
	if old := f.used.Load(); old != nil {
		names = slices.Concat(*old, names)
		slices.Sort(names)
		names = slices.Compact(names)
	}
	f.used.Store(&names)
}

// covers reports whether every credential in a request may still be sent there.
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
