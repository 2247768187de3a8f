package egress

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forkcell/forkcell/internal/egress/authority"
	"github.com/forkcell/forkcell/internal/egress/credential"
)

// rewrite makes of a program's request the one that is sent.
func (f *flight) rewrite(out *http.Request) {
	path, err := url.PathUnescape(f.q.Path)
	if err != nil {
		path = f.q.Path // not reached: the canonical form has valid escapes only
	}
	out.URL = &url.URL{
		Scheme: f.scheme, Host: net.JoinHostPort(f.to.host, strconv.Itoa(int(f.to.port))),
		Path: path, RawPath: f.q.Path, RawQuery: out.URL.RawQuery,
	}
	out.Host = f.to.authority(f.scheme)
	out.RequestURI = ""
	oneHop(out.Header)
}

// oneHop removes what is between the program and the proxy only. It is done
// before credentials go in, so that a program cannot have one taken out again.
func oneHop(h http.Header) {
	upgrade, trailers := h["Upgrade"], slices.ContainsFunc(h["Te"], func(v string) bool { return strings.Contains(v, "trailers") })
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Host", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", policyHeader,
	} {
		delete(h, http.CanonicalHeaderKey(name))
	}
	if len(upgrade) > 0 {
		h["Upgrade"], h["Connection"] = upgrade, []string{"Upgrade"}
	}
	if trailers {
		h["Te"] = []string{"trailers"}
	}
}

// credentials puts secrets into the request, the last thing before it is sent.
func (p *Proxy) credentials(out *http.Request, f *flight) error {
	set := f.view.gen.Credentials
	if set == nil {
		return nil
	}
	to := credential.Target{Host: f.to.host, Port: f.to.port, Path: f.q.Path}
	body := out.Body
	if f.view.gen.secrets() == nil {
		// Nothing could go into the body: it is not waited for.
		out.Body = http.NoBody
	}
	applied, err := set.Apply(out.Context(), out, to, f.endpoint, time.Now())
	if f.view.gen.secrets() == nil {
		out.Body = body
	}
	if err != nil {
		return p.misuse(f, err)
	}
	f.use(applied.Used)
	// A generation that came meanwhile has not seen what was used.
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.gen != f.view.gen && !p.gen.covers(f) {
		return refuse(layerCredential, "credentials", "the new policy does not let the request's credential go there")
	}
	return nil
}

// misuse makes a finding of a placeholder that went astray. Other errors of
// credentials deny the request just the same.
func (p *Proxy) misuse(f *flight, err error) *refusal {
	var astray *credential.MisuseError
	if !errors.As(err, &astray) {
		return refuse(layerCredential, "credentials", err.Error())
	}
	p.recordMisuse(f, astray)
	rule := "credentials"
	if astray.Credential != "" {
		rule += "." + astray.Credential
	}
	return refuse(layerCredential, rule, astray.Error())
}

// forward sends a request that every check has passed.
func (p *Proxy) forward(w http.ResponseWriter, out *http.Request, f *flight) {
	defer p.recordRequest(f)
	if out.Body != nil && out.Body != http.NoBody {
		out.Body = &sent{counted{ReadCloser: out.Body, n: &f.in}, p, f}
	}
	ctx := httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		addr := i.Conn.RemoteAddr().String()
		f.peer.Store(&addr)
	}})
	ctx = context.WithValue(ctx, flightKey, f)
	p.fwd.ServeHTTP(&answerWriter{ResponseWriter: w, one: f.one}, out.WithContext(ctx))
}

// answerWriter passes an answer on as it comes.
//
// It drops informational answers: httputil passes them on while the server may
// be asking for the request's body, both on one buffer without a lock (Go 1.26),
// which an upstream could use. The server's own 100 is not affected.
//
// Where the length is known it flushes every part, as httputil does for answers
// of unknown length. With HTTP/1.1 the last part is known to be the last, and
// the server sends it by itself: so a short answer is one piece.
type answerWriter struct {
	http.ResponseWriter
	known, one bool
	left       int64
}

