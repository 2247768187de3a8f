package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// proof is the durable evidence of a run that its receipt binds.
type proof struct {
	logs []receipt.Log
}

// prove makes the output and the events of a run durable.
func (r *run) prove() (p proof, err error) {
	begin := time.Now()
	defer func() { r.timings.DecideUS = since(begin) }()
	if p.logs, err = r.keepOutput(); err != nil {
		r.noteOutcome()
		return p, api.Failf(api.CodeLogs, err, "keep the output of %s", r.rec.ID)
	}
	if err := r.awaitJournal(); err != nil {
		r.noteOutcome()
		return p, api.Failf(api.CodeEvents, err, "keep the events of %s", r.rec.ID)
	}
	return p, nil
}

// keepOutput makes the stored output durable. A process that finishes the run of a
// dead one does not have the output, and the receipt says so.
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
	notes, gaps := r.out.losses()
	r.notes = append(r.notes, notes...)
	for _, gap := range gaps {
		r.degraded = append(r.degraded, quote.Line(gap))
	}
	for _, l := range logs {
		r.rec.OutputBytes += l.Bytes
		if l.Stream == "stdout" {
			r.rec.Stdout = l.SHA256
		} else {
			r.rec.Stderr = l.SHA256
		}
	}
	return logs, nil
}

// predicate returns the statement of a receipt.
func (r *run) predicate(p proof) (*receipt.Run, error) {
	achieved, err := json.Marshal(r.outcome.Controls)
	if r.controlsLost {
		achieved, err = json.Marshal(map[string]string{"recorded": "no: the supervising process died"})
	}
	if err != nil {
		return nil, err
	}
	requested := r.rec.Asked
	if !r.controlsLost {
		if requested, err = r.receiptRequest(r.spec.Network != nil, r.granted); err != nil {
			return nil, err
		}
	}
	s := &receipt.Run{
		ReceiptID: r.rec.ReceiptID, RunID: r.rec.ID,
		CheckpointBefore: statements.Ref(r.before), CheckpointAfter: statements.Checkpoint(r.after, ""),
		ChangedFiles: int64(r.rec.Changed), SplitLinks: quote.AllUTF8(r.sealed.SplitLinks),
		Command: r.rec.Command, EnvNames: r.rec.EnvNames, Workdir: r.rec.Workdir, ReadOnly: r.rec.ReadOnly,
		Outcome: receipt.Outcome(r.rec.Outcome), ExitCode: r.rec.ExitCode, Signal: r.rec.Signal, Error: r.errorText,
		StartedAt: r.rec.StartedAt, FinishedAt: r.rec.FinishedAt,
		Timings: map[string]int64{
			"prepare_us": r.timings.PrepareUS, "start_us": r.timings.StartUS,
			receipt.TimingCommand: r.timings.CommandUS, "seal_us": r.timings.SealUS,
		},
		Backend: r.Record.Backend, BackendReason: r.Record.BackendReason, Runtime: cmp.Or(r.rec.Runtime, r.Record.Runtime),
		Controls: receipt.Controls{Asked: requested, Achieved: achieved}, Degraded: r.degraded,
		PolicyHash: r.rec.Policy, Policies: r.policies(), Events: r.events,
		Logs:     p.logs,
		Decision: receipt.AutoDecision{Result: receipt.Result(r.rec.Decision)},
	}
	if r.rec.Session != nil {
		s.Session = &receipt.Session{}
		if err := json.Unmarshal(r.rec.Session, s.Session); err != nil {
			return nil, fmt.Errorf("the record of the session: %w", err)
		}
	}
	if r.rec.Executed != nil {
		s.Executed = &receipt.Executed{}
		if err := json.Unmarshal(r.rec.Executed, s.Executed); err != nil {
			return nil, fmt.Errorf("the record of the executed commands: %w", err)
		}
	}
	if r.rec.Branch != nil {
		s.Branch = &receipt.Branch{}
		if err := json.Unmarshal(r.rec.Branch, s.Branch); err != nil {
			return nil, fmt.Errorf("the record of the branch: %w", err)
		}
	}
	s.Paused, s.Resumed = pauseStatement(r.rec.Pause), pauseStatement(r.rec.Resumed)
	if r.rec.Decision != pending {
		s.Decision.Automatic = true
		s.Decision.Reason = "--restore-on-fail"
		if r.rec.Decision == accepted {
			s.Decision.Reason = "--accept-on-success"
		}
		s.DecisionID = store.NewID("dec")
	}
	return s, nil
}

// receiptRequest returns the request for a receipt. resolve are the addresses that were
// granted for its network, if it has one.
func (r *run) receiptRequest(network bool, resolve []string) (json.RawMessage, error) {
	text := "none"
	if network {
		text = "as the policy allows" + r.uninspectedEndpoints()
	} else {
		resolve = nil
	}
	doc := map[string]any{
		"timeout_us": r.rec.TimeoutUS, "network": text, "resolve": resolve, "grants": quote.AllUTF8(r.grants),
		"root": r.rootName(), "tty": r.spec.TTY, "limits": r.spec.Limits.String(),
	}
	if r.cache != nil {
		doc["cache"] = r.cache
	}
	if r.rec.Turns != nil {
		doc["turns"] = r.rec.Turns
	}
	if r.rec.Control != nil {
		doc["control_files"] = r.rec.Control
	}
	return json.Marshal(doc)
}

func (r *run) rootName() string {
	switch {
	case r.spec.System.Root != "":
		return quote.UTF8(r.spec.System.Root)
	case slices.ContainsFunc(r.areas, func(a workspace.Area) bool { return a.System }):
		return rootHostOverlay
	}
	return rootHost
}
