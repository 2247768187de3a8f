package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// agentHost is a daemon. It starts the agents that are installed on its own host, with
// the credentials of its operator, and decides about them.
type agentHost interface {
	// IsLocal reports whether the daemon has the directories of this host.
	IsLocal() bool
	Agents(ctx context.Context) ([]api.AgentState, error)
	Agent(ctx context.Context, name string) (*api.AgentDocument, error)
	CheckAgent(ctx context.Context, name string) (*api.AgentState, error)
	PlanSession(ctx context.Context, r api.CreateSession, o api.SessionOptions) (*api.SessionPlan, error)
	CreateSession(ctx context.Context, r api.CreateSession, o api.SessionOptions) (*api.AgentSession, error)
	RewindSession(ctx context.Context, name string, r api.RewindBody, o api.SessionOptions) (*api.RewoundSession, error)
	ExecAgent(ctx context.Context, r api.ExecRequest, io engine.Stdio) (*api.ExecResult, error)
}

// agentHost opens the daemon of the global flags for one piece of work.
func (s *frame) agentHost(ctx context.Context, fn func(context.Context, Engine, agentHost) error) error {
	return s.engine(ctx, Create, func(ctx context.Context, e Engine) error {
		host, ok := e.(agentHost)
		if !ok {
			return refusal(api.CodeUnsupported, "use it without --url", "the daemon starts no agents")
		}
		return fn(ctx, e, host)
	})
}

// throughDaemon starts a session of an agent of the daemon's host in a fork of this
// directory's cell.
func (r *agentRun) throughDaemon(name string, args []string) (err error) {
	s, o := r.session, r.opts
	if o.keepHome {
		return usageError("use it on the machine of the daemon, without --url", "--keep-home: a session that a daemon starts has an empty home")
	}
	if r.place, err = r.admit(); err != nil {
		return err
	}
	settings, options, err := r.daemonRequest(args)
	if err != nil {
		return err
	}
	options.Workdir = api.Text(cmp.Or(string(options.Workdir), r.place.Below))
	body := api.CreateSession{Agent: name, Name: o.name, AllowNonGit: o.nonGit, OnTop: o.onTop, Hold: !o.detach, SessionSettings: settings}
	var made *api.AgentSession
	err = s.agentHost(r.cmd.Context(), func(ctx context.Context, e Engine, host agentHost) error {
		if !host.IsLocal() {
			body.AllowNonGit = true // the directory is not there; it was admitted here
		}
		if body.Cell, err = r.baseThere(ctx, e); err != nil {
			return err
		}
		plan, err := host.PlanSession(ctx, body, options)
		if err != nil {
			return err
		}
		if o.dryRun {
			return s.printPlan(plan)
		}
		s.printText(func(p *page) { printSessionPlan(p, plan) })
		made, err = host.CreateSession(ctx, body, options)
		return err
	})
	if err != nil || o.dryRun {
		return err
	}
	return r.executeThere(made)
}

// printPlan prints what would be decided about a session.
func (s *frame) printPlan(plan *api.SessionPlan) error {
	s.isRun = false
	return s.emit(plan, func(p *page) { printSessionPlan(p, plan) })
}

// daemonRequest returns what a daemon is asked for.
func (r *agentRun) daemonRequest(args []string) (api.SessionSettings, api.SessionOptions, error) {
	o := r.opts
	b := api.SessionSettings{Arguments: slices.Clone(args), Acknowledged: r.acknowledgements(), Allow: o.allow.Names()}
	for name, field := range map[string]*string{"mode": &b.Mode, "autonomy": &b.Autonomy, "turns": &b.Turns} {
		if f := r.cmd.Flags().Lookup(name); f.Changed {
			*field = f.Value.String()
		}
	}
	if err := o.terminal.resolve(r.cmd, r.session); err != nil {
		return b, api.SessionOptions{}, err
	}
	run, err := o.resolve(r.cmd, r.session)
	run.Network.Unrestricted = o.unrestricted
	return b, api.SessionOptions{RunOptions: run, InjectionPolicy: api.Text(o.injection)}, err
}

// baseThere returns the cell of the directory, and brings what has changed in the
// directory into it. A dry run changes nothing.
func (r *agentRun) baseThere(ctx context.Context, e Engine) (string, error) {
	s, dir := r.session, r.place.Root
	if !r.opts.dryRun {
		return agentsession.Base(ctx, e, dir, r.opts.name, r.opts.onTop, s.baseMaker(e), s.note)
	}
	name, below, err := e.CellAt(ctx, dir)
	if err == nil && (name == "" || below != ".") {
		err = refusal(api.CodeNotFound, "`forkcell init "+quote.Arg(dir)+"` makes it", "a daemon decides about a cell, and %s has none yet", quote.Path(dir))
	}
	return name, err
}

// executeThere executes the agent of a session that waits for it.
func (r *agentRun) executeThere(made *api.AgentSession) error {
	if r.opts.detach {
		return r.runsBehind(made)
	}
	r.session.note("session " + quote.Line(made.Cell))
	_, err := r.attend(api.ExecRequest{Cell: made.Cell, TTY: r.opts.terminal.tty, Detachable: true},
		func(e Engine, ctx context.Context, q api.ExecRequest, io engine.Stdio) (*api.ExecResult, error) {
			host, ok := e.(agentHost)
			if !ok {
				return nil, refusal(api.CodeUnsupported, "", "the daemon starts no agents")
			}
			return host.ExecAgent(ctx, q, io)
		})
	return err
}

// rewindThere takes a session of a daemon back to a turn, and starts its agent again.
func (r *agentRun) rewindThere(name string, args []string, o *rewindOptions) error {
	settings, options, err := r.daemonRequest(args)
	if err != nil {
		return err
	}
	body := api.RewindBody{Reason: o.reason, Hold: !o.detach, SessionSettings: settings}
	if o.to >= 0 {
		body.To = &o.to
	}
	var back *api.RewoundSession
	err = r.session.agentHost(r.cmd.Context(), func(ctx context.Context, _ Engine, host agentHost) (err error) {
		back, err = host.RewindSession(ctx, name, body, options)
		return err
	})
	if err != nil {
		return err
	}
	r.session.note(fmt.Sprintf("session %s is back at turn %d, %s", quote.Line(name), back.Turn, back.CheckpointID))
	return r.executeThere(back.Session)
}
