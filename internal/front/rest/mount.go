package rest

import (
	"context"
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Mount adds the handler of another protocol. Its streams that only wait (GET) end when
// the daemon stops.
func (s *Server) Mount(o op.Verb, h http.Handler) {
	s.addBeside(o, func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
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

// addBeside adds a handler that the description of the API does not have, for callers who
// have what its operation needs.
func (s *Server) addBeside(o op.Verb, h http.HandlerFunc) {
	s.mux.HandleFunc(strings.TrimPrefix(o.Method+" "+o.Path, " "), func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		if err := c.need(o.Needs...); err != nil {
			writeProblem(w, s.problemOf(c, err))
			return
		}
		h(w, r)
	})
}

// Sender is who sent a request to a mounted handler.
type Sender struct {
	// ID identifies the sender.
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
