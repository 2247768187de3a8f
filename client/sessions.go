package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Sessions starts and finds sessions of coding agents.
type Sessions struct{ client *Client }

// SessionFilter selects sessions. Zero fields select all.
type SessionFilter struct {
	Agent string
	// Status is starting, running, stopping, exited, failed, aborted or interrupted.
	Status string
}

// Start starts an agent in a fork of a cell. It runs on without the caller.
func (s *Sessions) Start(ctx context.Context, r CreateSession, opts ...CallOption) (*Session, error) {
	info, err := post[AgentSession](ctx, s.client, op.CreateSession.Path, r, opts)
	if err != nil {
		return nil, err
	}
	return s.client.session(info.SessionID, info), nil
}

// Plan returns what would be decided about a session, and starts nothing.
func (s *Sessions) Plan(ctx context.Context, r CreateSession) (*SessionPlan, error) {
	return post[SessionPlan](ctx, s.client, op.PlanSession.Path, r, nil)
}

// List returns the sessions, the oldest first.
func (s *Sessions) List(ctx context.Context, f SessionFilter) iter.Seq2[AgentSession, error] {
	return list[AgentSession](ctx, s.client, op.ListSessions.Path, url.Values{"agent": {f.Agent}, "status": {f.Status}})
}

// Get returns a session that exists.
func (s *Sessions) Get(ctx context.Context, name string) (*Session, error) {
	found := s.Named(name)
	_, err := found.Show(ctx)
	return found, err
}

// Named returns a session without asking the daemon whether it exists.
func (s *Sessions) Named(name string) *Session { return s.client.session(name, nil) }

// Session is a session of a coding agent. Its cell has the verbs that all cells have,
// such as Diff and Reject.
type Session struct {
	Name string
	// Started is what the session was when this client started it, else nil.
	Started *AgentSession

	client *Client
	cell   *Cell
}

func (c *Client) session(name string, started *AgentSession) *Session {
	return &Session{Name: name, Started: started, client: c, cell: c.Cells.Named(name)}
}

// Cell returns the cell of the session.
func (s *Session) Cell() *Cell { return s.cell }

// Show returns everything about the session.
func (s *Session) Show(ctx context.Context) (*AgentSession, error) {
	return get[AgentSession](ctx, s.client, op.GetSession.At(s.Name))
}

// Turns returns the turns of the session, the oldest first.
func (s *Session) Turns(ctx context.Context) iter.Seq2[TurnInfo, error] {
	return list[TurnInfo](ctx, s.client, op.ListTurns.At(s.Name), nil)
}

// Timeline returns what happened in the session, in order.
func (s *Session) Timeline(ctx context.Context) iter.Seq2[TimelineEntry, error] {
	return list[TimelineEntry](ctx, s.client, op.GetTimeline.At(s.Name), nil)
}

// Send types a message into the running session, and presses Enter.
func (s *Session) Send(ctx context.Context, r Send, opts ...CallOption) (*SentMessage, error) {
	r.Session = s.Name
	return ask(ctx, s.client, op.SendMessage, r, opts)
}

// Stop ends the session. Its run gets its receipt.
func (s *Session) Stop(ctx context.Context, r StopSession, opts ...CallOption) (*AgentSession, error) {
	r.Session = s.Name
	return ask(ctx, s.client, op.StopSession, r, opts)
}

// Rewind takes the session back to a turn, and starts its agent again.
func (s *Session) Rewind(ctx context.Context, r Rewind, opts ...CallOption) (*RewoundSession, error) {
	return post[RewoundSession](ctx, s.client, op.RewindSession.At(s.Name), r, opts)
}

// Accept accepts what the session changed, as Accept of its Cell does. It must have ended.
func (s *Session) Accept(ctx context.Context, r Accept, opts ...CallOption) (*AcceptResult, error) {
	if r.Apply {
		if sent, err := s.Cell().isSent(ctx); sent || err != nil {
			return here(err, func() (*AcceptResult, error) { return s.Cell().Accept(ctx, r, opts...) })
		}
	}
	s.cell.seen.bind(&r, opts)
	r.Cell = ""
	res, err := post[AcceptResult](ctx, s.client, op.AcceptSession.At(s.Name), r, opts)
	if err == nil {
		s.cell.seen.set(nil)
	}
	return res, err
}

// Publish puts the accepted work on a new branch of the source's repository.
func (s *Session) Publish(ctx context.Context, r Publish, opts ...CallOption) (*PublishResult, error) {
	return post[PublishResult](ctx, s.client, op.PublishSession.At(s.Name), r, opts)
}

// Remove removes a session that has ended. Its receipts stay. With force it is removed
// although its work was not decided.
func (s *Session) Remove(ctx context.Context, force bool, opts ...CallOption) error {
	path := op.RemoveSession.At(s.Name)
	if force {
		path += "?force=true"
	}
	in, err := newCall(http.MethodDelete, path, nil, opts)
	if err != nil {
		return err
	}
	_, err = receive[struct{}](ctx, s.client, in)
	return err
}

// Agents shows the coding agents of the daemon's host.
type Agents struct{ client *Client }

// List returns the agents, by name.
func (s *Agents) List(ctx context.Context) iter.Seq2[AgentState, error] {
	return list[AgentState](ctx, s.client, op.ListAgents.Path, nil)
}

// Get returns an agent, with the document that describes it.
func (s *Agents) Get(ctx context.Context, name string) (*AgentDocument, error) {
	return get[AgentDocument](ctx, s.client, op.GetAgent.At(name))
}

// Check starts an agent in an empty cell, far enough to see it print its version.
func (s *Agents) Check(ctx context.Context, name string, opts ...CallOption) (*AgentState, error) {
	return post[AgentState](ctx, s.client, op.CheckAgent.At(name), nil, opts)
}

// Credentials says which credentials a session of an agent would get in a mode, and why.
// It never returns a value.
func (s *Agents) Credentials(ctx context.Context, name, mode string) iter.Seq2[CredentialDecision, error] {
	return list[CredentialDecision](ctx, s.client, op.ListAgentCredentials.At(name), url.Values{"mode": {mode}})
}
