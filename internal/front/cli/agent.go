package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/session/adapter"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newAgent(s *frame) *cobra.Command {
	o := agentOptions{acks: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "agent NAME [flags] [-- AGENT_ARG...]",
		Short: "Start a coding agent in a fork of this directory's cell",
		Long: `Start a coding agent in a fork of this directory's cell.

The agent's program is the one that is installed on this host. It works on a copy of
the repository, reaches its own service, and has placeholders in place of your
credentials. What was decided is printed before it starts. On a terminal you talk to
the agent; Ctrl-P Ctrl-Q leaves it running, and so does the end of this process, by a
hangup or SIGTERM too. Afterwards session diff shows what it did, and session accept
keeps it.

The session begins with what is accepted in the directory's cell, and what is in the
directory now. Work that nobody has decided about is named and left out; --on-top begins
with it, and then accepting the session accepts it, too.

Arguments after -- are for the agent. For the agent generic they are the program and
its arguments. Modes: strict reaches the agent's service only; development also reads
from code hosts and package registries; build is development in which apt-get, dpkg, dnf
and apk run as root in the cell; breakglass masks nothing and reaches what --policy lists,
or with --unrestricted every host.`,
		Example: `  forkcell agent claude
  forkcell agent codex --mode development -- exec 'fix the failing test'
  forkcell agent claude --detach --name fix-login -- -p 'fix the login'
  forkcell agent generic -- ./my-agent --task task.md`,
		DisableFlagsInUseLine: true,
		Args:                  agentArgs,
		ValidArgsFunction:     s.completeAgent,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started, s.isRun = true, true
			return runAgent(cmd, s, args[0], args[1:], &o)
		},
	}
	o.addFlags(cmd)
	cmd.AddCommand(newAgentList(s), newAgentShow(s), newAgentCheck(s), newAgentAdd(s))
	return cmd
}

// agentOptions are the flags of agent.
type agentOptions struct {
	optionFlags

	mode, autonomy  string
	workspace, name string
	detach, nonGit  bool
	turns           string
	injection       string
	unrestricted    bool
	allow           agentsession.Allowances
	acks            map[string]*string
	terminal        terminalFlags
	dryRun          bool
	keepHome        bool
	onTop           bool
}

func (o *agentOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.workspace, "workspace", "", "work on the repository `DIR` instead of the working directory")
	f.StringVar(&o.name, "name", "", "`NAME` of the session (default: the cell's name and the agent's)")
	f.BoolVar(&o.nonGit, "allow-nongit", false, "admit a directory that is no git repository")
	f.BoolVar(&o.keepHome, "keep-home", false, "begin with the home that earlier commands of the cell have written")
	f.BoolVar(&o.onTop, "on-top", false, "begin with the undecided work of the directory's cell")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be decided, and start nothing")
	o.addStart(cmd)
}

// addStart adds the flags of commands that start an agent.
func (o *agentOptions) addStart(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.mode, "mode", agentsession.Strict, "what the session may reach: `strict|development|build|breakglass`")
	f.StringVar(&o.autonomy, "autonomy", adapter.Yolo, "`yolo` lets the agent work without asking, prompt makes it ask")
	f.BoolVar(&o.detach, "detach", false, "start the agent and return; session attach joins it")
	f.StringVar(&o.turns, "turns", "auto", "when a turn is recorded: `auto|tool|DURATION|off`")
	f.StringVar(&o.injection, "injection-policy", "", "the injection policy `FILE` (default $XDG_CONFIG_HOME/forkcell/injection-policy.toml)")
	f.BoolVar(&o.unrestricted, "unrestricted", false, "with --mode breakglass: reach every host, besides what the policy lists")
	f.BoolVar(&o.allow.ControlPlaneVCS, "allow-control-plane-vcs", false, "show the repository's control files to the agent, read-only")
	f.BoolVar(&o.allow.RepoMCP, "allow-repo-mcp", false, "let the agent start MCP servers that the repository names")
	f.BoolVar(&o.allow.ArbitraryCommand, "allow-arbitrary-command", false, "run the command after -- in place of the agent")
	for _, name := range []string{agentsession.AckBreakglass, agentsession.AckControlPlaneVCS, agentsession.AckRepoMCP, agentsession.AckArbitraryCommand} {
		o.acks[name] = f.String("ack-"+name, "", "acknowledge it with today's `DATE` in UTC, as YYYY-MM-DD")
	}
	o.optionFlags.addFlags(f, optionTexts{
		timeout: "end the session after this time",
		workdir: "start in `PATH`, absolute or relative to the workspace",
	})
	f.Lookup("policy").Usage = "also allow what the policy `FILE` allows; a preset's name works too"
	f.Lookup("cache").Usage = "build and package caches that start from the shared ones: `off|standard` (default off)"
	o.terminal.addFlags(cmd)
}

