package rest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/session"
)

// sessionKeeper has the verbs about sessions of coding agents that cells do not have.
type sessionKeeper interface {
	CellAt(ctx context.Context, dir string) (name, below string, err error)
	SourceDir(ctx context.Context, cell string) (string, error)
	RemoveAll(ctx context.Context, cells []string, force bool) error
	RemoveCells(ctx context.Context, r api.RemoveRequest) error
	Undelete(ctx context.Context, cell string) (*api.CellInfo, error)
	CellRuns(ctx context.Context, cell string) ([]api.RunInfo, error)
	Logs(ctx context.Context, cell, run string) (stdout, stderr io.ReadCloser, err error)
	Sessions(ctx context.Context, cell string) ([]api.SessionInfo, error)
	Turns(ctx context.Context, cell string) (*api.TurnList, error)
	Rewind(ctx context.Context, r api.RewindRequest) (*api.RewindResult, error)
	Publish(ctx context.Context, r api.PublishRequest) (*api.PublishResult, error)
}

// InSession is the input of a route about one session.
type InSession struct {
	Session string `path:"session" doc:"Name of the session, which is that of its cell." maxLength:"63"`
}

// addSessions adds the routes of sessions of coding agents.
func (s *Server) addSessions() {
	handle(s, op.ListSessions, s.listSessions)
	handle(s, op.GetSession,
		func(ctx context.Context, c *call, in *InSession) (*api.AgentSession, error) {
			return c.anySession(ctx, in.Session)
		})
	handle(s, op.ListTurns, listTurns)
	handle(s, op.GetTimeline, timeline)
	handleRaw(s, op.CreateSession, s.createSession)
	handle(s, op.PlanSession, s.planSession)
	routeBy(s, op.SendMessage, sendMessage)
	routeBy(s, op.StopSession, s.stopSession)
	handle(s, op.RewindSession, s.rewindSession)
	handle(s, op.AcceptSession, s.acceptSession)
	handle(s, op.PublishSession, s.publishSession)
	handleRaw(s, op.RemoveSession, removeSession)
	s.addAgentSocket()
}

// missingSession is the error for a session that does not exist, or that the caller may
// not know of.
func missingSession(name string) error {
	return api.Missing("session", name, "GET /v1/sessions lists them")
}

// session describes a session that was started to the caller.
func (c *call) session(ctx context.Context, name string) (*api.AgentSession, error) {
	i, err := c.wholeSession(ctx, name, session.ShowStarted)
	if err == nil {
		c.hideSources(&i.SessionTerms)
	}
	return i, err
}

// anySession describes a session to the caller, also one whose start was interrupted.
func (c *call) anySession(ctx context.Context, name string) (*api.AgentSession, error) {
	i, err := c.wholeSession(ctx, name, session.Show)
	if err == nil {
		c.hideSources(&i.SessionTerms)
	}
	return i, err
}

// shower is session.Show or session.ShowStarted.
type shower = func(ctx context.Context, r session.Describer, name string, now time.Time) (*api.AgentSession, error)

// wholeSession describes a session with what only the operator is told.
func (c *call) wholeSession(ctx context.Context, name string, show shower) (*api.AgentSession, error) {
	i, err := show(ctx, c.engine, name, time.Now())
	if err != nil && api.KindOf(err) == api.NotFound {
		return nil, missingSession(name)
	}
	return i, err
}

// hideSources leaves out where the values of credentials come from, which are paths of the
// operator's host, if the caller is not the operator.
func (c *call) hideSources(t *api.SessionTerms) {
	if t == nil || c.caller.isOperator() {
		return
	}
	t.Credentials = slices.Clone(t.Credentials)
	for i, text := range t.Credentials {
		if what, source, _ := strings.Cut(text, ", from "); source != session.FromRequest {
			t.Credentials[i] = what
		}
	}
}

// visibleCells reads what a caller may know of.
type visibleCells struct {
	Engine
	call *call
}

// ListMatching lists the cells that the caller sees.
func (v visibleCells) ListMatching(ctx context.Context, f api.CellFilter) ([]api.CellInfo, error) {
	f.Prefix = v.call.caller.grant.Cells
	cells, err := v.Engine.ListMatching(ctx, f)
	return slices.DeleteFunc(cells, func(i api.CellInfo) bool { return !v.call.caller.sees(i.Name) }), err
}

type listSessionsInput struct {
	Page
	Agent  string `query:"agent" doc:"Only sessions of this agent."`
	Status string `query:"status" enum:"starting,running,paused,stopping,exited,failed,aborted,interrupted" doc:"Only sessions with this status."`
}

func (s *Server) listSessions(ctx context.Context, c *call, in *listSessionsInput) (*api.List[api.AgentSession], error) {
	list, err := session.List(ctx, visibleCells{c.engine, c}, in.Agent, "", time.Now())
	if err != nil {
		return nil, err
	}
	for i := range list {
		c.hideSources(&list[i].SessionTerms)
	}
	list = slices.DeleteFunc(list, func(i api.AgentSession) bool { return in.Status != "" && i.Status != in.Status })
	return cut(in.Page, list, func(i api.AgentSession) string { return timeKey(i.StartedAt, i.CellID) })
}

type pagedSession struct {
	InSession
	Page
}

