package session

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// List describes the sessions of a home, the newest first. With an agent or a
// workspace, only theirs.
func List(ctx context.Context, r Reader, agent, workspace string, now time.Time) ([]api.AgentSession, error) {
	cells, err := r.ListMatching(ctx, api.CellFilter{})
	if err != nil {
		return nil, err
	}
	out := []api.AgentSession{}
	for _, c := range cells {
		label, is := c.Labels[api.LabelAgent]
		if !is || agent != "" && label != agent || workspace != "" && c.Source != workspace {
			continue
		}
		s, err := Show(ctx, r, c.Cell, now)
		if api.CodeOf(err) == api.CodeNotFound {
			continue // removed meanwhile, or a cell that was given the label
		}
		if err != nil {
			return nil, err
		}
		out = append(out, *s)
	}
	slices.SortStableFunc(out, func(a, b api.AgentSession) int { return b.StartedAt.Compare(a.StartedAt) })
	return out, nil
}

// missingError is the error about a session whose cell does not exist.
func missingError(err error, name string) error {
	if api.CodeOf(err) != api.CodeNotFound {
		return err
	}
	return api.Missing("session", name, "`forkcell session list` shows them")
}

// Show describes one session, by the name of its cell, also if its start was interrupted
// before it had a run. A cell without a session is an error of the kind NotFound.
func Show(ctx context.Context, r Describer, name string, now time.Time) (*api.AgentSession, error) {
	status, err := r.Status(ctx, name)
	if err != nil {
		return nil, missingError(err, name)
	}
	runs, err := r.CellRuns(ctx, name)
	if err != nil {
		return nil, err
	}
	if agent, labelled := status.Labels[api.LabelAgent]; labelled && len(runs) == 0 {
		inherited, err := forkOfSession(ctx, r, status)
		if err != nil {
			return nil, err
		}
		if !inherited {
			return describeUnstarted(status, agent, now), nil
		}
	}
	runs = slices.DeleteFunc(runs, func(i api.RunInfo) bool { return i.Session == nil })
	if len(runs) == 0 {
		return nil, api.Missing("session", name, "the cell has none; `forkcell session list` shows them")
	}
	s := describe(status, runs, now)
	n, err := r.CountChanges(ctx, Changes(s))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil { // else its states are gone or damaged: what its last run changed is known
		s.ChangedFiles = n
	}
	return s, nil
}

// Changes is the request for what a session changed since it began, up to its present
// state. Its last run has only a part of that if the session was rewound.
func Changes(s *api.AgentSession) api.DiffRequest {
	r := api.DiffRequest{Cell: s.Cell}
	switch {
	case len(s.RunIDs) <= 1 && (s.MonitorPID != 0 || s.Head == s.Began):
		// the live run, or the last one
	case s.MonitorPID == 0 && hasUndecided(s):
		// all undecided work: what session accept takes
	default:
		r.State = s.Began
	}
	return r
}

// forkOfSession reports whether a cell is a fork of a session's. Forks that earlier
// versions made have its label, and are no sessions.
func forkOfSession(ctx context.Context, r Describer, fork *api.StatusResult) (bool, error) {
	if fork.ForkedFrom == "" {
		return false, nil
	}
	from, err := r.Status(ctx, fork.ForkedFrom)
	if api.CodeOf(err) == api.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, is := from.Labels[api.LabelAgent]
	return is, nil
}

// ShowStarted describes a session as Show does, and refuses one that was not started.
func ShowStarted(ctx context.Context, r Describer, name string, now time.Time) (*api.AgentSession, error) {
	i, err := Show(ctx, r, name, now)
	if err == nil {
		err = refuseUnstarted(i)
	}
	if err != nil {
		return nil, err
	}
	return i, nil
}

// refuseUnstarted refuses a session whose start did not get as far as a run.
func refuseUnstarted(i *api.AgentSession) error {
	if len(i.RunIDs) > 0 {
		return nil
	}
	name, why := quote.Line(i.SessionID), "its start was interrupted"
	if i.Status == api.SessionStarting {
		why = "it is being started, or its start was interrupted"
	}
	return api.Refusef(api.CodeNotStarted, "`forkcell session delete "+name+"` removes it", "session %s has not run: %s", name, why)
}

// describeUnstarted describes a session whose cell was made, and has no run. The code that makes the
// cell starts it at once, so an old one will not be started any more.
func describeUnstarted(status *api.StatusResult, agent string, now time.Time) *api.AgentSession {
	none := []string{}
	s := &api.AgentSession{
		SessionID: status.Cell, Cell: status.Cell, CellID: status.CellID, Workspace: status.Source, RunIDs: none, Began: status.Head, Head: status.Head,
		Status: api.SessionStarting, LiveStatus: "stopped", StartedAt: status.CreatedAt, ObservedAt: now.UTC(),
		SessionTerms: api.SessionTerms{Agent: agent, Endpoints: none, Credentials: none, Acknowledged: none, Command: none},
	}
	if now.Sub(status.CreatedAt) > api.AgentLimit {
		s.Status = api.SessionInterrupted
	}
	if len(status.PendingStates) > 0 {
		s.Decision = string(receipt.Pending)
	}
	return s
}

