package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/token"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// Scope is a right of a caller.
type Scope = token.Scope

// The scopes, as package token has them.
const (
	Read   = token.Read
	Run    = token.Run
	Decide = token.Decide
	Admin  = token.Admin
	// Unbounded is of the operator.
	Unbounded = token.Unbounded
)

// call is one request: its id, who sent it, and the engine that acts for the sender.
type call struct {
	id     string
	caller sender
	engine Engine
	// standin is the ceiling of a session whose sender has none of its own; nil for none.
	standin *api.PolicyFile
	// commands reports that hints name commands and flags of the command line.
	commands bool
	// request is set if the request has an idempotency key.
	request store.Request
	// valid ends when the token of the request is revoked or expires.
	valid context.Context //nolint:containedctx // of the one request
	// frees is the disk space that the request frees before it takes some.
	frees int64
	// reads reports that the route of the request changes nothing.
	reads bool
}

// sender is who sent a request.
type sender struct {
	// name is the actor in statements.
	name string
	// local reports that the caller came over the local socket without a token: it
	// is the daemon's own user, or root, and may do everything.
	local bool
	// grant has the rights of the token.
	grant token.Grant
	// only, if set, is the one cell that the caller sees, besides those of its lineage.
	only    string
	lineage *lineage
}

// sees reports whether the caller may know of a cell.
func (c sender) sees(cell string) bool {
	if c.only != "" {
		return c.lineage.has(cell)
	}
	return c.local || c.grant.SeesCell(cell)
}

// seesAll reports whether the caller may know of every cell.
func (c sender) seesAll() bool { return c.local || c.grant.Cells == "" && c.only == "" }

// rights returns a text that differs for callers who see other cells, or may do other things.
func (c sender) rights() string {
	return fmt.Sprintf("%t %q %q %q", c.local, c.only, c.grant.Cells, c.grant.Scopes)
}

// mayUse reports whether requests of the caller may use a line of the operator's
// credentials file.
func (c sender) mayUse(credential string) bool { return c.local || c.grant.MayUse(credential) }

// may reports whether the caller has a scope.
func (c sender) may(s Scope) bool {
	if s == Unbounded {
		return c.isOperator()
	}
	return c.local || c.grant.Allows(s)
}

// mayGive reports whether the caller may give a run what only the operator gives: another
// root, --ro, grants of the host.
func (c sender) mayGive() bool { return c.isOperator() }

// id distinguishes callers other than the operator.
func (c sender) id() string {
	if c.local || c.grant.ID == "" {
		return ""
	}
	return "token:" + c.grant.ID
}

// ceiling returns the policy that must allow what a policy of the request allows; nil is
// none. The sender's rights have it, however the sender was identified.
func (c *call) ceiling() *api.PolicyFile {
	return cmp.Or(c.caller.grant.Ceiling, c.standin)
}

type contextKey int

const (
	callKey contextKey = iota
	peerKey
)

// ceilingGrants reports whether the sender has a policy that grants what it loosens.
func (c sender) ceilingGrants() bool { return c.grant.Ceiling != nil && c.grant.Ceiling.Grants }

// callOf returns the call of a request's context.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey).(*call)
	if c == nil {
		return &call{}
	}
	return c
}

// newCall identifies the sender of a request: by a token, or else by the local
// socket.
func (s *Server) newCall(r *http.Request) (*call, error) {
	c := &call{id: store.NewID("req"), commands: r.Header.Get(api.HintsHeader) == api.CommandHints || isSite(r)}
	peer, _ := r.Context().Value(peerKey).(peer)
	if err := s.checkSite(r, peer); err != nil {
		return c, err
	}
	if peer.bound != nil {
		c.caller = *peer.bound
		c.caller.lineage = s.newLineage(peer.boundID, c.caller.only)
		return c, nil
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		// Who sends anything else, or nothing, does not mean to have the rights of the socket.
		if _, given := r.Header["Authorization"]; peer.local && !given {
			c.caller = sender{name: peer.name, local: true}
		}
		return c, nil
	}
	grant, err := s.gate.Check(peer.addr, secret)
	if err != nil {
		return c, s.tokenProblem(c, err)
	}
	c.caller = sender{name: grant.Name, grant: grant}
	return c, s.quotaProblem(c, s.limiter.Request(grant))
}

