package rest

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// observedAnswer is an answer whose status is noted.
type observedAnswer struct {
	http.ResponseWriter
	status int
}

func (o *observedAnswer) WriteHeader(status int) {
	if o.status == 0 || o.status < http.StatusOK {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *observedAnswer) Write(p []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	return o.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (o *observedAnswer) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// Flush implements http.Flusher.
func (o *observedAnswer) Flush() { _ = http.NewResponseController(o.ResponseWriter).Flush() }

// Hijack implements http.Hijacker.
func (o *observedAnswer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if o.status == 0 {
		o.status = http.StatusSwitchingProtocols
	}
	return http.NewResponseController(o.ResponseWriter).Hijack()
}

// observe records a request that was answered.
func (s *Server) observe(w *observedAnswer, r *http.Request, c *call, begin time.Time) {
	took := time.Since(begin)
	if w.status == 0 {
		w.status = http.StatusOK // of an answer without a body
	}
	seen := event.Call{
		ID: c.id, Method: methodOf(r), Route: s.patternOf(r), Caller: c.caller.name, Status: w.status, Took: took,
	}
	if peer, _ := r.Context().Value(peerKey).(peer); peer.addr.IsValid() {
		seen.From = peer.addr.String()
	}
	for _, of := range []string{"/v1/cells/", "/v1/sessions/"} {
		if strings.HasPrefix(seen.Route, of+"{") {
			seen.Cell, _, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, of), "/")
		}
	}
	s.metrics.request(seen)
	s.traces.end(r.Context(), c, seen)
	if s.config.Requests != nil {
		s.config.Requests.Record(seen)
	}
	s.logger.Info("request", "request", c.id, "caller", seen.Caller, "method", seen.Method, "route", seen.Route, "cell", seen.Cell, "status", w.status, "took", took)
}

// methodOf returns the method of a request. What a client makes up is not recorded.
func methodOf(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	}
	return "OTHER"
}