func describe(status *api.StatusResult, runs []api.RunInfo, now time.Time) *api.AgentSession {
	last := runs[len(runs)-1]
	s := &api.AgentSession{
		SessionID: status.Cell, Cell: status.Cell, CellID: status.CellID, Workspace: status.Source, RunID: last.RunID, Began: runs[0].Before, Head: status.Head,
		ReceiptID: last.ReceiptID, Decision: decision(status, runs[0].Before, last), StartedAt: runs[0].StartedAt, ObservedAt: now.UTC(), ExitStatus: last.ExitCode,
		FinishedAt: last.FinishedAt, ChangedFiles: last.ChangedFiles, PolicyHash: last.PolicyHash, SessionTerms: *last.Session,
		InitialAssurance: runs[0].Session.Assurance, CurrentAssurance: Label(reasonsOf(last.Session)),
	}
	for _, r := range runs {
		s.RunIDs = append(s.RunIDs, r.RunID)
	}
	live := status.Live
	if live != nil && live.RunID == last.RunID {
		s.MonitorPID = live.PID
		s.Status = api.SessionStarting
		for _, x := range live.Sessions {
			if x.Running && x.Main {
				s.Status = api.SessionRunning
				s.Clients += x.Clients
			}
		}
		switch {
		case live.Ending || s.Status == api.SessionStarting && (hasEnded(live.Sessions) || now.Sub(live.Since) > api.AgentLimit):
			// After the limit its supervisor would have ended it, had it no agent: it has
			// one, and its supervisor does not answer.
			s.Status = api.SessionStopping
		case s.Status == api.SessionRunning && status.State == api.StatePaused:
			s.Status = api.SessionPaused
		}
	} else {
		s.Status = ending(last)
		s.FinalAssurance = s.CurrentAssurance
	}
	s.LiveStatus = cmp.Or(map[bool]string{true: "stopped"}[live == nil], s.Status)
	return s
}

// decision returns the decision about the present state of a session. That of its last
// run is not enough: a rewind undoes a run, and leaves a state that it went through.
func decision(status *api.StatusResult, began string, last api.RunInfo) string {
	done := last.State != "running"
	undone := last.Decision == string(receipt.Restored) || last.Decision == string(receipt.Rejected)
	switch {
	case status.Live != nil || done && status.Head == began:
		return last.Decision
	case !done || len(status.PendingRuns)+len(status.PendingStates) > 0:
		return string(receipt.Pending)
	case undone:
		return string(receipt.Accepted) // the state that it went back to is
	}
	return last.Decision
}

// isAccepted reports whether the present state of a session, or a part of it, is accepted.
func isAccepted(s *api.AgentSession) bool {
	return s.Decision == string(receipt.Accepted) || s.Decision == string(receipt.Partial)
}

// hasUndecided reports whether a session has undecided work.
func hasUndecided(s *api.AgentSession) bool {
	return s.Decision == string(receipt.Pending) && (s.Head != s.Began || s.FinishedAt == nil)
}

// StopError returns the error of stopping a session, which was as described before. A
// session whose supervisor had died is not live: the attempt has finished its run, and
// that is what a stop is for.
func StopError(before *api.AgentSession, err error) error {
	if before.MonitorPID == 0 && before.FinishedAt == nil && api.CodeOf(err) == api.CodeNotStarted {
		return nil
	}
	return err
}

// RefuseRunning refuses a session that has not ended.
func RefuseRunning(i *api.AgentSession) error {
	if i.MonitorPID == 0 {
		return nil
	}
	name := quote.Line(i.SessionID)
	return api.Refusef(api.CodeLive, "`forkcell session stop "+name+"` ends it first", "session %s is still %s", name, i.Status)
}

// RefusePending refuses to publish a session that runs, or whose work is not accepted.
// The cell may hold work that was accepted before the session, and no caller asks for that by
// the session's name.
func RefusePending(i *api.AgentSession) error {
	if err := RefuseRunning(i); err != nil || isAccepted(i) {
		return err
	}
	name := quote.Line(i.SessionID)
	if i.Head == i.Began {
		return api.Refusef(api.CodeNothing, "`forkcell log "+name+"` shows its runs and states", "session %s has nothing to publish: its files are those that it began with", name)
	}
	return api.Refusef(api.CodePending, "`forkcell session accept "+name+"` accepts it", "session %s is not accepted: only accepted work is published", name)
}

// RefuseDelete refuses to delete a session that runs, or whose work nobody has decided
// about, unless it is forced.
func RefuseDelete(i *api.AgentSession, force bool) error {
	if err := RefuseRunning(i); err != nil || force || !hasUndecided(i) {
		return err
	}
	name := quote.Line(i.SessionID)
	return api.Refusef(api.CodePending, "`forkcell session accept "+name+"` accepts it, `forkcell reject "+name+"` takes it back, --force deletes it all the same", "session %s has work that was not decided", name)
}

// hasEnded reports whether the agent was executed and has ended: the cell is about to end.
func hasEnded(list []api.SessionInfo) bool {
	return slices.ContainsFunc(list, func(x api.SessionInfo) bool { return x.Main && !x.Running })
}

// ending returns the state of a session whose run is not live.
func ending(r api.RunInfo) string {
	if r.State == "running" {
		return api.SessionInterrupted // its process died, and nothing has finished it yet
	}
	switch receipt.Outcome(r.Outcome) {
	case receipt.Succeeded:
		return api.SessionExited
	case receipt.Failed:
		return api.SessionFailed
	case receipt.Interrupted:
		return api.SessionInterrupted
	default:
		return api.SessionAborted
	}
}
