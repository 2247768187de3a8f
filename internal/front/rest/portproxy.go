package rest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
)

// portProxy passes one request on to a listener in a cell, over a connection of its
// own. What comes from the listener is foreign: it must not act in the name of the
// daemon.
type portProxy struct {
	*exchange
	target portTarget
	wait   time.Duration
	// hide are headers of requests that the listener does not get.
	hide []string
	conn *cellConn
}

// hiddenHeaders returns what a request has for the daemon, or for this connection.
func hiddenHeaders() []string { return []string{"Authorization", "Cookie", "Expect"} }

// serve sends the request over a connection that join makes, and its answer back.
func (p *portProxy) serve(ctx context.Context, join func(context.Context, io.ReadWriter) error) {
	p.conn = dialCell(ctx, join, p.wait)
	defer p.conn.end()
	transport := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return p.conn, nil },
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader, ResponseHeaderTimeout: p.wait,
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: quietTransport{transport}, FlushInterval: -1, ModifyResponse: p.guard,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { p.fail(p.explain(ctx, err)) },
		ErrorLog:     slog.NewLogLogger(p.server.logger.Handler(), slog.LevelDebug),
	}
	r := p.r.WithContext(ctx)
	if r.Body != http.NoBody {
		r.Body = portBody{newUpload(p.exchange), r.Body}
	}
	defer p.dropTrailers()
	proxy.ServeHTTP(&portWriter{ResponseWriter: p.w, ctx: ctx}, r)
}

// portBody is the body of a request, with the limits of uploads.
type portBody struct {
	*upload
	io.Closer
}

// rewrite makes the request that the listener gets.
func (p *portProxy) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	out.Host = "localhost:" + p.target.port
	out.URL = p.target.url()
	out.URL.RawQuery, out.URL.ForceQuery = pr.In.URL.RawQuery, pr.In.URL.ForceQuery
	for _, name := range p.hide {
		out.Header.Del(name)
	}
	if !wantsSocket(pr.In) {
		out.Header.Del("Connection")
		out.Header.Del("Upgrade")
	}
}

// url returns the URL for the listener, with the path as it was sent.
func (t portTarget) url() *url.URL {
	u := &url.URL{Scheme: "http", Host: "localhost:" + t.port, RawPath: t.path}
	var err error
	if u.Path, err = url.PathUnescape(t.path); err != nil {
		u.Path = t.path
	}
	// A path that is not encoded as Go would do it is sent as it is. One that begins
	// with two slashes would become a URL.
	if u.EscapedPath() != t.path && !strings.HasPrefix(t.path, "//") {
		u.Opaque = t.path
	}
	return u
}

// unwantedHeaders are headers of an answer that a client would follow or keep for the whole
// site of the daemon, besides those that begin with Access-Control-.
func unwantedHeaders() []string {
	return []string{
		"Set-Cookie", "Set-Cookie2", "Service-Worker-Allowed", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Refresh",
		"Report-To", "Reporting-Endpoints", "Nel", "Www-Authenticate", "X-Request-Id",
	}
}

func isUnwanted(name string) bool {
	return slices.Contains(unwantedHeaders(), name) || strings.HasPrefix(name, "Access-Control-")
}

// guard changes an answer so that it cannot act in the name of the daemon.
func (p *portProxy) guard(res *http.Response) error {
	for name := range res.Header {
		if isUnwanted(name) {
			delete(res.Header, name)
		}
	}
	if location := res.Header.Get("Location"); location != "" {
		res.Header.Del("Location")
		if inside, ok := p.outsideLocation(location); ok {
			res.Header.Set("Location", inside)
		}
	}
	const policy = "Content-Security-Policy"
	res.Header[policy] = append([]string{"sandbox"}, res.Header[policy]...)
	res.Header.Set("X-Content-Type-Options", "nosniff")
	return nil
}

// dropTrailers removes unwanted headers that came after the body.
func (p *portProxy) dropTrailers() {
	for name := range p.w.Header() {
		if after, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && isUnwanted(http.CanonicalHeaderKey(after)) {
			delete(p.w.Header(), name)
		}
	}
}

