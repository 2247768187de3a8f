package rest

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/token"
	"github.com/forkcell/forkcell/internal/session"
)

// addAgents adds the routes about the coding agents of the host.
func (s *Server) addAgents() {
	handle(s, op.ListAgents, s.listAgents)
	handle(s, op.GetAgent, s.getAgent)
	handle(s, op.ListAgentCredentials, s.agentCredentials)
	handle(s, op.CheckAgent, s.checkAgent)
}

// checkAgent starts an agent of the host in a cell of the caller, which is removed again.
func (s *Server) checkAgent(ctx context.Context, c *call, in *InAgent) (*api.AgentState, error) {
	g := c.caller.grant
	q := session.CheckRequest{
		Agent: in.Agent, Prefix: g.Cells, Bounds: s.bounds(c),
		Options: api.RunOptions{Memory: g.Quota.Memory, CPUs: int64(g.Quota.CPUs * 1000)},
	}
	if c.caller.only != "" {
		q.Prefix = c.caller.only + "-"
	}
	release, err := s.acquire(ctx, c, token.Amount{Runs: 1, Memory: q.Options.Memory, CPUs: q.Options.CPUs})
	if err != nil {
		return nil, err
	}
	defer release()
	st, err := s.config.Agents.Check(ctx, c.engine, q)
	if err != nil {
		return nil, err
	}
	*st = c.hideHostDetails(*st)
	return st, nil
}

// bounds returns what the operator lets the caller use of the host; nil for the operator.
func (s *Server) bounds(c *call) *session.Bounds {
	if c.caller.local {
		return nil
	}
	return &session.Bounds{Agents: s.config.AllowAgents, Credential: c.caller.mayUse, Packages: c.caller.isOperator()}
}

func (s *Server) listAgents(_ context.Context, c *call, in *Page) (*api.List[api.AgentState], error) {
	all, err := s.config.Agents.All()
	if err != nil {
		return nil, err
	}
	list := []api.AgentState{}
	for _, e := range all {
		list = append(list, c.hideHostDetails(s.config.Agents.State(e)))
	}
	return cut(*in, list, func(a api.AgentState) string { return a.Name })
}

// hideHostDetails leaves out what only the operator may know of the host: files and sources of
// credentials.
func (c *call) hideHostDetails(a api.AgentState) api.AgentState {
	if !c.caller.isOperator() {
		a.File, a.Program, a.Shown, a.Credentials = "", "", []string{}, []string{}
		if a.Installed {
			a.Problem = ""
		}
	}
	return a
}

// InAgent is the input of a route about one agent.
type InAgent struct {
	Agent string `path:"agent" doc:"Name of the agent." maxLength:"63"`
}

func (s *Server) getAgent(_ context.Context, c *call, in *InAgent) (*api.AgentDocument, error) {
	e, err := s.config.Agents.Find(in.Agent)
	if err != nil {
		return nil, err
	}
	doc := &api.AgentDocument{AgentState: c.hideHostDetails(s.config.Agents.State(e))}
	if e.File == "" || c.caller.isOperator() {
		doc.Document = string(e.Text)
	}
	return doc, nil
}

type agentCredentialsInput struct {
	InAgent
	Page
	Mode string `query:"mode" enum:"strict,development,build,breakglass" default:"strict" doc:"The mode of the session."`
}

func (s *Server) agentCredentials(_ context.Context, _ *call, in *agentCredentialsInput) (*api.List[api.CredentialDecision], error) {
	list, err := s.config.Agents.Why(in.Agent, in.Mode)
	if err != nil {
		return nil, err
	}
	return cut(in.Page, list, func(d api.CredentialDecision) string { return d.Credential })
}
