package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// sessionTools returns the tools for sessions of coding agents. A daemon has them: one
// cell has no agents.
func sessionTools() []tool {
	list := []tool{
		define(tool{op: op.ListAgents, name: "agent_list", title: "List coding agents", about: "List the coding agents of the host, and whether each is ready."}, listAgents),
		define(tool{
			op: op.CreateSession, name: "session_start", title: "Start a coding agent",
			about: "Start a coding agent in a fork of a cell, and return when it runs. It goes on by itself: session_show tells how it is, session_send types into its terminal. The agent generic is any program, which arguments begin with.",
		}, startSession),
		define(tool{op: op.ListSessions, name: "session_list", title: "List sessions", about: "List the sessions of coding agents with their status, the oldest first."}, listSessions),
		define(tool{op: op.GetSession, name: "session_show", title: "Show a session", about: "Show the status, terms, runs and decision of a session. The session is a cell, too: diff, events and read_file take its name."}, showSession),
		pass(op.SendMessage, tool{
			name: "session_send", title: "Type into a session",
			about: "Type a message into the terminal of a running session, and press Enter.",
		}, describeSent),
		define(tool{op: op.ListTurns, name: "session_turns", title: "List turns", about: "List the turns of a session: states that it can be taken back to."}, listTurns),
		define(tool{op: op.GetTimeline, name: "session_timeline", title: "List what happened", about: "List what happened in a session, in order: launches, ends, network decisions, turns, decisions."}, listTimeline),
		define(tool{
			op: op.RewindSession, name: "session_rewind", title: "Take a session back",
			about: "Take a session back to the state after a turn, and start its agent again. Without a turn, back to the one before the last. What is left stays until it is collected.",
		}, rewindSession),
		pass(op.StopSession, tool{
			name: "session_stop", title: "End a session",
			about: "End a session. Its changes become a run with a receipt, which is pending until it is accepted.",
		}, func(i *api.AgentSession) string { return sessionLine(*i) }),
		define(tool{
			op: op.AcceptSession, name: "session_accept", title: "Accept a session",
			about: "Decide that what an ended session changed stands; with apply, also write it to the source directory.",
		}, acceptSession),
		define(tool{
			op: op.PublishSession, name: "session_publish", title: "Publish a session",
			about: "Put the accepted work of a session on a new branch of the source's repository, as a commit that the operator's key signs.",
		}, publishSession),
	}
	for i := range list {
		list[i].daemon = true
	}
	return list
}

// InSession is the argument of a tool that is about one session.
type InSession struct {
	Session string `json:"session" doc:"Name of the session." maxLength:"63"`
}

// ofSession returns the request for a verb of a session.
func ofSession(name, verb string, body any) request {
	return request{method: http.MethodPost, path: path("sessions", name) + "/" + verb, body: body}
}

// pageArgs are the arguments of a list.
type pageArgs struct {
	Limit  int    `json:"limit,omitempty" minimum:"1" maximum:"1000" doc:"At most so many; 100 by default."`
	Cursor string `json:"cursor,omitempty" doc:"The cursor of the page before."`
}

// query returns the query of a page.
func (p pageArgs) query() query {
	q := query{}
	q.number("limit", p.Limit)
	q.set("cursor", p.Cursor)
	return q
}

func listAgents(ctx context.Context, c *call, in pageArgs) (*answer, error) {
	list, raw, err := fetch[api.List[api.AgentState]](ctx, c, request{method: http.MethodGet, path: path("agents"), query: url.Values(in.query())})
	if err != nil {
		return nil, err
	}
	lines := []string{api.Counted(len(list.Items), "agent")}
	for _, a := range list.Items {
		state := "ready"
		if !a.Ready {
			state = "not ready " + a.Problem
		}
		lines = append(lines, strings.TrimSpace(a.Name+" "+a.Version)+": "+strings.TrimSpace(state))
	}
	return &answer{raw, strings.Join(lines, "\n")}, nil
}

func startSession(ctx context.Context, c *call, in api.CreateSession) (*answer, error) {
	return describeSession(ctx, c, request{method: http.MethodPost, path: path("sessions"), body: in})
}

// describeSession sends a request whose answer is a session.
func describeSession(ctx context.Context, c *call, r request) (*answer, error) {
	doc, raw, err := fetch[api.AgentSession](ctx, c, r)
	if err != nil {
		return nil, err
	}
	return &answer{raw, sessionLine(*doc)}, nil
}

func sessionLine(i api.AgentSession) string {
	text := fmt.Sprintf("session %s: %s %s", i.SessionID, i.Agent, i.Status)
	if i.Mode != "" { // it was started
		text += fmt.Sprintf(", mode %s, %s", i.Mode, i.CurrentAssurance)
	}
	if i.ExitStatus != nil {
		text += fmt.Sprintf(", exit %d", *i.ExitStatus)
	}
	if i.Decision != "" {
		text += ", " + i.Decision
	}
	return text
}

