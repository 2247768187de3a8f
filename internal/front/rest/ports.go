package rest

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

const (
	// portWait is how long a listener may take to begin its answer, and to read a part
	// of a request.
	portWait = time.Minute
	// portGrace is the time for a request to a port to end when the daemon stops.
	portGrace = 5 * time.Second
)

// forwarder connects streams with listeners in live cells.
type forwarder interface {
	Forward(ctx context.Context, cell string, port int) (join func(context.Context, io.ReadWriter) error, err error)
}

// portOps returns the operations that the description lists, which differ in the method
// only. Other methods pass too, except CONNECT and TRACE.
func portOps() []op.Verb {
	return []op.Verb{op.GetPort, op.HeadPort, op.PostPort, op.PutPort, op.PatchPort, op.DeletePort, op.OptionsPort}
}

func portMethods() (methods []string) {
	for _, o := range portOps() {
		methods = append(methods, o.Method)
	}
	return methods
}

// portTarget is the target of a request to a port, as it was sent.
type portTarget struct {
	cell, port string
	path       string // for the listener, encoded
}

// portTargetOf takes the path of a request to a port apart. These paths do not go
// through the ServeMux, which would answer a path with empty or dotted parts with a
// redirect: the listener gets its path as it was sent.
func portTargetOf(r *http.Request) (t portTarget, ok bool) {
	sent, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(sent, "/") {
		sent = r.URL.EscapedPath() // the request has the whole URL in its first line
	}
	sent, ok = strings.CutPrefix(sent, "/v1/cells/")
	if !ok {
		return t, false
	}
	t.cell, sent, _ = strings.Cut(sent, "/")
	sent, ok = strings.CutPrefix(sent, "ports/")
	if !ok {
		return t, false
	}
	t.port, sent, _ = strings.Cut(sent, "/")
	t.path = "/" + sent
	if name, err := url.PathUnescape(t.cell); err == nil {
		t.cell = name
	}
	return t, true
}

// dispatch hands a request to its route.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	if t, ok := portTargetOf(r); ok {
		s.servePort(&exchange{call: callOf(r.Context()), server: s, w: w, r: r}, t)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// patternOf returns the pattern of the route of a request.
func (s *Server) patternOf(r *http.Request) string {
	if _, ok := portTargetOf(r); ok {
		return op.GetPort.Path
	}
	_, pattern := s.mux.Handler(r)
	return pattern[strings.LastIndexByte(pattern, ' ')+1:]
}

// servePort passes a request on to a listener in a live cell.
func (s *Server) servePort(x *exchange, t portTarget) {
	if err := s.admit(x.call, op.GetPort.Needs, t.cell, ""); err != nil {
		x.fail(err)
		return
	}
	port, err := checkPort(x.r, t)
	if err != nil {
		x.fail(err)
		return
	}
	grace := portGrace
	if wantsSocket(x.r) {
		grace = 0
	}
	x.streamFor(x.r.Context(), grace, func(ctx context.Context) {
		join, err := x.engine.Forward(ctx, t.cell, port)
		if err != nil {
			x.fail(err)
			return
		}
		p := &portProxy{exchange: x, target: t, wait: portWait, hide: hiddenHeaders()}
		p.serve(ctx, join)
	})
}

// checkPort returns the port of a request, unless the request is refused.
func checkPort(r *http.Request, t portTarget) (int, error) {
	port, err := strconv.ParseUint(t.port, 10, 16)
	switch {
	case err != nil || port == 0:
		return 0, api.Usagef("write a number from 1 to 65535", "malformed port")
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		p := newProblem("", http.StatusMethodNotAllowed, &api.Error{
			Kind: api.Usage, Code: api.CodeMethod, Message: "a port takes no request with this method", Hint: "use another method",
		})
		p.header = http.Header{"Allow": {strings.Join(portMethods(), ", ")}}
		return 0, p
	case isNavigation(r.Header):
		return 0, newProblem("", http.StatusForbidden, &api.Error{
			Kind: api.Refused, Code: api.CodeForbidden, Message: "a browser cannot show a page of a cell at the address of the daemon", Hint: "use `forkcell port-forward`",
		})
	}
	return int(port), nil
}

// isNavigation reports whether a browser would show the answer, or run it, as a part of
// the daemon's site. Only what a script asks for, and sockets, are none.
func isNavigation(h http.Header) bool {
	scripted := func(name string, values ...string) bool {
		return !slices.ContainsFunc(h.Values(name), func(v string) bool { return !slices.Contains(values, v) })
	}
	return !scripted("Sec-Fetch-Mode", "cors", "no-cors", "same-origin", "websocket") || !scripted("Sec-Fetch-Dest", "empty", "websocket") ||
		h.Get("Upgrade-Insecure-Requests") != "" || h.Get("Service-Worker") != ""
}

// wantsSocket reports whether a request asks for a WebSocket.
func wantsSocket(r *http.Request) bool {
	return hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "websocket")
}

// describePorts adds the ports to the description of the API.
func (s *Server) describePorts() {
	doc := s.api.OpenAPI()
	text := &huma.Schema{Type: huma.TypeString}
	first, last := 1.0, 65535.0
	for _, o := range portOps() {
		def := operationOf(o)
		def.Description = "HTTP, or with an upgrade a WebSocket. Without Authorization and Cookie in the request, and without Set-Cookie in the answer."
		def.Parameters = []*huma.Param{
			{Name: "cell", In: "path", Required: true, Description: "Name of the cell.", Schema: text},
			{Name: "port", In: "path", Required: true, Description: "Port on the loopback of the cell.", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &first, Maximum: &last}},
			{Name: "path", In: "path", Required: true, Description: "Path for the listener: any number of parts, also none. The query belongs to it too.", Schema: text},
		}
		def.Responses = map[string]*huma.Response{"default": {Description: "What the listener answers."}}
		doc.AddOperation(&def)
	}
}
