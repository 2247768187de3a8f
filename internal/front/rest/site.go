package rest

import (
	"context"
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/caller"
)

// sitePath begins the paths of the pages for people. Idempotency keys have no meaning
// there.
const sitePath = "/ui"

// MountSite adds the pages for people. The handler gets every request and identifies
// the visitor itself; until it calls Visit, the request has no rights.
func (s *Server) MountSite(h http.Handler) {
	s.addBeside(op.Pages, h.ServeHTTP)
	s.mux.Handle("GET "+sitePath, http.RedirectHandler(sitePath+"/", http.StatusSeeOther))
}

// isSite reports whether a request is for the pages for people.
func isSite(r *http.Request) bool {
	return r.URL.Path == sitePath || strings.HasPrefix(r.URL.Path, sitePath+"/")
}

// Visitor identifies a person who looks at pages.
type Visitor struct {
	// Name is the actor in statements.
	Name string
	// Token is the id of the visitor's token. "" is the daemon's own user.
	Token string
}

// SenderVisitor returns the visitor that a request itself proves, by the local socket
// or by its header Authorization.
func (s *Server) SenderVisitor(r *http.Request) (Visitor, error) {
	c := callOf(r.Context())
	if c.caller.name == "" || c.caller.only != "" {
		return Visitor{}, c.deny(Read)
	}
	return Visitor{Name: c.caller.name, Token: c.caller.grant.ID}, nil
}

// TokenVisitor returns the visitor who knows the secret of a token. It counts as a
// request of the token.
func (s *Server) TokenVisitor(r *http.Request, secret string) (Visitor, error) {
	c := callOf(r.Context())
	peer, _ := r.Context().Value(peerKey).(peer)
	grant, err := s.gate.Check(peer.addr, secret)
	if err != nil {
		return Visitor{}, s.tokenProblem(c, err)
	}
	return Visitor{Name: grant.Name, Token: grant.ID}, s.quotaProblem(c, s.limiter.Request(grant))
}

// Visit is a request of a visitor.
type Visit struct {
	server *Server
	call   *call
}

// Visit gives a request the rights of a visitor. It fails if the visitor's token has
// ended, or has used its quota.
func (s *Server) Visit(r *http.Request, v Visitor) (*Visit, error) {
	c := callOf(r.Context())
	if v.Token == "" {
		c.caller = sender{name: v.Name, local: true}
		return &Visit{s, c}, nil
	}
	grant, err := s.config.Tokens.Current(v.Token)
	if err != nil {
		return nil, s.tokenProblem(c, err)
	}
	c.caller = sender{name: grant.Name, grant: grant}
	if err := s.quotaProblem(c, s.limiter.Request(grant)); err != nil {
		return nil, err
	}
	return &Visit{s, c}, nil
}

// Allow refuses a request to the engine that has the operator's word in it, unless the
// visitor is the operator.
func (v *Visit) Allow(ctx context.Context, request any) error {
	return v.call.allowFields(ctx, request)
}

// Name returns the name of the visitor.
func (v *Visit) Name() string { return v.call.caller.name }

// May reports whether the visitor has a scope.
func (v *Visit) May(scope Scope) bool { return v.call.caller.may(scope) }

// Sees reports whether the visitor may know of a cell.
func (v *Visit) Sees(cell string) bool { return v.call.caller.sees(cell) }

// SeesAll reports whether the visitor may know of every cell.
func (v *Visit) SeesAll() bool { return v.call.caller.seesAll() }

// Caller returns the visitor as the engine knows it. expect is the revision that a cell
// must have to be changed; nil is any.
func (v *Visit) Caller(expect *int64) caller.Caller {
	return v.server.engineCaller(v.call, expect, nil)
}

// Problem returns the document of an error, as the API would answer.
func (s *Server) Problem(r *http.Request, err error) api.Problem {
	return s.problemOf(callOf(r.Context()), err).Problem
}

// Stream runs do as one of the streams of the visitor. Its context ends with ctx, when
// the visitor's token ends, and when the daemon begins to stop.
func (v *Visit) Stream(ctx context.Context, do func(context.Context)) error {
	release, err := v.server.streams.admit(v.call.caller.name)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.server.open, cancel)()
	defer v.server.watch(v.call, cancel)()
	do(ctx)
	return nil
}
