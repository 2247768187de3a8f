package op

import (
	"github.com/forkcell/forkcell/internal/api"
)

const tagSessions = "sessions"

// Operations on sessions of coding agents, and on the agents.
var (
	ListAgents = Verb{
		ID: "listAgents", Method: "GET", Path: "/v1/agents", Tag: tagSessions,
		Summary: "List the coding agents of the host", Needs: []Scope{ScopeRead},
	}
	GetAgent = Verb{
		ID: "getAgent", Method: "GET", Path: "/v1/agents/{agent}", Tag: tagSessions,
		Summary: "Show a coding agent and its adapter", Needs: []Scope{ScopeRead},
	}
	CheckAgent = Verb{
		ID: "checkAgent", Method: "POST", Path: "/v1/agents/{agent}/check", Tag: tagSessions,
		Summary: "Start a coding agent in an empty cell, far enough to see it print its version", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true,
	}
	ListAgentCredentials = Verb{
		ID: "listAgentCredentials", Method: "GET", Path: "/v1/agents/{agent}/credentials", Tag: tagSessions,
		Summary: "Say which credentials a session would get, and why", Needs: []Scope{ScopeAdmin, ScopeUnbounded},
	}
	ListSessions = Verb{
		ID: "listSessions", Method: "GET", Path: "/v1/sessions", Tag: tagSessions, Command: "session list",
		Summary: "List sessions of coding agents", Needs: []Scope{ScopeRead},
	}
	CreateSession = Verb{
		ID: "createSession", Method: "POST", Path: "/v1/sessions", Tag: tagSessions,
		Summary: "Start a coding agent in a fork of a cell", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true, Status: created,
	}
	PlanSession = Verb{
		ID: "planSession", Method: "POST", Path: "/v1/sessions/plan", Tag: tagSessions,
		Summary: "Show what would be decided about a session, without starting it", Needs: []Scope{ScopeRun},
	}
	GetSession = Verb{
		ID: "getSession", Method: "GET", Path: "/v1/sessions/{session}", Tag: tagSessions, Command: "session show {session}",
		Summary: "Show a session", Needs: []Scope{ScopeRead},
	}
	RemoveSession = Verb{
		ID: "removeSession", Method: "DELETE", Path: "/v1/sessions/{session}", Tag: tagSessions, Command: "session delete {session}",
		Summary: "Remove a session that has ended", Needs: []Scope{ScopeRun}, Effect: Destroys, Idempotent: true, Status: noContent,
	}
	AcceptSession = Verb{
		ID: "acceptSession", Method: "POST", Path: "/v1/sessions/{session}/accept", Tag: tagSessions, Command: "session accept {session}",
		Summary: "Accept what a session changed", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Adds,
	}
	AgentSocket = Verb{
		ID: "agentSocket", Method: "GET", Path: "/v1/sessions/{session}/agent", Tag: tagSessions,
		Summary: "Execute the agent of a session that was started with hold, with its streams in a WebSocket", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true, Kind: KindSocket, Status: switched, Also: []int{upgrade},
	}
	PublishSession = Verb{
		ID: "publishSession", Method: "POST", Path: "/v1/sessions/{session}/publish", Tag: tagSessions, Command: "session publish {session}",
		Summary: "Put the accepted work of a session on a new branch", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Adds, Open: true, Also: []int{badGateway},
	}
	RewindSession = Verb{
		ID: "rewindSession", Method: "POST", Path: "/v1/sessions/{session}/rewind", Tag: tagSessions, Command: "session rewind {session}",
		Summary: "Take a session back to a turn", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true,
	}
	SendMessage = Op[api.SendRequest, api.SentMessage]{
		Verb: Verb{
			ID: "sendMessage", Method: "POST", Path: "/v1/sessions/{session}/send", Tag: tagSessions, Command: "session send {session}",
			Summary: "Type a message into a running session", Needs: []Scope{ScopeRun}, Effect: Adds, Open: true,
		},
	}
	StopSession = Op[api.StopSessionRequest, api.AgentSession]{
		Verb: Verb{
			ID: "stopSession", Method: "POST", Path: "/v1/sessions/{session}/stop", Tag: tagSessions, Command: "session stop {session}",
			Summary: "End a session", Needs: []Scope{ScopeRun}, Effect: Adds, Idempotent: true, Moment: true,
		},
	}
	GetTimeline = Verb{
		ID: "getTimeline", Method: "GET", Path: "/v1/sessions/{session}/timeline", Tag: tagSessions, Command: "session timeline {session}",
		Summary: "List what happened in a session", Needs: []Scope{ScopeRead},
	}
	ListTurns = Verb{
		ID: "listTurns", Method: "GET", Path: "/v1/sessions/{session}/turns", Tag: tagSessions, Command: "session turns {session}",
		Summary: "List the turns of a session", Needs: []Scope{ScopeRead},
	}
)
