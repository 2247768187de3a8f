package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	agentsession "github.com/forkcell/forkcell/internal/session"
	"github.com/forkcell/forkcell/internal/text/document"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// asSession makes a command about a cell one about a session: a cell without a session
// is refused, and the cell of the working directory is not implied. check may refuse the
// session.
func asSession(s *frame, cmd *cobra.Command, use, short, example string, check func(*api.AgentSession) error) *cobra.Command {
	run := cmd.RunE
	cmd.Use, cmd.Short = use, short
	cmd.Example, cmd.Annotations = "  forkcell session "+example, nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.started = true
		if len(args) == 0 {
			return usageError("usage: "+usageLine(cmd), "%s: missing argument SESSION", verb(cmd))
		}
		err := s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error {
			i, err := agentsession.ShowStarted(ctx, e, args[0], s.now())
			if err != nil || check == nil {
				return err
			}
			return check(i)
		})
		if err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

func newSessionLogs(s *frame) *cobra.Command {
	return asSession(s, newLogs(s), "logs SESSION", "Print what the agent's terminal showed, with secrets redacted", "logs -f repo-claude", nil)
}

func newSessionDiff(s *frame) *cobra.Command {
	cmd := newDiff(s)
	return asSession(s, cmd, "diff SESSION [FROM] [TO] [-- PATH...]", "Show what a session changed", "diff repo-claude --stat", func(i *api.AgentSession) error {
		return sinceBegin(cmd, i)
	})
}

// sinceBegin has the changes of a session shown since it began.
func sinceBegin(cmd *cobra.Command, i *api.AgentSession) error {
	names := cmd.Flags().NArg()
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		names = dash
	}
	for _, flag := range []string{"run", "checkpoint", "since-apply"} {
		if names > 1 || cmd.Flags().Changed(flag) {
			return nil
		}
	}
	began := agentsession.Changes(i).State
	if began == "" {
		return nil
	}
	return cmd.Flags().Set("checkpoint", began)
}

func newSessionPublish(s *frame) *cobra.Command {
	return asSession(s, newPublish(s), "publish SESSION --branch BRANCH", "Put the accepted work of a session on a new branch", "publish repo-claude --branch work/fix-login", agentsession.RefusePending)
}

func newSessionAccept(s *frame) *cobra.Command {
	return asSession(s, newAccept(s), "accept SESSION", "Accept what a session changed; --apply writes it to the directory", "accept repo-claude --apply", agentsession.RefuseRunning)
}

func newSessionTimeline(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:               "timeline SESSION",
		Short:             "List what happened in a session, in order",
		Long:              "List what happened in a session, in order: launches, ends, network decisions,\ncheckpoints, decisions. With --json: one object per line.",
		Example:           "  forkcell session timeline repo-claude",
		Args:              positional("SESSION"),
		ValidArgsFunction: s.completeSession,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			list, err := agentsession.Timeline(ctx, e, args[0], s.now(), agentsession.Span{})
			if err != nil {
				return err
			}
			if s.json {
				for _, t := range list {
					if err := document.Write(s.out, t); err != nil {
						return err
					}
				}
				return nil
			}
			return s.emit(nil, func(p *page) {
				for _, t := range list {
					p.printf("%s  %-10s %s\n", t.At.UTC().Format("2006-01-02 15:04:05.000Z"), t.Kind, quote.Line(t.Summary))
				}
			})
		}),
	}
}

