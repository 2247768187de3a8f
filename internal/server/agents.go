package server

import (
	"context"
	"net/http"

	"github.com/forkcell/forkcell/internal/api"
)

// addAgents adds the routes about the coding agents of the host.
func (s *Server) addAgents() {
	get := func(below, id, summary string, needs Scope) route {
		return route{method: http.MethodGet, path: "/v1/agents" + below, id: id, tag: tagSessions, summary: summary, needs: []Scope{needs}}
	}
	handle(s, get("", "listAgents", "List the coding agents of the host", Read), s.listAgents)
	handle(s, get("/{agent}", "getAgent", "Show a coding agent and its adapter", Read), s.getAgent)
	handle(s, get("/{agent}/credentials", "listAgentCredentials", "Say which credentials a session would get, and why", Admin), s.agentCredentials)
}

func (s *Server) listAgents(_ context.Context, c *call, in *Page) (*api.List[api.AgentState], error) {
	all, err := s.config.Agents.All()
	if err != nil {
		return nil, err
	}
	list := []api.AgentState{}
	for _, e := range all {
		list = append(list, c.shown(s.config.Agents.State(e)))
	}
	return cut(*in, list, func(a api.AgentState) string { return a.Name })
}

// shown leaves out what only the operator may know of the host: files and sources of
// credentials.
func (c *call) shown(a api.AgentState) api.AgentState {
	if !c.caller.may(Admin) {
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
	doc := &api.AgentDocument{AgentState: c.shown(s.config.Agents.State(e))}
	if e.File == "" || c.caller.may(Admin) {
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
