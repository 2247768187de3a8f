package rest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/token"
	"github.com/forkcell/forkcell/internal/session"
)

// PublishConfig has the operator's settings that publications use.
type PublishConfig struct {
	// Allowed lets callers with a token publish. The daemon's own user always may.
	Allowed bool
	// Env and Home are the operator's, for git. Settings is the operator's file of
	// settings; it need not exist.
	Env            []string
	Home, Settings string
}

// plannedSession is a session that was decided about, and what it is started with.
type plannedSession struct {
	*session.Prepared

	env    []string // values of credentials
	amount token.Amount
}

type createSessionInput struct {
	Body api.CreateSession
}

type createdSession struct {
	Location string `header:"Location" doc:"Where the session is."`
	Body     *api.AgentSession
}

// createSession starts an agent. It runs on without the caller.
func (s *Server) createSession(ctx context.Context, c *call, in *createSessionInput) (*createdSession, error) {
	b := in.Body
	if b.Name != "" {
		if err := c.mayName(b.Name); err != nil {
			return nil, err
		}
	}
	p, err := s.newSession(ctx, c, b)
	if err != nil {
		return nil, err
	}
	e := sessionEngine{s.actFor(c, nil, p.env), s, c, p.amount}
	started, err := session.Begin(ctx, e, p.order(s, b.Cell, b.Name))
	if err != nil {
		return nil, err
	}
	i, err := s.executeAgent(ctx, c, e, started, b.Hold)
	return &createdSession{Location: "/v1/sessions/" + started.Cell, Body: i}, err
}

// executeAgent executes the agent of a session, or holds it for its first client, and
// describes the session.
func (s *Server) executeAgent(ctx context.Context, c *call, e sessionEngine, started *session.Running, hold bool) (*api.AgentSession, error) {
	if hold {
		s.held.keep(started)
	} else if err := started.Leave(ctx, e); err != nil {
		return nil, errors.Join(err, started.Undo(ctx, e))
	}
	return c.session(context.WithoutCancel(ctx), started.Cell)
}

func (p *plannedSession) order(s *Server, base, name string) session.Start {
	return session.Start{
		Plan: p.Plan, Base: base, Name: name, OnTop: p.Plan.OnTop, Options: p.Options, PathDirs: p.PathDirs,
		Notes: func(text string) { s.logger.Info("session", "base", base, "note", text) },
	}
}

func (s *Server) planSession(ctx context.Context, c *call, in *createSessionInput) (*api.SessionPlan, error) {
	p, err := s.newSession(ctx, c, in.Body)
	if err != nil {
		return nil, err
	}
	out := p.Plan.SessionPlan
	c.hideSources(&out.Terms)
	out.UsedCredentials = slices.Clone(out.UsedCredentials)
	for i := range out.UsedCredentials {
		if used := &out.UsedCredentials[i]; !slices.Contains(out.Terms.Credentials, used.String()) {
			used.Source = ""
		}
	}
	return &out, nil
}

// newSession decides about a new session.
func (s *Server) newSession(ctx context.Context, c *call, b api.CreateSession) (*plannedSession, error) {
	if !c.caller.sees(b.Cell) {
		return nil, api.Missing("cell", b.Cell, "")
	}
	w := session.Request{
		Agent: b.Agent, Mode: cmp.Or(b.Mode, session.Strict), Autonomy: cmp.Or(b.Autonomy, "yolo"), Turns: cmp.Or(b.Turns, session.TurnsAuto), Arguments: b.Arguments,
		OnTop: b.OnTop,
	}
	return s.prepareSession(ctx, c, b.Cell, b.AllowNonGit, b.SessionSettings, w)
}

// prepareSession decides about a session in a cell or in a fork of it.
func (s *Server) prepareSession(ctx context.Context, c *call, cell string, nonGit bool, b api.SessionSettings, w session.Request) (*plannedSession, error) {
	// A rewind has the mode of its session.
	if w.Mode == session.Breakglass && !c.caller.isOperator() {
		return nil, api.Refusef(api.CodeForbidden, "leave it out, or ask the operator", "only the operator starts a session in the mode breakglass")
	}
	set, err := s.runSettings(ctx, c, b.RunSettings)
	if err != nil {
		return nil, err
	}
	if w.Place, err = s.admitCell(ctx, c, cell, nonGit); err != nil {
		return nil, err
	}
	if w.Allow, err = allowances(b.Allow); err != nil {
		return nil, err
	}
	w.Acknowledged, w.Now = b.Acknowledged, time.Now()
	w.Options, w.Bounds = set.options, s.bounds(c)
	p, err := s.config.Agents.Prepare(w)
	if err != nil {
		return nil, err
	}
	if err := c.underSession(ctx, cell, p.Plan); err != nil {
		return nil, err
	}
	bounded, err := s.engineCaller(c, nil, nil).UnderCeiling(p.Plan.Policy())
	if err != nil {
		return nil, err
	}
	p.Plan.Reaches(bounded)
	return &plannedSession{p, set.env, token.Amount{LiveCells: 1, Memory: set.options.Memory, CPUs: set.options.CPUs}}, nil
}

func allowances(names []string) (a session.Allowances, err error) {
	for _, name := range names {
		switch name {
		case session.AckControlPlaneVCS:
			a.ControlPlaneVCS = true
		case session.AckRepoMCP:
			a.RepoMCP = true
		case session.AckArbitraryCommand:
			a.ArbitraryCommand = true
		default:
			return a, api.Usagef("", "allow: unknown name %q", name)
		}
	}
	return a, nil
}

