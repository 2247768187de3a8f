package cell

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence"
	"github.com/forkcell/forkcell/internal/failpoint"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/tree"
	"github.com/forkcell/forkcell/internal/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// conclude proves and decides: the receipt, the decision that the flags made,
// and the cell's head are one transaction.
func (r *run) conclude(ctx context.Context) error {
	begin := time.Now()
	defer func() { r.timings.DecideUS = since(begin) }()
	logs, err := r.keepOutput()
	if err != nil {
		r.noteOutcome()
		return api.Failf(api.CodeLogs, err, "keep the output of %s", r.rec.ID)
	}
	if err := r.awaitJournal(); err != nil {
		r.noteOutcome()
		return api.Failf(api.CodeEvents, err, "keep the events of %s", r.rec.ID)
	}
	r.decide()
	head := r.after
	if r.rec.Decision == restored {
		head = r.before
		if err := r.e.ws.RemoveRefused(r.at, r.refused); err != nil {
			r.noteOutcome()
			return api.Failf(api.CodeConclude, r.liveError(err), "take the run %s back", r.rec.ID)
		}
	}
	// The live directory, where there is one, holds the state after, or what
	// others have made of it.
	r.head = r.after
	if r.found != nil {
		r.head = r.found.Checkpoint
	}
	record := func(tx *store.Tx) error { return r.record(tx, logs) }
	err = r.moveHead(ctx, head, record)
	if long, ok := errors.AsType[*tree.LongPathError](err); ok && r.rec.Decision == restored {
		// The directory stays as it is, and the run waits for a decision.
		r.rec.Decision = pending
		r.notes = append(r.notes, "it could not be taken back: "+quote.Line(long.Error()))
		err = r.moveHead(ctx, r.head, record)
	}
	if err != nil {
		r.noteOutcome()
		return api.Failf(api.CodeConclude, err, "record the run %s", r.rec.ID)
	}
	failpoint.Hit("run.concluded")
	if r.work != nil && r.sealed.Unchanged {
		return r.work.Discard()
	}
	return nil
}

// keepOutput makes the stored output durable. Who finishes a dead process's run
// does not have it, and the receipt says so.
func (r *run) keepOutput() ([]receipt.Log, error) {
	if r.out == nil {
		r.rec.Stdout, r.rec.Stderr = "", ""
		lost := "its output was not kept"
		if r.errorText != "" {
			lost = r.errorText + "; " + lost
		}
		r.fail(lost)
		return nil, nil
	}
	logs, err := r.out.finish()
	if err != nil {
		return nil, err
	}
	if r.out.lost != nil {
		r.notes = append(r.notes, "not all of the output could be stored: "+r.out.lost.Error())
	}
	if gap := r.out.gap(); gap != "" {
		r.degraded = append(r.degraded, quote.Line(gap))
	}
	for _, l := range logs {
		if l.Stream == "stdout" {
			r.rec.Stdout = l.SHA256
		} else {
			r.rec.Stderr = l.SHA256
		}
	}
	return logs, nil
}

// decide is what the flags decide; without one the run is pending.
func (r *run) decide() {
	failing := r.rec.Failed()
	switch {
	case r.givenUp:
		r.rec.Decision = pending // nobody can take anything back
	case failing && r.rec.RestoreOnFail:
		r.rec.Decision = restored
	case !failing && r.rec.AcceptOnSuccess:
		r.rec.Decision = accepted
	default:
		r.rec.Decision = pending
	}
}

func (r *run) record(tx *store.Tx, logs []receipt.Log) error {
	if r.found != nil {
		if err := r.recordDrift(tx, r.found); err != nil {
			return err
		}
	}
	if r.after.ID != r.before.ID {
		if err := tx.PutCheckpoint(r.after); err != nil {
			return err
		}
	}
	r.rec.State, r.rec.ReceiptID = "done", store.NewID("rcpt")
	p, err := r.predicate(logs)
	if err != nil {
		return err
	}
	err = r.e.log.Append(tx, store.Statement{ID: r.rec.ReceiptID, Kind: evidence.KindRun, CellID: r.cell.ID, RunID: r.rec.ID}, r.cell.Name, p)
	if err != nil {
		return err
	}
	rec := r.rec
	rec.Asked = nil // the receipt has it now
	if err := tx.PutRun(rec); err != nil {
		return err
	}
	if r.rec.Decision != accepted {
		return nil
	}
	r.earlier, err = r.acceptEarlier(tx, r.rec.ID, r.after, r.after, decision{Automatic: true})
	return err
}