// agentArgs requires a name, and everything else after the dashes.
func agentArgs(cmd *cobra.Command, args []string) error {
	before := args
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		before = args[:dash]
	}
	if len(before) > 1 {
		return usageError("arguments for the agent stand after --: forkcell agent "+quote.Arg(before[0])+" -- "+quote.Argv(before[1:]),
			"%s: unexpected argument %s", verb(cmd), quote.Arg(before[1]))
	}
	return positional("NAME")(cmd, before)
}

// planningHost returns this host for planning a session: no tool is started from where
// cells can have written.
func (s *frame) planningHost() agentsession.Host {
	h := s.host()
	h.Closed = s.writtenDirs
	return h
}

// readHost returns this host, with the environment of this process.
func readHost() agentsession.Host {
	home, _ := os.UserHomeDir() // without one, ~/ is not replaced
	env := os.Environ()
	return agentsession.Host{Config: configDir(), Home: home, Path: os.Getenv("PATH"), Env: env, Tools: env}
}

// agentRun is one `agent NAME` under way.
type agentRun struct {
	session *frame
	cmd     *cobra.Command
	opts    *agentOptions
	place   agentsession.Workspace
	plan    *agentsession.Plan
	options api.RunOptions
	dirs    []string // on PATH
	// earlier are the terms of the session that is resumed; nil for a new one.
	earlier *api.SessionTerms
}

func runAgent(cmd *cobra.Command, s *frame, name string, args []string, o *agentOptions) error {
	r := &agentRun{session: s, cmd: cmd, opts: o}
	if s.daemon.URL != "" {
		return r.throughDaemon(name, args)
	}
	if err := r.prepare(name, args); err != nil {
		return err
	}
	if o.dryRun {
		return s.printPlan(&r.plan.SessionPlan)
	}
	if o.detach {
		collectLater()
	}
	return r.start()
}

// collectLater lets the heap grow to 16 MiB instead of 4 before the first collection of
// garbage: a client that leaves its session at once has ended by then, unless the
// workspace is large.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(400)
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
}

// prepare decides everything, and starts nothing.
func (r *agentRun) prepare(name string, args []string) (err error) {
	o := r.opts
	if _, err = r.session.host().Find(name); err != nil {
		return err
	}
	if r.place, err = r.admit(); err != nil {
		return err
	}
	if err = o.terminal.resolve(r.cmd, r.session); err != nil {
		return err
	}
	if r.options, err = o.resolve(r.cmd, r.session); err != nil {
		return err
	}
	r.options.Network.Unrestricted = o.unrestricted
	p, err := r.session.planningHost().Prepare(agentsession.Request{
		Agent: name, Place: r.place, Mode: o.mode, Autonomy: o.autonomy, Arguments: args, Allow: o.allow, Acknowledged: r.acknowledgements(),
		Turns: o.turns, Injection: o.injection, KeepHome: o.keepHome, OnTop: o.onTop, Earlier: r.earlier, Options: r.options, Now: r.session.now(),
	})
	if err != nil {
		return err
	}
	r.plan, r.options, r.dirs = p.Plan, p.Options, p.PathDirs
	r.options.Network.Resolve = engine.WithPins(r.options.Network.Resolve, p.Pins)
	return nil
}

func (r *agentRun) admit() (agentsession.Workspace, error) {
	return r.session.host().Admission(r.opts.nonGit).Admit(cmp.Or(r.opts.workspace, "."))
}

func (r *agentRun) acknowledgements() map[string]string {
	out := map[string]string{}
	for name, date := range r.opts.acks {
		if *date != "" {
			out[name] = *date
		}
	}
	return out
}