// admitCell finds out what a session in a cell works on. The directory that the cell was
// made from must be one that a session may work on: its last commit is read.
func (s *Server) admitCell(ctx context.Context, c *call, cell string, nonGit bool) (session.Workspace, error) {
	status, err := c.engine.Status(ctx, cell)
	if err != nil {
		return session.Workspace{}, err
	}
	dir, err := c.engine.SourceDir(ctx, cell)
	switch {
	case err != nil:
		return session.Workspace{}, err
	case dir == "" && !nonGit:
		return session.Workspace{}, api.Refusef(api.CodeAdmission, "send allow_nongit: instruction files are then those of the last commit among its files, or as they are if there is none",
			"the workspace was refused: cell %s was not made from a directory with a git repository", cell)
	case dir == "":
		return session.Workspace{Root: status.MountAt}, nil
	}
	_, err = s.config.Agents.Admission(nonGit).Admit(dir)
	return session.Workspace{Root: dir}, err
}

// underSession makes the policies of the cell and of the agent the ceiling of a session,
// for a token that has none.
func (c *call) underSession(ctx context.Context, cell string, plan *session.Plan) error {
	if c.caller.isOperator() || c.ceiling() != nil {
		return nil
	}
	p, err := c.engine.Policy(ctx, cell)
	if err != nil {
		return err
	}
	c.standin, err = plan.Ceiling(p.Text)
	return err
}

// sessionEngine starts sessions within the quotas of their caller.
type sessionEngine struct {
	Engine
	server *Server
	call   *call
	amount token.Amount
}

// Fork forks a cell under a name that the caller may use.
func (e sessionEngine) Fork(ctx context.Context, r api.ForkRequest) (*api.ForkResult, error) {
	end, err := e.server.roomToCapture(ctx, e.call)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := e.call.mayName(r.Name); err != nil {
		return nil, err
	}
	return e.Engine.Fork(ctx, r)
}

// Start makes a cell live.
func (e sessionEngine) Start(ctx context.Context, r api.StartRequest) (*api.StartResult, error) {
	if err := e.server.roomOnDisk(ctx, e.call); err != nil {
		return nil, err
	}
	release, err := e.server.acquireStart(ctx, e.call, r.Cell, e.amount)
	if err != nil {
		return nil, err
	}
	defer release()
	return e.Engine.Start(ctx, r)
}

// rewindSession takes a session back to a turn, and starts its agent again.
func (s *Server) rewindSession(ctx context.Context, c *call, in *sessionInput[api.RewindBody]) (*api.RewoundSession, error) {
	i, err := c.wholeSession(ctx, in.Session, session.ShowStarted)
	if err != nil {
		return nil, err
	}
	b := in.body()
	to, err := turnOf(ctx, c, in.Session, b.To)
	if err != nil {
		return nil, err
	}
	var p *plannedSession
	if !b.NoStart {
		// What would be refused is refused before anything is stopped.
		if p, err = s.sessionAgain(ctx, c, i, b.SessionSettings); err != nil {
			return nil, err
		}
		release, err := s.acquireAgain(ctx, c, in.Session, p.amount)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	expect, err := expectation(in.Match)
	if err != nil {
		return nil, err
	}
	res, err := s.actFor(c, expect, nil).Rewind(ctx, api.RewindRequest{Cell: in.Session, To: to, Reason: b.Reason})
	if err != nil {
		return nil, err
	}
	s.metrics.run(res.Stopped)
	out := &api.RewoundSession{RewindResult: *res}
	if p == nil {
		out.Session, err = c.session(ctx, in.Session)
		return out, err
	}
	e := sessionEngine{s.actFor(c, nil, p.env), s, c, p.amount}
	started, err := session.Resume(ctx, e, in.Session, p.order(s, in.Session, ""))
	if err != nil {
		return nil, err
	}
	out.Session, err = s.executeAgent(ctx, c, e, started, b.Hold)
	return out, err
}

// turnOf returns the number of a turn; without one, that of the turn before the last.
func turnOf(ctx context.Context, c *call, name string, given *int) (int, error) {
	if given != nil {
		return *given, nil
	}
	list, err := c.engine.Turns(ctx, name)
	if err != nil {
		return 0, err
	}
	return session.Back(list)
}

// sessionAgain decides about a session that had been decided about before.
func (s *Server) sessionAgain(ctx context.Context, c *call, i *api.AgentSession, b api.SessionSettings) (*plannedSession, error) {
	w := session.Request{
		Agent: i.Agent, Mode: cmp.Or(b.Mode, i.Mode), Autonomy: cmp.Or(b.Autonomy, i.Autonomy), Turns: cmp.Or(b.Turns, i.Turns),
		Arguments: slices.Clone(b.Arguments), Earlier: &i.SessionTerms,
	}
	b.Workdir = cmp.Or(b.Workdir, i.Directory)
	if len(w.Arguments) == 0 {
		entry, err := s.config.Agents.Find(i.Agent)
		if err != nil {
			return nil, err
		}
		if len(entry.Adapter.Program.Names) == 0 { // the agent has no program of its own
			if w.Arguments, err = session.RestartCommand(i.Command); err != nil {
				return nil, err
			}
		}
	}
	return s.prepareSession(ctx, c, i.Cell, true, b, w)
}