// actFor returns an engine that acts for the sender of a request. env has the values
// of credentials that came with it.
func (s *Server) actFor(c *call, expect *int64, env []string) Engine {
	return s.config.Engine(s.engineCaller(c, expect, env))
}

// engineCaller returns the sender of a request as the engine knows it.
func (s *Server) engineCaller(c *call, expect *int64, env []string) caller.Caller {
	var guest *caller.Guest
	if !c.caller.isOperator() {
		guest = &caller.Guest{AllowControl: c.caller.grant.AllowControl}
	}
	sees, prefix := c.caller.sees, c.caller.grant.Cells
	if c.caller.only != "" {
		prefix = c.caller.lineage.root
	}
	if c.caller.seesAll() {
		sees = nil
	}
	var gives func(string) bool
	if !c.caller.isOperator() {
		gives = func(string) bool { return c.caller.mayGive() }
	}
	return caller.Caller{
		ID: c.caller.id(), MayGive: gives, Budget: s.budget(c),
		Actor: func() string { return c.caller.name }, Expect: expect, Env: env, Request: c.request.ID, Ceiling: c.ceiling(), Within: s.allowedDirs(c.caller),
		CannotDecide: !c.caller.may(Decide), Guest: guest, Sees: sees, Prefix: prefix, MayUse: c.caller.mayUse, FileSources: true,
	}
}

// allowedDirs returns the directories of the host that a caller may name; nil is every
// one.
func (s *Server) allowedDirs(c sender) []string {
	if c.local {
		return nil
	}
	return append([]string{}, s.config.AllowSource...)
}

// authorize lets a request through to its route if its sender may use it.
func (s *Server) authorize(ctx huma.Context, next func(huma.Context)) {
	c := callOf(ctx.Context())
	needs, _ := ctx.Operation().Metadata[needsKey].([]Scope)
	c.reads = !slices.ContainsFunc(needs, func(s Scope) bool { return s != Read })
	name := cmp.Or(ctx.Param("cell"), ctx.Param("session"))
	match, err := sentMatch(ctx)
	if err == nil {
		err = s.admit(c, needs, name, match)
	}
	if ctx.Param("session") != "" && err != nil && api.CodeOf(err) == api.CodeNotFound {
		err = missingSession(name)
	}
	if err == nil {
		err = checkQuery(ctx)
	}
	if err == nil {
		err = negotiate(ctx)
	}
	if err != nil {
		s.refuse(ctx, s.problemOf(c, err))
		return
	}
	next(ctx)
}

// admit gives a call its engine if its sender has the scopes and may know of the
// cell, if there is one. match is the header If-Match.
func (s *Server) admit(c *call, needs []Scope, name, match string) error {
	if err := c.need(needs...); err != nil {
		return err
	}
	if name != "" && !c.caller.sees(name) {
		return api.Missing("cell", name, "")
	}
	if name != "" && s.config.Touch != nil {
		s.config.Touch(name)
	}
	expect, err := expectation(match)
	if err != nil {
		return err
	}
	c.engine = s.actFor(c, expect, nil)
	return nil
}

// need refuses a caller without one of the scopes.
func (c *call) need(needs ...Scope) error {
	for _, scope := range needs {
		if !c.caller.may(scope) {
			return c.deny(scope)
		}
	}
	return nil
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

// errMatch is the error of an If-Match that says nothing.
func errMatch() error {
	return api.Usagef(`send the ETag of the cell, such as "12"`, "malformed If-Match")
}

// sentMatch returns the header If-Match. One that is sent empty is malformed, because its
// sender wants a condition, and so are several.
func sentMatch(ctx huma.Context) (string, error) {
	var sent []string
	ctx.EachHeader(func(name, value string) {
		if name == "If-Match" {
			sent = append(sent, value)
		}
	})
	if len(sent) > 1 || len(sent) == 1 && sent[0] == "" {
		return "", errMatch()
	}
	return strings.Join(sent, ""), nil
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
		return nil, errMatch()
	}
	return &n, nil
}

// etag returns the ETag of a revision.
func etag(revision int64) string { return strconv.Quote(strconv.FormatInt(revision, 10)) }
