package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/store"
)

// Scope is a right of a caller.
type Scope string

// The scopes. Each includes Read, and Admin includes all.
const (
	Read   Scope = "read"
	Run    Scope = "run"
	Decide Scope = "decide"
	Admin  Scope = "admin"
)

// call is one request: its id, who sent it, and the engine that acts for the sender.
type call struct {
	id     string
	caller caller
	engine Engine
	// request is set if the request has an idempotency key.
	request store.Request
}

// caller is who sent a request.
type caller struct {
	// name is the actor in statements.
	name string
	// local reports that the caller came over the local socket: it is the daemon's
	// own user, or root, and may do everything.
	local  bool
	scopes []Scope
	// prefix begins the names of all cells that the caller sees.
	prefix string
}

// sees reports whether the caller may know of a cell.
func (c caller) sees(cell string) bool { return strings.HasPrefix(cell, c.prefix) }

// may reports whether the caller has a scope.
func (c caller) may(s Scope) bool {
	return c.local || slices.Contains(c.scopes, s) || slices.Contains(c.scopes, Admin) || s == Read && len(c.scopes) > 0
}

type contextKey int

const (
	callKey contextKey = iota
	peerKey
)

// callOf returns the call of a request's context.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey).(*call)
	if c == nil {
		return &call{}
	}
	return c
}

// newCall identifies the sender of a request.
func newCall(r *http.Request) *call {
	c := &call{id: store.NewID("req")}
	peer, _ := r.Context().Value(peerKey).(peer)
	if !peer.local {
		return c
	}
	c.caller = caller{name: peer.name, local: true}
	return c
}

// actFor returns an engine that acts for the sender of a request. env has the values
// of credentials that came with it.
func (s *Server) actFor(c *call, expect *int64, env []string) Engine {
	return s.config.Engine(cell.Caller{Actor: func() string { return c.caller.name }, Expect: expect, Env: env, Request: c.request.ID})
}

// authorize lets a request through to its route if its sender may use it.
func (s *Server) authorize(ctx huma.Context, next func(huma.Context)) {
	c := callOf(ctx.Context())
	needs, _ := ctx.Operation().Metadata[needsKey].([]Scope)
	for _, scope := range needs {
		if c.caller.may(scope) {
			continue
		}
		s.refuse(ctx, c.deny(scope))
		return
	}
	if name := ctx.Param("cell"); name != "" && !c.caller.sees(name) {
		s.refuse(ctx, s.problemOf(c, api.Missing("cell", name, "")))
		return
	}
	expect, err := expectation(ctx.Header("If-Match"))
	if err != nil {
		s.refuse(ctx, s.problemOf(c, err))
		return
	}
	c.engine = s.actFor(c, expect, nil)
	next(ctx)
}

// deny returns the problem of a caller without a scope.
func (c *call) deny(scope Scope) *problem {
	if c.caller.name == "" {
		p := newProblem(c.id, http.StatusUnauthorized, &api.Error{
			Code: api.CodeUnauthenticated, Message: "the request has no valid token", Hint: "send `Authorization: Bearer fct_...`",
		})
		p.header = http.Header{"Www-Authenticate": {"Bearer"}}
		return p
	}
	return newProblem(c.id, http.StatusForbidden, &api.Error{
		Code: api.CodeForbidden, Message: "the token does not have the scope " + string(scope),
		Hint: "`forkcell token create --scope " + string(scope) + "` makes one that has it",
	})
}

func (s *Server) refuse(ctx huma.Context, p *problem) {
	for name, values := range p.header {
		for _, v := range values {
			ctx.SetHeader(name, v)
		}
	}
	ctx.SetHeader("Content-Type", problemType)
	ctx.SetStatus(p.Status)
	_ = s.api.Marshal(ctx.BodyWriter(), "application/json", p.Problem)
}

// expectation reads If-Match: the revision that a cell must have, in quotes. It is
// nil without the header, and for *.
func expectation(header string) (expect *int64, err error) {
	if header == "" || header == "*" {
		return expect, nil
	}
	inner, ok := strings.CutPrefix(header, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	n, err := strconv.ParseInt(inner, 10, 64)
	if !ok || !ok2 || err != nil || n < 0 {
		return nil, api.Usagef(`send the ETag of the cell, such as "12"`, "malformed If-Match")
	}
	return &n, nil
}

// etag returns the ETag of a revision.
func etag(revision int64) string { return strconv.Quote(strconv.FormatInt(revision, 10)) }
