package cli

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/text/quote"
)

func newAgentSession(s *frame) *cobra.Command {
	return group("session", "List, join, judge and end sessions of coding agents",
		newSessionList(s), newSessionShow(s), newSessionAttach(s), newSessionSend(s), newSessionStop(s),
		newSessionLogs(s), newSessionTimeline(s), newSessionDiff(s), newSessionAccept(s), newSessionPublish(s),
		newSessionTurns(s), newSessionRewind(s), newSessionExport(s), newSessionVerify(s), newSessionDelete(s))
}

// sessionSummary returns the line about a session that has ended.
func sessionSummary(i *api.AgentSession) string {
	parts := []string{"session " + i.SessionID + " " + i.Status}
	if i.ExitStatus != nil && *i.ExitStatus != 0 {
		parts[0] += " (exit " + strconv.Itoa(*i.ExitStatus) + ")"
	}
	next := ": `forkcell session diff " + i.SessionID + "`, then `forkcell session accept " + i.SessionID + "`"
	switch {
	case i.ChangedFiles > 0:
		parts = append(parts, strconv.Itoa(i.ChangedFiles)+" changed"+next)
	default:
		parts = append(parts, "nothing changed")
	}
	if i.ReceiptID != "" {
		parts = append(parts, "receipt "+i.ReceiptID)
	}
	return quote.Line(strings.Join(parts, ", "))
}

func newSessionList(s *frame) *cobra.Command {
	var agentName, workspace string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the sessions, newest first",
		Example: `  forkcell session list
  forkcell session list --agent claude --json`,
		Args: positional(),
		RunE: s.with(Read, func(ctx context.Context, e Engine, _ []string) error {
			list, err := agentsession.List(ctx, e, agentName, workspace, s.now())
			if err != nil {
				return err
			}
			return s.emit(list, func(p *page) {
				rows := [][]string{{"SESSION", p.paint(plain, "STATUS"), "AGENT", "MODE", "STARTED", "CHANGED", "ASSURANCE", "WORKSPACE"}}
				for _, i := range list {
					rows = append(rows, []string{
						quote.Line(i.SessionID), p.word(i.Status), strings.TrimSpace(i.Agent + " " + i.AgentVersion), cmp.Or(i.Mode, "-"), stamp(i.StartedAt),
						strconv.Itoa(i.ChangedFiles), cmp.Or(i.CurrentAssurance, "-"), quote.Path(i.Workspace),
					})
				}
				p.table(rows)
			})
		}),
	}
	cmd.Flags().StringVar(&agentName, "agent", "", "only those of the agent `NAME`")
	cmd.Flags().StringVar(&workspace, "workspace", "", "only those that work on the directory `DIR`")
	return cmd
}

func newSessionShow(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:               "show SESSION",
		Short:             "Show everything about one session",
		Example:           "  forkcell session show repo-claude",
		Args:              positional("SESSION"),
		ValidArgsFunction: s.completeSession,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			i, err := agentsession.Show(ctx, e, args[0], s.now())
			if err != nil {
				return err
			}
			return s.emit(i, func(p *page) { printSession(p, i) })
		}),
	}
}

func printSession(p *page, i *api.AgentSession) {
	p.printf("session %s: %s\n", quote.Line(i.SessionID), p.word(i.Status))
	if len(i.RunIDs) == 0 {
		p.pairs("agent", quote.Line(i.Agent), "workspace", quote.Path(i.Workspace), "made", stamp(i.StartedAt))
		p.printf("it has not run: if nothing starts it now, its start was interrupted; `forkcell session delete %s` removes it\n", quote.Line(i.SessionID))
		return
	}
	exit, finished := "", ""
	if i.ExitStatus != nil {
		exit = strconv.Itoa(*i.ExitStatus)
	}
	if i.FinishedAt != nil {
		finished = stamp(*i.FinishedAt)
	}
	p.pairs(
		"agent", quote.Line(strings.TrimSpace(i.Agent+" "+i.AgentVersion)), "mode", i.Mode+", "+i.Autonomy, "assurance", i.CurrentAssurance,
		"workspace", quote.Path(i.Workspace), "control files", i.ControlPlane, "repository MCP", i.RepoMCP, "own sandbox", quote.Line(i.NativeSandbox),
		"network", i.NetworkPolicy, "endpoints", reaches(i.SessionTerms), "credentials", quote.Line(strings.Join(i.Credentials, "; ")),
		"command", quote.Argv(i.Command), "started", stamp(i.StartedAt), "finished", finished, "exit status", exit,
		"changed", strconv.Itoa(i.ChangedFiles), "decision", i.Decision, "runs", strings.Join(i.RunIDs, ", "), "receipt", i.ReceiptID,
		"clients", strconv.Itoa(i.Clients),
	)
}

