package remote

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
)

// CellRuns lists all runs of a cell, the oldest first.
func (e *Engine) CellRuns(ctx context.Context, cell string) ([]api.RunInfo, error) {
	return all(e.client.Cells.Named(cell).Runs(ctx))
}

// CountChanges counts what a session changed. The daemon counts that as it describes the
// session.
func (e *Engine) CountChanges(ctx context.Context, r api.DiffRequest) (int, error) {
	info, err := asEngineError(e.client.Sessions.Named(r.Cell).Show(ctx))
	if err != nil {
		return 0, err
	}
	return info.ChangedFiles, nil
}

// Turns lists the turns of a session.
func (e *Engine) Turns(ctx context.Context, cell string) (*api.TurnList, error) {
	session := e.client.Sessions.Named(cell)
	info, err := asEngineError(session.Show(ctx))
	if err != nil {
		return nil, err
	}
	turns, err := all(session.Turns(ctx))
	return &api.TurnList{Cell: cell, Turns: append([]api.TurnInfo{}, turns...), RunIDs: info.RunIDs}, err
}

// Rewind takes a session back to a turn, and starts nothing.
func (e *Engine) Rewind(ctx context.Context, r api.RewindRequest) (*api.RewindResult, error) {
	res, err := asEngineError(e.client.Sessions.Named(r.Cell).Rewind(ctx, client.Rewind{To: &r.To, Reason: r.Reason, NoStart: true}))
	if err != nil {
		return nil, err
	}
	return &res.RewindResult, nil
}

// Agents lists the coding agents of the daemon's host.
func (e *Engine) Agents(ctx context.Context) ([]api.AgentState, error) {
	return all(e.client.Agents.List(ctx))
}

// Agent shows a coding agent of the daemon's host.
func (e *Engine) Agent(ctx context.Context, name string) (*api.AgentDocument, error) {
	return asEngineError(e.client.Agents.Get(ctx, name))
}

// CheckAgent starts a coding agent of the daemon's host in an empty cell, far enough to
// see it print its version.
func (e *Engine) CheckAgent(ctx context.Context, name string) (*api.AgentState, error) {
	return asEngineError(e.client.Agents.Check(ctx, name))
}

// IsLocal reports whether the daemon is one of this host, and so has its directories.
func (e *Engine) IsLocal() bool { return e.client.Local() }

// PlanSession says what would be decided about a session, and starts nothing.
func (e *Engine) PlanSession(ctx context.Context, r api.CreateSession, o api.SessionOptions) (*api.SessionPlan, error) {
	var err error
	if r.SessionSettings, err = e.sessionSettings(ctx, r.SessionSettings, o); err != nil {
		return nil, err
	}
	return asEngineError(e.client.Sessions.Plan(ctx, r))
}

// CreateSession starts a session of an agent of the daemon's host.
func (e *Engine) CreateSession(ctx context.Context, r api.CreateSession, o api.SessionOptions) (*api.AgentSession, error) {
	var err error
	if r.SessionSettings, err = e.sessionSettings(ctx, r.SessionSettings, o); err != nil {
		return nil, err
	}
	s, err := asEngineError(e.client.Sessions.Start(ctx, r))
	if err != nil {
		return nil, err
	}
	return s.Started, nil
}

// RewindSession takes a session back to a turn, and starts its agent again.
func (e *Engine) RewindSession(ctx context.Context, name string, r api.RewindBody, o api.SessionOptions) (*api.RewoundSession, error) {
	var err error
	if r.SessionSettings, err = e.sessionSettings(ctx, r.SessionSettings, o); err != nil {
		return nil, err
	}
	return asEngineError(e.client.Sessions.Named(name).Rewind(ctx, r))
}

// SendMessage types a message into a session, and presses Enter if asked.
func (e *Engine) SendMessage(ctx context.Context, name, text string, enter bool) (api.SentMessage, error) {
	sent, err := asEngineError(e.client.Sessions.Named(name).Send(ctx, client.Send{Message: text, NoNewline: !enter}))
	if err != nil {
		return api.SentMessage{}, err
	}
	return *sent, nil
}

// sessionSettings completes the settings of a session by the options of its cell.
func (e *Engine) sessionSettings(ctx context.Context, s api.SessionSettings, o api.SessionOptions) (api.SessionSettings, error) {
	switch {
	case o.Network.Unrestricted:
		return s, refuse("--unrestricted")
	case o.InjectionPolicy != "":
		return s, refuse("--injection-policy")
	}
	err := textOnly(s.Arguments)
	if err == nil {
		s.RunSettings, err = e.settings(ctx, o.RunOptions)
	}
	return s, err
}

// ExecAgent executes the agent of a session that waits for it, with its streams in a
// socket.
func (e *Engine) ExecAgent(ctx context.Context, r api.ExecRequest, stdio engine.Stdio) (*api.ExecResult, error) {
	q := url.Values{}
	if r.TTY {
		q = url.Values{"tty": {"true"}, "cols": {strconv.Itoa(int(r.Size.Cols))}, "rows": {strconv.Itoa(int(r.Size.Rows))}}
	}
	for _, kv := range r.Env {
		if term, ok := strings.CutPrefix(kv, "TERM="); ok {
			q.Set("term", term)
		}
	}
	if stdio.In == nil {
		stdio.In = emptyInput{}
	}
	return e.attend(ctx, op.AgentSocket.At(r.Cell)+"?"+q.Encode(), r, stdio)
}
