package egress

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/forkcell/forkcell/internal/network/egress/authority"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

// rewrite turns a program's request into the one that is sent.
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

// oneHop removes headers that are only for the hop between program and proxy.
// It runs before credentials are added, so that a program cannot have one
// removed.
func oneHop(h http.Header) {
	upgrade, trailers := h["Upgrade"], slices.ContainsFunc(h["Te"], func(v string) bool { return strings.Contains(v, "trailers") })
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range [...]string{
		"Connection", "Host", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", policyHeader,
	} {
		delete(h, name) // all of them are in canonical form
	}
	if len(upgrade) > 0 {
		h["Upgrade"], h["Connection"] = upgrade, []string{"Upgrade"}
	}
	if trailers {
		h["Te"] = []string{"trailers"}
	}
}

// target returns where a request goes, for credentials.
func (f *flight) target() credential.Target {
	return credential.Target{Host: f.to.host, Port: f.to.port, Path: f.q.Path, Secure: f.scheme == policy.HTTPS}
}

// credentials puts secrets into the request, as the last step before sending.
func (p *Proxy) credentials(out *http.Request, f *flight) error {
	set := f.view.gen.Credentials
	if set == nil {
		return nil
	}
	to := f.target()
	if f.searched {
		askPlain(out.Header) // before signing
		f.part = widen(out, p.echo(f)().Longest())
	}
	body := out.Body
	if f.view.gen.secrets() == nil {
		// No placeholder can be in the body: do not wait for it.
		out.Body = http.NoBody
	}
	applied, err := set.Apply(out.Context(), out, to, f.endpoint, time.Now())
	if f.view.gen.secrets() == nil {
		out.Body = body
	}
	var over *refusal
	switch {
	case errors.As(err, &over):
		f.status.Store(http.StatusServiceUnavailable)
		return over
	case err != nil:
		return p.misuse(f, err)
	}
	if len(applied.Used) > 0 {
		f.use(applied.Used)
	}
	// A newer generation has not checked the credentials that were used.
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.gen != f.view.gen && !p.gen.covers(f) {
		return refuse(layerCredential, "credentials", "the new policy does not let the request's credential go there")
	}
	return nil
}

// misuse records a finding if err is a misused placeholder. Other errors of
// credentials also deny the request.
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

// forward sends a request that passed every check.
func (p *Proxy) forward(w http.ResponseWriter, out *http.Request, f *flight) {
	defer p.recordRequest(f)
	if out.Body != nil && out.Body != http.NoBody {
		out.Body = &sentBody{countedReader{ReadCloser: out.Body, n: &f.in}, p, f}
	}
	switch {
	case p.renews(f):
		p.renew(w, out, f)
	case len(out.Header["Upgrade"]) > 0:
		p.upgrades.ServeHTTP(final{w}, out)
	default:
		p.exchange(w, out)
	}
}

type countedReader struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// sentBody is the body of a request. Placeholders in a long body are found while it
// is sent; then the request is cut.
type sentBody struct {
	countedReader
	p *Proxy
	f *flight
}

func (s *sentBody) Read(b []byte) (int, error) {
	n, err := s.countedReader.Read(b)
	var astray *credential.MisuseError
	if errors.As(err, &astray) && s.f.stopped.Load() == nil {
		no := s.p.misuse(s.f, err)
		s.f.stopped.Store(no)
		s.f.cancel(no)
	}
	return n, err
}

// receivedBody is the body of an answer. Once the request is cut, reading fails
// before the proper end, although the upstream may still write one.
type receivedBody struct {
	countedReader
	p   *Proxy
	res *http.Response
	f   *flight
}

func (r *receivedBody) Read(b []byte) (int, error) {
	n, err := r.countedReader.Read(b)
	if no := r.f.stopped.Load(); no != nil {
		return 0, no
	}
	return n, err
}

// Close masks credentials in the trailers, which closing completes.
func (r *receivedBody) Close() error {
	err := r.countedReader.Close()
	if r.f.searched {
		r.p.echo(r.f)().Header(r.res.Trailer)
	}
	return err
}

// final is where an answer goes without the informational ones before it: nothing has
// checked their headers.
type final struct{ http.ResponseWriter }

func (w final) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w final) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// newUpgrades returns the proxy for requests that switch the protocol. It
// forwards the program's header; httputil has removed the fields for one hop.
func (p *Proxy) newUpgrades() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
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
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ModifyResponse: p.response,
		ErrorHandler:   p.answerFailure,
	}
}

// response checks an answer before it goes to the program.
func (p *Proxy) response(res *http.Response) error {
	f := flightOf(res.Request.Context())
	if no := f.stopped.Load(); no != nil {
		return no // an answer to a request that was cut
	}
	f.status.Store(int32(res.StatusCode))
	// Only the proxy may report what the policy did, and the answer must not
	// offer the program another way to the host.
	res.Header.Del(policyHeader)
	res.Header.Del("Alt-Svc")
	if f.searched {
		p.echo(f)().Header(res.Header)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return p.takeOverWebsocket(res, f)
	}
	if len(res.Trailer) > 0 {
		// HTTP/1.1 has trailers only where the length is not announced.
		res.Header.Del("Content-Length")
	}
	if f.searched {
		if err := p.search(res, f); err != nil {
			return err
		}
	}
	if res.Body == http.NoBody {
		return nil
	}
	res.Body = &receivedBody{countedReader{ReadCloser: res.Body, n: &f.out}, p, res, f}
	return nil
}

// answerFailure answers a request whose upstream did not.
func (p *Proxy) answerFailure(w http.ResponseWriter, r *http.Request, err error) {
	f := flightOf(r.Context())
	cut := f.stopped.Load()
	switch cause := context.Cause(r.Context()); {
	case cut != nil, errors.As(cause, &cut):
		p.writeRefusal(w, r, f, cut)
		return
	case cause != nil:
		// The program has gone away.
		panic(http.ErrAbortHandler)
	case errors.As(err, &cut):
		f.status.Store(http.StatusServiceUnavailable)
		f.stopped.Store(cut)
		p.writeRefusal(w, r, f, cut)
		return
	case errors.Is(err, ErrDestination):
		cut = refuse(layerDestination, f.decision.Rule, err.Error())
		f.stopped.Store(cut)
		p.writeRefusal(w, r, f, cut)
		return
	}
	f.status.Store(http.StatusBadGateway)
	if p.pool.wantsCertificate(r.URL.Host, err) {
		f.problem = "the upstream wants a client certificate"
		p.writeUpstreamError(w, r, f, "the upstream wants a client certificate, and the proxy has none: "+err.Error(), "tls: skip")
		return
	}
	why, detail := reason(err)
	f.problem = why
	if detail != "" {
		why += ": " + p.echo(f)().Text(detail)
	}
	p.writeUpstreamError(w, r, f, why, "")
}

// reason returns what an upstream did wrong, and a detail for the program. The
// detail may quote what the upstream sent, even a secret that it reflects, so
// it stays out of events.
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
