package rest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/session"
)

// heldAgents are the agents that their first clients execute, by the runs of their sessions.
type heldAgents struct {
	mu     sync.Mutex
	agents map[string]*session.Running
}

func (h *heldAgents) keep(s *session.Running) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.agents == nil {
		h.agents = map[string]*session.Running{}
	}
	h.agents[s.RunID] = s
	time.AfterFunc(api.AgentLimit, func() { h.take(s.RunID) })
}

// take returns the agent of a run, which only one caller gets; nil if there is none.
func (h *heldAgents) take(run string) *session.Running {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.agents[run]
	delete(h.agents, run)
	return s
}

type agentSocketInput struct {
	InSession
	Terminal
	Term string `query:"term" maxLength:"64" doc:"Type of the terminal, as in TERM."`
}

// addAgentSocket adds the route of a WebSocket by which the first client of a session
// executes its agent.
func (s *Server) addAgentSocket() {
	handleExchange(s, op.AgentSocket, map[string]*huma.Response{"101": {Description: "A WebSocket with the subprotocol " + execsocket.Protocol + ". Closing it leaves the agent running."}}, s.agentSocket)
}

func (s *Server) agentSocket(ctx context.Context, x *exchange, in *agentSocketInput) {
	if err := errors.Join(checkUpgrade(x.r), checkTerm(in.Term)); err != nil {
		x.fail(err) // before the agent is taken
		return
	}
	x.stream(ctx, func(ctx context.Context) {
		started, err := s.takeAgent(ctx, x.call, in.Session)
		if err != nil {
			x.fail(err)
			return
		}
		req := started.Exec
		req.TTY, req.Size, req.RawInput = in.TTY, in.size(), true
		if in.TTY && in.Term != "" {
			req.Env = append(req.Env, "TERM="+in.Term)
		}
		serveExecSocket(ctx, x, false, func(ctx context.Context, io engine.Stdio) (*api.ExecResult, error) {
			return executeHeld(ctx, x.engine, started, req, io)
		})
	})
}

// executeHeld executes an agent. A session whose agent could not be executed is taken back.
func executeHeld(ctx context.Context, e Engine, started *session.Running, req api.ExecRequest, io engine.Stdio) (*api.ExecResult, error) {
	var begun atomic.Bool
	tell := io.Started
	io.Started = func(id string) {
		begun.Store(true)
		tell(id)
	}
	res, err := e.Exec(ctx, req, io)
	if err != nil && !begun.Load() {
		err = errors.Join(err, started.Undo(ctx, e))
	}
	return res, err
}

// takeAgent returns the agent of a session that waits for its first client.
func (s *Server) takeAgent(ctx context.Context, c *call, name string) (*session.Running, error) {
	i, err := c.session(ctx, name)
	if err != nil {
		return nil, err
	}
	if started := s.held.take(i.RunID); started != nil {
		return started, nil
	}
	return nil, api.Refusef(api.CodeLive, "GET /v1/cells/{cell}/exec/{exec} joins a running agent", "session %s does not wait for a client to execute its agent", name)
}

// checkTerm refuses a type of terminal that no variable can have.
func checkTerm(term string) error {
	if strings.ContainsFunc(term, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return api.Usagef("send it as in TERM", "term: bad type of terminal")
	}
	return nil
}
