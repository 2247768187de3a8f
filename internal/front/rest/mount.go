package rest

import (
	"context"
	"net/http"
)

// Mount adds a handler of another protocol, for callers that may read. Its streams
// that only wait (GET) end when the daemon stops.
func (s *Server) Mount(path string, h http.Handler) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		if !c.caller.may(Read) {
			writeProblem(w, c.deny(Read))
			return
		}
		c.reads = !c.caller.may(Run)
		if r.Method == http.MethodGet {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(s.open, cancel)()
			r = r.WithContext(ctx)
		}
		if r.Method == http.MethodGet {
			s.streaming(c, w, func() { h.ServeHTTP(w, r) })
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Sender is who sent a request to a mounted handler.
type Sender struct {
	// ID tells the sender from others.
	ID string
	// Client acts for the sender.
	Client *Client
	scopes func(Scope) bool
	// Operator reports that it is the operator.
	Operator bool
}

// May reports whether the sender has a scope.
func (s Sender) May(scope Scope) bool { return s.scopes(scope) }

// SenderOf returns the sender of a request to a mounted handler.
func (s *Server) SenderOf(r *http.Request) Sender {
	c := callOf(r.Context()).caller
	id := "token " + c.grant.ID
	if c.local {
		id = "local " + c.name
	}
	p, _ := r.Context().Value(peerKey).(peer)
	return Sender{ID: id, scopes: c.may, Operator: c.isOperator(), Client: &Client{server: s, host: r.Host, remote: r.RemoteAddr, peer: p}}
}
