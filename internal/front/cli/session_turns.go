package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newSessionTurns(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:   "turns SESSION",
		Short: "List the turns of a session, the oldest first",
		Long: `List the turns of a session, the oldest first. A turn is a checkpoint of the session's
files; turn 0 is its start. Those that a rewind went back over are marked "left": they
can be gone to until gc frees them.`,
		Example:           "  forkcell session turns repo-claude",
		Args:              positional("SESSION"),
		ValidArgsFunction: s.completeSession,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			if _, err := agentsession.ShowStarted(ctx, e, args[0], s.now()); err != nil {
				return err
			}
			list, err := e.Turns(ctx, args[0])
			if err != nil {
				return err
			}
			return s.emit(list, func(p *page) { printTurns(p, list) })
		}),
	}
}

func printTurns(p *page, list *api.TurnList) {
	if len(list.Turns) == 0 {
		p.printf("session %s has no turns\n", quote.Line(list.Cell))
		return
	}
	rows := [][]string{{"TURN", "TIME", "FILES", "LINES", "PAUSE", "STATE", "NOTES"}}
	for _, t := range list.Turns {
		notes := ""
		if t.Unfrozen {
			notes = "unfrozen"
		}
		if t.Left {
			notes = "left"
		}
		rows = append(rows, []string{
			strconv.Itoa(t.Turn), stamp(t.At), strconv.Itoa(t.ChangedFiles), fmt.Sprintf("+%d -%d", t.Added, t.Removed),
			(time.Duration(t.PauseUS) * time.Microsecond).String(), t.CheckpointID, notes,
		})
	}
	p.table(rows)
}

// rewindOptions are the flags of session rewind.
type rewindOptions struct {
	agentOptions

	to      int
	reason  string
	noStart bool
}

func newSessionRewind(s *frame) *cobra.Command {
	o := rewindOptions{agentOptions: agentOptions{acks: map[string]*string{}}}
	cmd := &cobra.Command{
		Use:   "rewind SESSION [flags] [-- AGENT_ARG...]",
		Short: "Take a session back to a turn, and start its agent again",
		Long: `Take a session back to a turn, and start its agent again.

The agent is stopped, and its run gets its receipt. The files go back to the state
after the turn, the agent's own history among them; what is left stays until gc. Then
the agent is started with its conversation, if it can resume one, else anew. Mode,
autonomy, turns and directory are those that the session had, unless flags say
otherwise; other flags of agent must be given again.`,
		Example: `  forkcell session rewind repo-claude
  forkcell session rewind repo-claude --to 0 --no-start
  forkcell session rewind repo-claude --to 3 -- 'use the other library'`,
		DisableFlagsInUseLine: true,
		Args:                  agentArgs,
		ValidArgsFunction:     s.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started, s.isRun = true, !o.noStart
			return runRewind(cmd, s, args[0], args[1:], &o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.to, "to", -1, "go back to the state after turn `N` (default: the turn before the last)")
	f.StringVar(&o.reason, "reason", "", "why, for the log: `TEXT`")
	f.BoolVar(&o.noStart, "no-start", false, "do not start the agent again")
	o.addStart(cmd)
	return cmd
}

func runRewind(cmd *cobra.Command, s *frame, name string, args []string, o *rewindOptions) error {
	if cmd.Flags().Changed("to") && o.to < 0 {
		return usageError("`forkcell session turns "+quote.Arg(name)+"` lists them", "bad value %d for --to: turns are counted from 0", o.to)
	}
	if s.daemon.URL != "" && !o.noStart {
		r := &agentRun{session: s, cmd: cmd, opts: &o.agentOptions}
		return r.rewindThere(name, args, o)
	}
	var info *api.AgentSession
	err := s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) (err error) {
		if info, err = agentsession.ShowStarted(ctx, e, name, s.now()); err != nil || o.to >= 0 {
			return err
		}
		list, err := e.Turns(ctx, name)
		if err == nil {
			o.to, err = agentsession.Back(list)
		}
		return err
	})
	if err != nil {
		return err
	}
	r := &agentRun{session: s, cmd: cmd, opts: &o.agentOptions, earlier: &info.SessionTerms}
	if !o.noStart {
		// What would be refused is refused before anything is stopped.
		if err := r.prepareAgain(info, args); err != nil {
			return err
		}
	}
	var res *api.RewindResult
	err = s.engine(cmd.Context(), Write, func(ctx context.Context, e Engine) (err error) {
		res, err = e.Rewind(ctx, api.RewindRequest{Cell: name, To: o.to, Reason: o.reason})
		return err
	})
	if err != nil {
		return err
	}
	if o.noStart {
		return s.emit(res, func(p *page) { printRewind(p, res) })
	}
	s.note(fmt.Sprintf("session %s is back at turn %d, %s", quote.Line(name), res.Turn, res.CheckpointID))
	return r.startAgain(name)
}

func printRewind(p *page, r *api.RewindResult) {
	p.printf("session %s is back at turn %d\n", quote.Line(r.Cell), r.Turn)
	p.pairs("checkpoint", r.CheckpointID, "root", r.Root, "left", r.Left)
	for _, name := range r.SetAside {
		p.printf("set aside: %s\n", quote.Line(name))
	}
}

// prepareAgain decides about a session that had been decided about before.
func (r *agentRun) prepareAgain(info *api.AgentSession, args []string) error {
	o, f := r.opts, r.cmd.Flags()
	for name, old := range map[string]string{"mode": info.Mode, "autonomy": info.Autonomy, "turns": info.Turns} {
		if !f.Changed(name) && old != "" {
			if err := f.Set(name, old); err != nil {
				return err
			}
		}
	}
	if _, err := os.Lstat(info.Workspace); errors.Is(err, fs.ErrNotExist) {
		name := quote.Line(info.SessionID)
		return refusal(api.CodeNoSource, "put it back, or `forkcell session rewind "+name+" --no-start` takes back the files only",
			"session %s: its directory %s is not there any more", name, quote.Path(info.Workspace))
	}
	o.workspace, o.nonGit = info.Workspace, true
	entry, err := r.session.host().Find(info.Agent)
	if err != nil {
		return err
	}
	if len(args) == 0 && len(entry.Adapter.Program.Names) == 0 { // the agent has no program of its own
		if args, err = agentsession.RestartCommand(info.Command); err != nil {
			return err
		}
	}
	if o.Workdir == "" {
		o.Workdir = api.Text(info.Directory)
	}
	return r.prepare(info.Agent, args)
}

// startAgain starts the agent in the cell of its session.
func (r *agentRun) startAgain(name string) error {
	s := r.session
	s.printText(func(p *page) { printSessionPlan(p, &r.plan.SessionPlan) })
	var started *agentsession.Running
	err := s.engine(r.cmd.Context(), Write, func(ctx context.Context, e Engine) (err error) {
		started, err = agentsession.Resume(ctx, e, name, r.order())
		return err
	})
	if err != nil {
		return err
	}
	return r.execute(started)
}