func (r *run) predicate(logs []receipt.Log) (*receipt.Run, error) {
	achieved, err := json.Marshal(r.outcome.Controls)
	if r.controlsLost {
		achieved, err = json.Marshal(map[string]string{"recorded": "no: the supervising process died"})
	}
	if err != nil {
		return nil, err
	}
	asked := r.rec.Asked
	if !r.controlsLost {
		if asked, err = r.asked(r.spec.Network != nil, r.granted); err != nil {
			return nil, err
		}
	}
	p := &receipt.Run{
		ReceiptID: r.rec.ReceiptID, RunID: r.rec.ID,
		CheckpointBefore: evidence.Ref(r.before), CheckpointAfter: evidence.Checkpoint(r.after, ""),
		ChangedFiles: int64(r.rec.Changed), SplitLinks: texts(r.sealed.SplitLinks),
		Command: r.rec.Command, EnvNames: r.rec.EnvNames, Workdir: r.rec.Workdir, ReadOnly: r.rec.ReadOnly,
		Outcome: receipt.Outcome(r.rec.Outcome), ExitCode: r.rec.ExitCode, Signal: r.rec.Signal, Error: r.errorText,
		StartedAt: r.rec.StartedAt, FinishedAt: r.rec.FinishedAt,
		Timings: map[string]int64{
			"prepare_us": r.timings.PrepareUS, "start_us": r.timings.StartUS,
			"command_us": r.timings.CommandUS, "seal_us": r.timings.SealUS,
		},
		Backend: r.cell.Backend, BackendReason: r.cell.BackendReason, Runtime: r.cell.Runtime,
		Controls: receipt.Controls{Asked: asked, Achieved: achieved}, Degraded: r.degraded,
		PolicyHash: r.rec.Policy, Policies: r.policies(), Events: r.events,
		Logs:     logs,
		Decision: receipt.AutoDecision{Result: receipt.Result(r.rec.Decision)},
	}
	if r.rec.Decision != pending {
		p.Decision.Automatic = true
		p.Decision.Reason = "--restore-on-fail"
		if r.rec.Decision == accepted {
			p.Decision.Reason = "--accept-on-success"
		}
		p.DecisionID = store.NewID("dec")
	}
	return p, nil
}

// acceptEarlier decides the undecided runs whose work is part of what is accepted,
// those that a fork inherited included: a failed run is never called accepted, it
// is superseded. States that were captured of a live cell are accepted with it.
// chosen is the accepted run, or captured state; tip is the accepted state, head
// where the cell is afterwards.
func (s *session) acceptEarlier(tx *store.Tx, chosen string, tip, head store.Checkpoint, d decision) ([]string, error) {
	runs, err := contained(tx, s.cell, tip.ID)
	if err != nil {
		return nil, err
	}
	var also []string
	for _, r := range slices.Backward(runs) {
		if r.ID == chosen || !undecidedIn(s.cell, r) {
			continue
		}
		result := accepted
		if r.Failed() {
			result = superseded
		}
		part := decision{Reason: "part of " + chosen, Automatic: d.Automatic}
		if _, err := s.decideRun(tx, r, result, head, part); err != nil {
			return also, err
		}
		line := r.ID + " " + result
		if r.CellID != s.cell.ID {
			line += " (inherited)"
		}
		also = append(also, line)
	}
	states, err := s.acceptStates(tx, tip, head, d.Reason)
	for _, id := range states {
		if id != chosen {
			also = append(also, id+" "+accepted+" (captured)")
		}
	}
	return also, err
}

// texts makes paths fit for JSON.
func texts(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, printable(p))
	}
	return out
}

// asked is what a receipt says that a run was asked for. resolve are the addresses
// that were granted for its network, if it has one.
func (r *run) asked(network bool, resolve []string) (json.RawMessage, error) {
	text := "none"
	if network {
		text = "as the policy allows" + r.uninspected()
	} else {
		resolve = nil
	}
	asked := map[string]any{
		"timeout_us": r.rec.TimeoutUS, "network": text, "resolve": resolve, "grants": texts(r.grants),
		"root": r.rootAsked(), "tty": r.spec.TTY, "limits": r.spec.Limits.String(),
	}
	if r.cache != nil {
		asked["cache"] = r.cache
	}
	return json.Marshal(asked)
}

func (r *run) rootAsked() string {
	switch {
	case r.spec.System.Root != "":
		return printable(r.spec.System.Root)
	case slices.ContainsFunc(r.areas, func(a workspace.Area) bool { return a.System }):
		return rootHostOverlay
	}
	return rootHost
}
