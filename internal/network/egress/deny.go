package egress

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// policyHeader is in every answer that the proxy itself makes: "denied", or
// "failed" where the policy allows the request and the upstream does not
// answer.
const policyHeader = "X-Forkcell-Policy"

// answer is the body of an answer that the proxy itself makes.
type answer struct {
	Error    string `json:"error"`
	Reason   string `json:"reason"`
	Rule     string `json:"rule,omitempty"`
	Layer    string `json:"layer"`
	Protocol string `json:"protocol,omitempty"`
	Method   string `json:"method"`
	Host     string `json:"host"`
	Port     uint16 `json:"port"`
	Path     string `json:"path,omitempty"`
	Binary   string `json:"binary,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

func (f *flight) answer() answer {
	return answer{
		Protocol: f.protocol, Method: f.q.Method, Host: f.to.host, Port: f.to.port,
		Path: f.q.Path, Binary: f.c.proc.Binary,
	}
}

// deny answers a request that was not forwarded, and records it.
func (p *Proxy) deny(w http.ResponseWriter, r *http.Request, f *flight, err error) {
	var no *refusal
	var elsewhere *misdirected
	switch {
	case errors.As(err, &elsewhere):
		no = &elsewhere.refusal
		f.status.Store(http.StatusMisdirectedRequest)
	case errors.As(err, &no):
	default:
		panic(http.ErrAbortHandler) // the proxy ends
	}
	drain := p.leaveBody(w, r)
	p.writeRefusal(w, r, f, no)
	p.recordDenied(f, r, no)
	drain()
}

// How much of a denied request's body is read: so that the connection can be
// kept, and so that a program that sends all of it first can read the answer.
const (
	maxDrained  = 256 << 10
	maxLingered = 16 << 20
)

// leaveBody prepares the answer to a request whose body will not be read. The
// answer does not wait for the body. If the rest may be too long to read, the
// answer announces that the connection closes. drain reads the rest. In HTTP/2
// a stream ends without its connection, so there is nothing to do.
func (p *Proxy) leaveBody(w http.ResponseWriter, r *http.Request) (drain func()) {
	if r.Body == nil || r.Body == http.NoBody || r.ProtoMajor != 1 {
		return func() {}
	}
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // else the server reads before it answers
	_ = control.SetReadDeadline(time.Now().Add(p.lim.Hello))
	most := int64(maxDrained)
	if r.ContentLength < 0 || r.ContentLength > maxDrained || r.Header.Get("Expect") != "" {
		w.Header().Set("Connection", "close")
		most = maxLingered
	}
	return func() {
		_ = control.Flush()
		if r.Header.Get("Expect") != "" {
			return // the program was not told to send it
		}
		_, _ = io.CopyN(io.Discard, r.Body, most)
	}
}

// writeRefusal writes the answer to a denied request.
func (p *Proxy) writeRefusal(w http.ResponseWriter, r *http.Request, f *flight, no *refusal) {
	a := f.answer()
	a.Error, a.Reason, a.Rule, a.Layer, a.Hint = "denied_by_policy", no.Reason, no.Rule, no.layer, no.hint
	code := int(f.status.Load())
	if code == 0 {
		code = http.StatusForbidden
		f.status.Store(int32(code))
	}
	write(w, r, "denied", code, grpcPermissionDenied, a)
}

// writeUpstreamError writes the answer to an allowed request that the upstream did not
// answer.
func (p *Proxy) writeUpstreamError(w http.ResponseWriter, r *http.Request, f *flight, why, hint string) {
	a := f.answer()
	a.Error, a.Reason, a.Rule, a.Layer, a.Hint = "upstream_failed", why, f.decision.Rule, "forward", hint
	write(w, r, "failed", http.StatusBadGateway, grpcUnavailable, a)
}

// Codes of gRPC.
const (
	grpcPermissionDenied = 7
	grpcUnavailable      = 14
)

func write(w http.ResponseWriter, r *http.Request, verdict string, code, grpc int, a answer) {
	h := w.Header()
	h.Set(policyHeader, verdict)
	h.Set("Cache-Control", "no-store")
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		// An answer of trailers only, which is how a server refuses a call.
		h.Set("Content-Type", "application/grpc")
		h.Set("Grpc-Status", strconv.Itoa(grpc))
		h.Set("Grpc-Message", url.PathEscape(a.Error+": "+a.Reason))
		w.WriteHeader(http.StatusOK)
		return
	}
	body, err := json.Marshal(a)
	if err != nil {
		panic(http.ErrAbortHandler) // not reached: all fields are plain
	}
	body = append(body, '\n')
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// recordDenied records a request that was not forwarded.
func (p *Proxy) recordDenied(f *flight, r *http.Request, no *refusal) {
	q := f.event()
	if q.Path == "" {
		// The path has no canonical form; the event bounds its length.
		q.Path, _, _ = strings.Cut(r.URL.EscapedPath(), "?")
	}
	q.Version = strconv.Itoa(r.ProtoMajor) + "." + strconv.Itoa(r.ProtoMinor)
	s := p.denial(f.c, no)
	if f.view != nil && no.policy == "" {
		s.Policy = f.view.gen.Hash
	}
	s.Message = no.hint
	p.emit(event.HTTP(s, q))
}