func listTurns(ctx context.Context, c *call, in *pagedSession) (*api.List[api.TurnInfo], error) {
	if _, err := c.session(ctx, in.Session); err != nil {
		return nil, err
	}
	list, err := c.engine.Turns(ctx, in.Session)
	if err != nil {
		return nil, err
	}
	return cut(in.Page, list.Turns, func(t api.TurnInfo) string { return fmt.Sprintf("%010d", t.Turn) })
}

// timeline lists what happened in a session. Several things may have happened at one
// time: they have a number.
func timeline(ctx context.Context, c *call, in *pagedSession) (*api.List[api.TimelineEntry], error) {
	if _, err := c.session(ctx, in.Session); err != nil {
		return nil, err
	}
	after, err := in.position()
	if err != nil {
		return nil, err
	}
	span := session.Span{Limit: in.Limit + 1} // one more says that there is a next page
	if after != "" {
		if span.From, err = agedAt(after); err != nil {
			return nil, err
		}
	}
	all, err := session.Timeline(ctx, c.engine, in.Session, time.Now(), span)
	if err != nil {
		return nil, err
	}
	type placed struct {
		api.TimelineEntry
		key string
	}
	list, same := make([]placed, len(all)), 0
	for i, t := range all {
		if same++; i == 0 || !t.At.Equal(all[i-1].At) {
			same = 0
		}
		list[i] = placed{t, timeKey(t.At, fmt.Sprintf("%08d", same))}
	}
	page, err := cut(in.Page, list, func(p placed) string { return p.key })
	if err != nil {
		return nil, err
	}
	out := &api.List[api.TimelineEntry]{Items: []api.TimelineEntry{}, Next: page.Next}
	for _, p := range page.Items {
		out.Items = append(out.Items, p.TimelineEntry)
	}
	return out, nil
}

// sessionInput is the input of a route that changes a session. The body may be left out.
type sessionInput[B any] struct {
	InSession
	IfMatch
	Body *B
}

func (in *sessionInput[B]) body() (b B) {
	if in.Body != nil {
		b = *in.Body
	}
	return b
}

func sendMessage(ctx context.Context, c *call, in *api.SendRequest) (*api.SentMessage, error) {
	if _, err := c.session(ctx, in.Session); err != nil {
		return nil, err
	}
	agent, err := session.Command(ctx, c.engine, in.Session)
	if err != nil {
		return nil, err
	}
	sent, err := session.Send(ctx, c.engine, in.Session, agent.ExecID, in.Message, !in.NoNewline)
	return &sent, err
}

func (s *Server) stopSession(ctx context.Context, c *call, in *api.StopSessionRequest) (*api.AgentSession, error) {
	i, err := c.session(ctx, in.Session)
	if err != nil {
		return nil, err
	}
	q := api.StopRequest{Cell: in.Session, Grace: -1}
	if in.Force {
		q.Grace = 0
	}
	res, err := c.engine.Stop(ctx, q)
	s.metrics.run(res)
	if err := session.StopError(i, err); err != nil {
		return nil, err
	}
	return c.session(ctx, in.Session)
}

func (s *Server) acceptSession(ctx context.Context, c *call, in *sessionInput[api.AcceptRequest]) (*api.AcceptResult, error) {
	i, err := c.session(ctx, in.Session)
	if err == nil {
		err = session.RefuseRunning(i)
	}
	if err != nil {
		return nil, err
	}
	req := in.body()
	req.Cell = in.Session
	return c.engine.Accept(ctx, req)
}

type publishInput struct {
	InSession
	IfMatch
	Body api.PublishBody
}

// publishSession publishes for the operator: by the operator's git, name and key.
func (s *Server) publishSession(ctx context.Context, c *call, in *publishInput) (*api.PublishResult, error) {
	if !c.caller.local && !s.config.Publish.Allowed {
		return nil, api.Refusef(api.CodeForbidden, "the operator allows it with `forkcell serve --allow-publish`",
			"the caller may not publish: a commit has the operator's name and signature")
	}
	i, err := c.session(ctx, in.Session)
	if err == nil {
		err = session.RefusePending(i)
	}
	if err != nil {
		return nil, err
	}
	expect, err := expectation(in.Match)
	if err != nil {
		return nil, err
	}
	who := s.engineCaller(c, expect, s.config.Publish.Env)
	who.Home = s.config.Publish.Home
	b := in.Body
	return s.config.Engine(who).Publish(ctx, api.PublishRequest{
		Cell: in.Session, Branch: b.Branch, Base: b.Base, Title: b.Title, Message: b.Message, Sign: b.Sign, Push: b.Push || b.PR, PR: b.PR,
		KeepCommits: b.KeepCommits, DryRun: b.DryRun, Settings: s.config.Publish.Settings, HasToken: !c.caller.local,
	})
}

type removeSessionInput struct {
	InSession
	IfMatch
	Force bool `query:"force" doc:"Also if its work was not decided or not applied."`
}

func removeSession(ctx context.Context, c *call, in *removeSessionInput) (*empty, error) {
	i, err := c.anySession(ctx, in.Session)
	if err == nil {
		err = session.RefuseDelete(i, in.Force)
	}
	if err != nil {
		return nil, err
	}
	return &empty{}, c.engine.RemoveCells(ctx, api.RemoveRequest{Cells: []string{in.Session}, Stop: true, Force: in.Force})
}