func (s *frame) completeSession(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	return s.completeCell(cmd, args, text)
}

// unlessNone returns the error of going to a session whose agent does not run, or that
// the cell has no session.
func (s *frame) unlessNone(ctx context.Context, name string, err error) error {
	if api.CodeOf(err) != api.CodeNotStarted {
		return err
	}
	none := s.engine(ctx, Read, func(ctx context.Context, e Engine) error {
		_, err := agentsession.Show(ctx, e, name, s.now())
		return err
	})
	return cmp.Or(none, err)
}

func newSessionAttach(s *frame) *cobra.Command {
	var o attachOptions
	cmd := &cobra.Command{
		Use:   "attach SESSION",
		Short: "Join the terminal of a running session",
		Long: `Join the terminal of a running session, beginning with its last output. Ctrl-P Ctrl-Q
leaves it running, and so does the end of this process, by a signal too. Several people
may be attached at once: the first one types, and the others watch. With --take you type
from now on.

If stdin is no terminal, nothing is typed, unless -i is given: then what stdin has is
typed, and at its end you watch. The input of the agent never ends here.`,
		Example: `  forkcell session attach repo-claude
  forkcell session attach repo-claude --no-stdin >log`,
		Args:              positional("SESSION"),
		ValidArgsFunction: s.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started, s.isRun = true, true
			if err := o.resolve(cmd, s); err != nil {
				return err
			}
			v := visit{
				session: s, signals: listen().leaveOnEnd(unix.SIGINT, unix.SIGQUIT), interactive: o.interactive, lasting: true, raw: o.raw,
				request: api.ExecRequest{Cell: args[0], TTY: s.atTerminal(), Detachable: true, Keyboard: o.keyboard()},
				left:    func() string { return leftSession(args[0]) },
			}
			err := s.rawEngine(Visit, func(e Engine) error {
				agent, err := agentsession.Command(cmd.Context(), e, args[0])
				if err != nil {
					return err
				}
				if agent.Clients > 0 && v.request.Keyboard == api.KeyboardShare {
					s.note("others are attached: if one of them types, you watch; --take takes the keyboard over")
				}
				return v.do(cmd.Context(), func(ctx context.Context, q api.ExecRequest, io engine.Stdio) (*api.ExecResult, error) {
					return e.Attach(ctx, q, agent.ExecID, io)
				})
			})
			if err != nil || v.result == nil || s.json {
				return s.unlessNone(cmd.Context(), args[0], err)
			}
			return s.sessionEnded(cmd.Context(), args[0], v.result.EndedBy)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.noStdin, "no-stdin", false, "watch only: type nothing")
	f.BoolVar(&o.raw, "raw", false, rawUsage)
	f.BoolVar(&o.take, "take", false, "take the keyboard over from who has it")
	f.BoolVarP(&o.interactive, "interactive", "i", false, "type what stdin has (the default on a terminal)")
	return cmd
}

// sessionEnded prints how a session ended, for a caller who was attached to it. by is the
// request that ended it, one of api.EndedBy or "".
func (s *frame) sessionEnded(ctx context.Context, name, by string) error {
	if by == api.EndedByRewind { // what is said of its state now is no longer true then
		s.note("session " + quote.Line(name) + " was rewound; `forkcell session attach " + quote.Arg(name) + "` joins its agent when it runs again")
		return nil
	}
	return s.engine(ctx, Read, func(ctx context.Context, e Engine) error {
		info, err := agentsession.Show(ctx, e, name, s.now())
		if err != nil {
			return err
		}
		if s.json {
			return s.emit(info, nil)
		}
		if by == api.EndedByStop {
			s.note("session " + quote.Line(name) + " was stopped")
		}
		s.note(sessionSummary(info))
		return nil
	})
}