func newSessionExport(s *frame) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Export the record of a session: json, or its events as OCSF",
		Long: `Export the record of a session. json is one document with the session, its timeline
and its receipts. ocsf is its events, one OCSF record on a line.`,
		Example: `  forkcell session export repo-claude --format json > session.json
  forkcell session export repo-claude --format ocsf`,
		Args:              positional("SESSION"),
		ValidArgsFunction: s.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started = true
			if err := oneOf(cmd, "format", format, "json", "ocsf"); err != nil {
				return err
			}
			return s.engine(cmd.Context(), Read, func(ctx context.Context, e Engine) error {
				return exportSession(ctx, s, e, args[0], format)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", "json", "`json|ocsf`")
	return cmd
}

// sessionExport is the record of a session.
type sessionExport struct {
	Session  *api.AgentSession   `json:"session"`
	Timeline []api.TimelineEntry `json:"timeline"`
	Receipts []*api.ReceiptDoc   `json:"receipts"`
}

func exportSession(ctx context.Context, s *frame, e Engine, name, format string) error {
	info, err := agentsession.ShowStarted(ctx, e, name, s.now())
	if err != nil {
		return err
	}
	if format == "ocsf" {
		for _, run := range info.RunIDs {
			err := e.Events(ctx, api.EventQuery{Cell: name, Run: run}, func(r event.Record) error {
				_, err := s.out.Write(slices.Concat(document.EscapeInvisible(r.Raw), []byte{'\n'}))
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	out := sessionExport{Session: info, Receipts: []*api.ReceiptDoc{}}
	if out.Timeline, err = agentsession.Timeline(ctx, e, name, s.now(), agentsession.Span{}); err != nil {
		return err
	}
	list, err := e.ReceiptList(ctx, name)
	if err != nil {
		return err
	}
	for _, r := range list {
		if !strings.Contains(strings.Join(info.RunIDs, " "), r.RunID) {
			continue
		}
		doc, err := e.Receipt(ctx, r.ReceiptID, "", false)
		if err != nil {
			return err
		}
		out.Receipts = append(out.Receipts, doc)
	}
	return document.Write(s.out, out)
}

func newSessionVerify(s *frame) *cobra.Command {
	return &cobra.Command{
		Use:               "verify SESSION",
		Short:             "Check the signatures, the chain and the states of all receipts of a session",
		Example:           "  forkcell session verify repo-claude",
		Args:              positional("SESSION"),
		ValidArgsFunction: s.completeSession,
		RunE: s.with(Read, func(ctx context.Context, e Engine, args []string) error {
			info, err := agentsession.ShowStarted(ctx, e, args[0], s.now())
			if err != nil {
				return err
			}
			list, err := e.ReceiptList(ctx, info.Cell)
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return refusal(api.CodeLive, "`forkcell session stop "+args[0]+"` ends it first", "session %s has no receipt yet", quote.Line(args[0]))
			}
			return runReceiptVerify(ctx, s, e, receiptVerifyOptions{cell: info.Cell})
		}),
	}
}

func newSessionDelete(s *frame) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "delete SESSION...",
		Short: "Remove the cells of sessions that have ended; their receipts stay",
		Long: `Remove the cells of sessions that have ended. Their receipts and events stay, and for 7
days rm --undo brings a session back as it was, without its processes. Without
--force a session with work that was not decided, or that was accepted and not applied, is
refused. If one of the sessions is refused, none is removed.`,
		Example: `  forkcell session delete repo-claude
  forkcell session delete repo-claude repo-claude-2`,
		Args:              oneOrMore("SESSION"),
		ValidArgsFunction: s.completeCells,
		RunE: s.with(Write, func(ctx context.Context, e Engine, args []string) error {
			return deleteSessions(ctx, s, e, args, force)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "also if its work was not decided or not applied")
	return cmd
}

// deleteSessions removes sessions, all or none.
func deleteSessions(ctx context.Context, s *frame, e Engine, names []string, force bool) error {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	for _, name := range names {
		info, err := agentsession.Show(ctx, e, name, s.now())
		if err == nil {
			err = agentsession.RefuseDelete(info, force)
		}
		if err != nil {
			return err
		}
	}
	if err := e.RemoveCells(ctx, api.RemoveRequest{Cells: names, Stop: true, Force: force}); err != nil {
		return err
	}
	type deleted struct {
		SessionID string `json:"session_id"`
		Deleted   bool   `json:"deleted"`
	}
	list := make([]deleted, len(names))
	for i, name := range names {
		list[i] = deleted{name, true}
	}
	var doc any = list
	if len(list) == 1 {
		doc = list[0]
	}
	return s.emit(doc, func(p *page) {
		for _, name := range names {
			p.printf("session %s deleted; its receipts stay; %s\n", quote.Line(name), broughtBack(name))
		}
	})
}