func (s *frame) completeAgent(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	names, err := s.host().Catalogue().Names()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// start makes the session and executes the agent.
func (r *agentRun) start() error {
	s := r.session
	s.printText(func(p *page) { printSessionPlan(p, &r.plan.SessionPlan) })
	var started *agentsession.Running
	err := s.engine(r.cmd.Context(), Create, func(ctx context.Context, e Engine) (err error) {
		order := r.order()
		order.Make = s.baseMaker(e)
		if started, err = agentsession.Begin(ctx, e, order); err != nil {
			return err
		}
		s.note("session " + started.Cell)
		if r.opts.detach {
			return r.leave(ctx, e, started)
		}
		return nil
	})
	if err != nil || r.opts.detach {
		return err
	}
	return r.execute(started)
}

// baseMaker makes the cell of a directory for a session, and says what became of the
// directory.
func (s *frame) baseMaker(e maker) agentsession.Maker {
	return func(ctx context.Context, q api.InitRequest) (*api.InitResult, error) {
		res, err := initCell(ctx, s, e, q)
		if err == nil {
			s.notedCell(res)
		}
		return res, err
	}
}

func (r *agentRun) order() agentsession.Start {
	return agentsession.Start{
		Plan: r.plan, Name: r.opts.name, KeepHome: r.opts.keepHome, OnTop: r.opts.onTop, Options: r.options, PathDirs: r.dirs, Notes: r.session.note,
	}
}

// execute executes the agent of a session whose cell is live.
func (r *agentRun) execute(started *agentsession.Running) error {
	if r.opts.detach {
		return r.session.engine(r.cmd.Context(), Write, func(ctx context.Context, e Engine) error { return r.leave(ctx, e, started) })
	}
	started.Exec.TTY = r.opts.terminal.tty
	begun, err := r.attend(started.Exec, Engine.Exec)
	if err != nil && !begun {
		return r.undo(started, err)
	}
	return err
}

// executor executes the agent of a session.
type executor = func(e Engine, ctx context.Context, q api.ExecRequest, io engine.Stdio) (*api.ExecResult, error)

// attend executes the agent of a session and passes its streams on, until it ends or is
// left. It reports whether the agent was executed.
func (r *agentRun) attend(q api.ExecRequest, exec executor) (begun bool, err error) {
	s := r.session
	left := false
	var executed atomic.Bool
	v := visit{session: s, signals: listen().leaveOnEnd(), interactive: r.opts.terminal.interactive, raw: r.opts.terminal.raw, request: q}
	err = s.rawEngine(Visit, func(e Engine) error {
		v.left = func() string {
			// It may have been executed, and word of that is still under way.
			if left = executed.Load() || r.runs(e, q.Cell); !left {
				return ""
			}
			return leftSession(q.Cell)
		}
		return v.do(r.cmd.Context(), func(ctx context.Context, q api.ExecRequest, io engine.Stdio) (*api.ExecResult, error) {
			io.Started = func(string) {
				executed.Store(true)
				failpoint.Hit("session.executed")
			}
			return exec(e, ctx, q, io)
		})
	})
	if left || !executed.Load() {
		return left, err
	}
	by := ""
	if v.result != nil && !s.json { // the document has the session as it is
		by = v.result.EndedBy
	}
	return true, errors.Join(err, s.sessionEnded(r.cmd.Context(), q.Cell, by))
}

// runs reports whether the agent of a session runs.
func (r *agentRun) runs(e Engine, name string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.cmd.Context()), runsLimit)
	defer cancel()
	_, err := agentsession.Command(ctx, e, name)
	return err == nil
}

// runsLimit is how long a client that was told to end waits for word of its agent.
const runsLimit = 10 * time.Second

// undo takes back a session whose agent could not be executed because of an error.
func (r *agentRun) undo(started *agentsession.Running, err error) error {
	ctx := context.WithoutCancel(r.cmd.Context())
	return errors.Join(err, r.session.engine(ctx, Write, func(ctx context.Context, e Engine) error { return started.Undo(ctx, e) }))
}

// leave starts the agent on a terminal of its own and leaves it.
func (r *agentRun) leave(ctx context.Context, e Engine, started *agentsession.Running) error {
	started.Exec.TTY = true
	if err := started.Leave(ctx, e); err != nil {
		return errors.Join(err, started.Undo(context.WithoutCancel(ctx), e))
	}
	if !r.session.json {
		return r.runsBehind(&api.AgentSession{Cell: started.Cell})
	}
	info, err := agentsession.Show(ctx, e, started.Cell, r.session.now())
	if err != nil {
		return err
	}
	return r.runsBehind(info)
}

// runsBehind prints that a session runs without this process.
func (r *agentRun) runsBehind(info *api.AgentSession) error {
	r.session.isRun = false
	return r.session.emit(info, func(p *page) {
		p.printf("session %s runs in the background\n", quote.Line(info.Cell))
		p.pairs("attach", "forkcell session attach "+info.Cell, "stop", "forkcell session stop "+info.Cell)
	})
}