// leftSession returns the line for a caller who left a session running.
func leftSession(name string) string {
	return "left; `forkcell session attach " + name + "` comes back"
}

// attachOptions are the flags of session attach.
type attachOptions struct{ noStdin, take, interactive, raw bool }

// resolve decides whether stdin is typed. That of a script is not, unless asked for.
func (o *attachOptions) resolve(cmd *cobra.Command, s *frame) error {
	for _, other := range []string{"take", "interactive"} {
		if err := exclusive(cmd, "no-stdin", other); err != nil {
			return err
		}
	}
	o.interactive = o.interactive || !o.noStdin && s.atTerminal()
	if o.take && !o.interactive {
		return usageError("-i types what stdin has", "%s: --take: stdin is no terminal", verb(cmd))
	}
	return nil
}

// keyboard returns how the client types.
func (o *attachOptions) keyboard() api.Keyboard {
	switch {
	case o.take:
		return api.KeyboardTake
	case o.interactive:
		return api.KeyboardShare
	}
	return ""
}

func newSessionSend(s *frame) *cobra.Command {
	var noNewline bool
	cmd := &cobra.Command{
		Use:   "send SESSION MESSAGE",
		Short: "Type a message into a running session",
		Long: `Type a message into the terminal of a running session, and press Enter. - is stdin.
Control characters are refused. Enter comes when the program has shown a reaction to the
text, and a program that shows none is named: it may not have taken the message.`,
		Example:           "  forkcell session send repo-claude 'also update the tests'",
		Args:              positional("SESSION", "MESSAGE"),
		ValidArgsFunction: s.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			text := args[1]
			if text == "-" {
				data, err := s.readArgument("-")
				if err != nil {
					return err
				}
				text = strings.TrimRight(string(data), "\r\n")
			}
			err := s.engine(cmd.Context(), Visit, func(ctx context.Context, e Engine) error { return runSend(ctx, s, e, args[0], text, !noNewline) })
			return s.unlessNone(cmd.Context(), args[0], err)
		},
	}
	cmd.Flags().BoolVar(&noNewline, "no-newline", false, "do not press Enter")
	return cmd
}

// messenger is a daemon, which types messages itself.
type messenger interface {
	SendMessage(ctx context.Context, name, text string, enter bool) (api.SentMessage, error)
}

func runSend(ctx context.Context, s *frame, e Engine, name, text string, enter bool) error {
	agent, err := agentsession.Command(ctx, e, name)
	if err != nil {
		return err
	}
	var sent api.SentMessage
	if daemon, ok := e.(messenger); ok {
		sent, err = daemon.SendMessage(ctx, name, text, enter)
	} else {
		sent, err = agentsession.Send(ctx, e, name, agent.ExecID, text, enter)
	}
	if err != nil {
		return err
	}
	if !sent.Confirmed {
		s.note("the program has shown no reaction; `forkcell session attach " + quote.Arg(name) + "` shows its screen")
	}
	return s.emit(sent, func(p *page) {
		p.printf("%s typed into session %s\n", count(int64(sent.SentBytes), "byte", "bytes"), quote.Line(name))
	})
}

func newSessionStop(s *frame) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "stop SESSION",
		Short: "End a session: its agent gets SIGTERM, and the run its receipt",
		Long: `End a session. Its processes get SIGTERM, and after 5 s SIGKILL; with --force
SIGKILL at once. The state is sealed, and the run gets its receipt. If the session was
interrupted because its supervisor was killed, its run is finished.`,
		Example:           "  forkcell session stop repo-claude",
		Args:              positional("SESSION"),
		ValidArgsFunction: s.completeSession,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			i, err := agentsession.ShowStarted(ctx, e, args[0], s.now())
			if err != nil {
				return err
			}
			q := api.StopRequest{Cell: args[0], Grace: -1}
			if force {
				q.Grace = 0
			}
			_, err = e.Stop(ctx, q)
			if err = agentsession.StopError(i, err); err != nil {
				return err
			}
			if i, err = agentsession.ShowStarted(ctx, e, args[0], s.now()); err != nil {
				return err
			}
			return s.emit(i, func(p *page) { p.printf("%s\n", sessionSummary(i)) })
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "kill its processes at once")
	return cmd
}
