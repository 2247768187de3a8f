package web

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/evidence/event"
	agentsession "github.com/forkcell/forkcell/internal/session"
)

// turnsOnPage is how many turns a page lists, the newest ones.
const turnsOnPage = 200

func (s *Site) addAgent() {
	s.get("/cells/{cell}/session", (*request).agentPage)
	s.post("/cells/{cell}/rewind", (*request).rewind)
}

// agentBody is the page of the session of a coding agent.
type agentBody struct {
	*api.StatusResult
	Run *api.RunInfo // the last one of the agent
	// Changed is how many files the session changed since it began, up to its present or
	// last captured state.
	Changed int
	// Turns are the newest turns, the last one first. Older counts the others.
	Turns []turn
	Older int
	// Messages are the newest messages that were sent to the agent, the last one first.
	Messages []eventLine
	// Unread is why not all messages could be read.
	Unread string
	Output []stream
	MayRun bool
}

// turn is a turn, with the state of the one before, which is "" for the first.
type turn struct {
	api.TurnInfo
	Before string
}

// agentPage shows what a coding agent may do, and its turns.
func (q *request) agentPage() error {
	name, err := q.cell()
	if err != nil {
		return err
	}
	ctx := q.Context()
	body := agentBody{MayRun: q.may(op.RewindSession)}
	if body.StatusResult, err = q.engine.Status(ctx, name); err != nil {
		return err
	}
	runs, _, err := q.engine.RecentRuns(ctx, name, 0, runsOnPage)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(runs, isAgent)
	if at < 0 {
		return api.Missing("session of an agent in cell", name, "`forkcell session list` shows them")
	}
	if body.Run, err = q.engine.RunInfo(ctx, runs[at].RunID); err != nil {
		return err
	}
	info, err := agentsession.Show(ctx, q.engine, name, time.Now())
	if err != nil {
		return err
	}
	body.Changed = info.ChangedFiles
	list, err := q.engine.Turns(ctx, name)
	if err != nil {
		return err
	}
	for i, t := range list.Turns {
		before := ""
		if i > 0 {
			before = list.Turns[i-1].CheckpointID
		}
		body.Turns = append(body.Turns, turn{t, before})
	}
	slices.Reverse(body.Turns)
	body.Older = max(0, len(body.Turns)-turnsOnPage)
	body.Turns = body.Turns[:len(body.Turns)-body.Older]
	if body.Messages, err = q.messages(ctx, name); err != nil {
		body.Unread = q.problem(err)
	}
	body.Output = q.outputTails(ctx, body.Run.RunID)
	return q.show("session", frame{Title: "Session " + name, Nav: "cells", Live: liveRun(body.Run), Body: body})
}

// messages lists what was typed into a session, before and after rewinds: when and how
// much. What it was is not recorded.
func (q *request) messages(ctx context.Context, cell string) (list []eventLine, err error) {
	err = q.engine.Events(ctx, api.EventQuery{Cell: cell, Class: int(event.ConfigChange), Limit: eventsRead}, func(rec event.Record) error {
		if l := newEventLine(rec); l.state == event.MessageTyped {
			list = append(list, l)
		}
		return nil
	})
	slices.Reverse(list)
	return list[:min(len(list), turnsOnPage)], err
}

// isAgent reports whether a run is one of a coding agent.
func isAgent(r api.RunInfo) bool { return r.Session != nil }

// rewind takes a session back to a turn. The number of a turn always means the same
// state, so the session may have gone on meanwhile.
func (q *request) rewind() error {
	name, err := q.cell()
	if err == nil {
		err = q.need(op.RewindSession)
	}
	if err != nil {
		return err
	}
	to, err := strconv.Atoi(q.PostForm.Get("turn"))
	if err != nil || to < 0 {
		return api.Usagef("use the buttons of the page", "malformed number of a turn")
	}
	if _, err := q.engine.Rewind(q.Context(), api.RewindRequest{Cell: name, To: to}); err != nil {
		return err
	}
	return q.goTo(path("cells", name, "session") + "?done=rewound")
}