// outsideLocation returns where a redirect of the listener leads, seen from outside. Clients
// follow redirects with their token: one that leads elsewhere, such as to another
// route of the daemon, is not passed on.
func (p *portProxy) outsideLocation(location string) (string, bool) {
	u, err := p.target.url().Parse(location)
	if err != nil || u.Scheme != "http" || u.Opaque != "" || u.User != nil || !p.isListener(u.Host) {
		return "", false
	}
	// Browsers take %2e for a dot.
	if slices.ContainsFunc(strings.Split(u.Path, "/"), func(part string) bool { return part == "." || part == ".." }) {
		return "", false
	}
	rest := &url.URL{RawQuery: u.RawQuery, Fragment: u.Fragment, RawFragment: u.RawFragment}
	return "/v1/cells/" + url.PathEscape(p.target.cell) + "/ports/" + p.target.port + u.EscapedPath() + rest.String(), true
}

func (p *portProxy) isListener(host string) bool {
	return slices.ContainsFunc([]string{"localhost", "127.0.0.1", "[::1]"}, func(name string) bool { return host == name+":"+p.target.port })
}

// explain returns the error of a request that has no answer.
func (p *portProxy) explain(ctx context.Context, err error) error {
	what := fmt.Sprintf("port %s of cell %s", p.target.port, p.target.cell)
	joined := p.conn.failure()
	if e, ok := errors.AsType[*api.Error](errors.Join(joined, err)); ok {
		return e // of the cell, or of the body
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(joined, engine.ErrNoListener):
		return api.Refusef(api.CodeForward, "start a server there that listens on its loopback", "nothing listens on %s", what)
	case ctx.Err() != nil && p.server.drain.isStopping():
		return errDraining()
	case ctx.Err() != nil:
		return &api.Error{Kind: api.Busy, Code: api.CodeInterrupted, Message: "the request was ended", Hint: "send it again"}
	case ok && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded):
		return api.Refusef(api.CodeTimeout, "look at the server in the cell", "%s did not answer within %v", what, p.wait)
	}
	return api.Refusef(api.CodeForward, "look at the server in the cell", "%s did not answer with HTTP", what)
}

// quietTransport sends requests without the hooks of their context, by which the
// proxy would pass on announcements of an answer (1xx), with their headers.
type quietTransport struct{ *http.Transport }

func (t quietTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.Transport.RoundTrip(r.WithContext(withoutValues{r.Context()}))
}

type withoutValues struct{ context.Context }

func (withoutValues) Value(any) any { return nil }

// portWriter writes an answer to a client that must not stop reading for long.
type portWriter struct {
	http.ResponseWriter
	ctx context.Context
}

func (w *portWriter) Write(b []byte) (int, error) {
	// A connection without deadlines is a test's.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(bodyTimeout))
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *portWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack returns the client's connection, which ends with the context.
func (w *portWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(w.ctx, func() { _ = conn.Close() })
	return limitedConn{conn, bodyTimeout}, rw, nil
}

// limitedConn is a connection whose other side takes each part within a time.
type limitedConn struct {
	net.Conn
	limit time.Duration
}

func (c limitedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// cellConn is a connection to a listener in a cell.
type cellConn struct {
	limitedConn
	leave context.CancelFunc
	ended chan struct{} // closed when err is set
	err   error
}

// dialCell connects by join. Whether something listens is known when it answers.
func dialCell(ctx context.Context, join func(context.Context, io.ReadWriter) error, limit time.Duration) *cellConn {
	near, far := net.Pipe()
	ctx, leave := context.WithCancel(ctx)
	c := &cellConn{limitedConn: limitedConn{near, limit}, leave: leave, ended: make(chan struct{})}
	go func() {
		c.err = join(ctx, far)
		close(c.ended)
		_ = far.Close()
	}()
	return c
}

// Close ends the connection inside the cell too.
func (c *cellConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// end closes the connection and waits until it has ended.
func (c *cellConn) end() {
	_ = c.Close()
	<-c.ended
}

// failure returns why the connection ended, or nil.
func (c *cellConn) failure() error {
	select {
	case <-c.ended:
		return c.err
	default:
		return nil
	}
}