type listSessionsArgs struct {
	Agent  string `json:"agent,omitempty" doc:"Only sessions of this agent."`
	Status string `json:"status,omitempty" enum:"starting,running,paused,stopping,exited,failed,aborted,interrupted" doc:"Only sessions with this status."`
	pageArgs
}

func listSessions(ctx context.Context, c *call, in listSessionsArgs) (*answer, error) {
	q := in.query()
	q.set("agent", in.Agent)
	q.set("status", in.Status)
	list, raw, err := fetch[api.List[api.AgentSession]](ctx, c, request{method: http.MethodGet, path: path("sessions"), query: url.Values(q)})
	if err != nil {
		return nil, err
	}
	lines := []string{api.Counted(len(list.Items), "session")}
	for _, i := range list.Items {
		lines = append(lines, sessionLine(i))
	}
	return &answer{raw, strings.Join(lines, "\n")}, nil
}

func showSession(ctx context.Context, c *call, in InSession) (*answer, error) {
	return describeSession(ctx, c, request{method: http.MethodGet, path: path("sessions", in.Session)})
}

func describeSent(m *api.SentMessage) string {
	said := fmt.Sprintf("%s typed into session %s", api.Counted(m.SentBytes, "byte"), m.SessionID)
	if !m.Confirmed {
		said += "; the program has shown no reaction"
	}
	return said
}

type pagedSessionArgs struct {
	InSession
	pageArgs
}

func listTurns(ctx context.Context, c *call, in pagedSessionArgs) (*answer, error) {
	list, raw, err := fetch[api.List[api.TurnInfo]](ctx, c, request{method: http.MethodGet, path: path("sessions", in.Session, "turns"), query: url.Values(in.query())})
	if err != nil {
		return nil, err
	}
	lines := []string{api.Counted(len(list.Items), "turn")}
	for _, t := range list.Items {
		line := fmt.Sprintf("turn %d: %s, %s changed, +%d -%d", t.Turn, t.CheckpointID, api.Counted(t.ChangedFiles, "file"), t.Added, t.Removed)
		if t.Left {
			line += ", left"
		}
		lines = append(lines, line)
	}
	return &answer{raw, strings.Join(lines, "\n")}, nil
}

func listTimeline(ctx context.Context, c *call, in pagedSessionArgs) (*answer, error) {
	list, raw, err := fetch[api.List[api.TimelineEntry]](ctx, c, request{method: http.MethodGet, path: path("sessions", in.Session, "timeline"), query: url.Values(in.query())})
	if err != nil {
		return nil, err
	}
	lines := []string{}
	for _, t := range list.Items {
		lines = append(lines, t.At.UTC().Format("15:04:05.000 ")+t.Kind+" "+t.Summary)
	}
	if len(lines) == 0 {
		lines = []string{"nothing"}
	}
	return &answer{raw, strings.Join(lines, "\n")}, nil
}

type rewindArgs struct {
	InSession
	api.RewindBody
}

func rewindSession(ctx context.Context, c *call, in rewindArgs) (*answer, error) {
	doc, raw, err := fetch[api.RewoundSession](ctx, c, ofSession(in.Session, "rewind", in.RewindBody))
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("session %s is back at turn %d, %s; %s is left", in.Session, doc.Turn, doc.CheckpointID, doc.Left)
	if doc.Session != nil {
		text += "\n" + sessionLine(*doc.Session)
	}
	return &answer{raw, text}, nil
}

type acceptSessionArgs struct {
	InSession
	api.AcceptRequest
}

func acceptSession(ctx context.Context, c *call, in acceptSessionArgs) (*answer, error) {
	if err := checkNamed(ctx, c, in.Session, in.AcceptRequest); err != nil {
		return nil, err
	}
	doc, raw, err := fetch[api.AcceptResult](ctx, c, ofSession(in.Session, "accept", in.AcceptRequest))
	if err != nil {
		return nil, err
	}
	text := "session " + in.Session + " is accepted"
	if doc.Applied != nil {
		text += "; " + describeApply(doc.Applied)
	}
	return &answer{raw, text}, nil
}

type publishArgs struct {
	InSession
	api.PublishBody
}

func publishSession(ctx context.Context, c *call, in publishArgs) (*answer, error) {
	doc, raw, err := fetch[api.PublishResult](ctx, c, ofSession(in.Session, "publish", in.PublishBody))
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%s on branch %s: commit %s", api.Counted(doc.Files, "file"), doc.Branch, doc.Commit)
	if doc.DryRun {
		text = "dry run: " + text
	}
	if doc.PullRequest != "" {
		text += ", pull request " + doc.PullRequest
	}
	return &answer{raw, text}, nil
}
