package rest

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/token"
)

// recheck is the time between two looks at the token of a request that takes long.
const recheck = time.Second

// deny returns the problem of a caller without a scope.
func (c *call) deny(scope Scope) *problem {
	if c.caller.name == "" {
		p := newProblem(c.id, http.StatusUnauthorized, &api.Error{
			Kind: api.Refused, Code: api.CodeUnauthenticated, Message: "the request has no valid token", Hint: "send `Authorization: Bearer fct_...`",
		})
		p.header = http.Header{"Www-Authenticate": {"Bearer"}}
		return p
	}
	if scope == Unbounded {
		return newProblem(c.id, http.StatusForbidden, &api.Error{
			Kind: api.Refused, Code: api.CodeForbidden, Message: "the request is about the whole home, and the token is bound to cells, a policy or a quota",
			Hint: "`forkcell token create --scope admin` makes one without bounds",
		})
	}
	return newProblem(c.id, http.StatusForbidden, &api.Error{
		Kind: api.Refused, Code: api.CodeForbidden, Message: "the token does not have the scope " + string(scope),
		Hint: "`forkcell token create --scope " + string(scope) + "` makes one that has it",
	})
}

// mayName refuses a name for a new cell that the caller could not see.
func (c *call) mayName(name string) error {
	if c.caller.sees(name) {
		return nil
	}
	prefix := c.caller.grant.Cells
	if c.caller.only != "" {
		prefix = c.caller.only + "-"
	}
	return api.Refusef(api.CodeForbidden, "begin the name with "+prefix+"; `forkcell init "+prefix+"NAME --from DIR` names the cell of a directory", "the caller may not make a cell with the name %q", name)
}

// tokenProblem returns the problem of a secret that was refused.
func (s *Server) tokenProblem(c *call, err error) *problem {
	if wait, ok := errors.AsType[*token.WaitError](err); ok {
		return newProblem(c.id, http.StatusTooManyRequests, &api.Error{
			Kind: api.Busy, Code: api.CodeQuota, Message: wait.Error(), Hint: "check the token",
		}).after(wait.Retry)
	}
	if errors.Is(err, token.ErrRefused) {
		return c.deny(Read)
	}
	return s.problemOf(c, err)
}

// watch calls revoked if the token of a request is revoked or expires meanwhile.
func (s *Server) watch(c *call, revoked func()) (stop func()) {
	if c.caller.local || c.caller.grant.ID == "" {
		return func() {}
	}
	ticker, done := time.NewTicker(recheck), make(chan struct{})
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				if _, err := s.config.Tokens.Current(c.caller.grant.ID); errors.Is(err, token.ErrRefused) {
					revoked()
					return
				}
			}
		}
	}()
	return func() { close(done) }
}

// checkSite refuses a request that a browser sends for a foreign page: one that names
// another host, as after DNS rebinding, or that has another origin.
func (s *Server) checkSite(r *http.Request, p peer) error {
	if !p.unix && !s.ownHost(r.Host) {
		return newProblem("", http.StatusMisdirectedRequest, &api.Error{
			Kind: api.Refused, Code: api.CodeMisdirected, Message: "this daemon does not serve the host of the request", Hint: "`forkcell serve --host NAME` adds a name",
		})
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if u, err := url.Parse(origins[0]); err != nil || len(origins) > 1 || u.Scheme != scheme || u.Host != r.Host {
		return newProblem("", http.StatusForbidden, &api.Error{
			Kind: api.Refused, Code: api.CodeForbidden, Message: "requests of other sites are refused", Hint: "send the request from the daemon's own address, or not from a browser",
		})
	}
	return nil
}

// ownHost reports whether a Host header names this daemon.
func (s *Server) ownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	return slices.Contains(s.config.Hosts, name)
}