// Unwrap lets the server's other abilities be found.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header of an answer.
func (w *answerWriter) WriteHeader(code int) {
	if code >= 100 && code < 200 {
		return
	}
	if n, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64); err == nil {
		w.known, w.left = true, n
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write writes a part of an answer.
func (w *answerWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.left -= int64(n)
	if w.known && err == nil && (w.left > 0 || !w.one) {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	return n, err
}

type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// sent is the body of a request. Placeholders in a long one are found while it
// is sent; then the request is cut.
type sent struct {
	counted
	p *Proxy
	f *flight
}

func (s *sent) Read(b []byte) (int, error) {
	n, err := s.counted.Read(b)
	var astray *credential.MisuseError
	if errors.As(err, &astray) && s.f.stopped.Load() == nil {
		no := s.p.misuse(s.f, err)
		s.f.stopped.Store(no)
		s.f.cancel(no)
	}
	return n, err
}

// received is the body of an answer. Once the request is cut it has no more and
// no proper end, although the upstream, told of the end, may still write one.
type received struct {
	counted
	f *flight
}

func (r *received) Read(b []byte) (int, error) {
	n, err := r.counted.Read(b)
	if no := r.f.stopped.Load(); no != nil {
		return 0, no
	}
	return n, err
}

func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey).(*flight)
	return f
}

func (p *Proxy) newForwarder() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		// The header is what the program sent; httputil has removed what is for
		// one hop only.
		Rewrite: func(r *httputil.ProxyRequest) {
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if v, ok := r.In.Header[name]; ok {
					r.Out.Header[name] = v
				}
			}
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			r.Out.Trailer = r.In.Trailer
		},
		Transport:      &p.pool,
		BufferPool:     &buffers{},
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ModifyResponse: p.response,
		ErrorHandler:   p.failed,
	}
}

type buffers struct{ sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte {
	if v, ok := b.Pool.Get().(*[bufferSize]byte); ok {
		return v[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(v []byte) {
	if len(v) == bufferSize {
		b.Pool.Put((*[bufferSize]byte)(v))
	}
}

// response looks at an answer before it goes to the program.
func (p *Proxy) response(res *http.Response) error {
	f := flightOf(res.Request.Context())
	f.status.Store(int32(res.StatusCode))
	// Only the proxy says what the policy did, and there is no other way to a
	// host than this one.
	res.Header.Del(policyHeader)
	res.Header.Del("Alt-Svc")
	if res.StatusCode == http.StatusSwitchingProtocols {
		return p.switched(res, f)
	}
	if len(res.Trailer) > 0 {
		// HTTP/1.1 has trailers only where the length is not told before.
		res.Header.Del("Content-Length")
	}
	res.Body = &received{counted{ReadCloser: res.Body, n: &f.out}, f}
	return nil
}

// failed answers for an upstream that did not.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	f := flightOf(r.Context())
	var cut *refusal
	switch cause := context.Cause(r.Context()); {
	case errors.As(cause, &cut):
		p.refused(w, r, f, cut)
		return
	case cause != nil:
		// The program has gone away.
		panic(http.ErrAbortHandler)
	case errors.Is(err, ErrDestination):
		cut = refuse(layerDestination, f.decision.Rule, err.Error())
		f.stopped.Store(cut)
		p.refused(w, r, f, cut)
		return
	}
	f.status.Store(http.StatusBadGateway)
	if p.pool.wantsCertificate(r.URL.Host, err) {
		f.problem = "the upstream wants a client certificate"
		p.broken(w, r, f, "the upstream wants a client certificate, and the proxy has none: "+err.Error(), "tls: skip")
		return
	}
	why, detail := reason(err)
	f.problem = why
	if detail != "" {
		why += ": " + detail
	}
	p.broken(w, r, f, why, "")
}

// reason says what an upstream did wrong, and in detail for the program. Details
// may quote what the upstream sent, a secret among it if it reflects one: they
// stay out of events.
func reason(err error) (why, detail string) {
	var verify *authority.VerifyError
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &verify):
		return "the upstream's certificate is not valid: " + verify.Err.Error(), ""
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial":
		return "the upstream cannot be reached: " + err.Error(), ""
	case errors.Is(err, context.DeadlineExceeded):
		return "the upstream does not answer in time", ""
	}
	return "the upstream did not answer as it should", err.Error()
}
