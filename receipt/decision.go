package receipt

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Result is what was decided about a run.
type Result string

// The results. Pending never has a statement: it is the absence of a decision.
const (
	Pending    Result = "pending"
	Accepted   Result = "accepted"
	Rejected   Result = "rejected"
	Restored   Result = "restored"
	Partial    Result = "partial"
	Forked     Result = "forked"
	Superseded Result = "superseded"
)

// Decision is a decision about a receipt, made after the run.
type Decision struct {
	Link `json:"link"`

	DecisionID string `json:"decision_id"`
	ReceiptID  string `json:"receipt_id"`
	// ReceiptSHA256 is the [Hash] of the receipt's envelope.
	ReceiptSHA256 string `json:"receipt_sha256"`
	RunID         string `json:"run_id"`

	Result    Result `json:"result"`
	Automatic bool   `json:"automatic"`
	// Forced: the operator insisted, for instance on accepting a failed run.
	Forced bool   `json:"forced"`
	Reason string `json:"reason,omitempty"`

	HeadBefore CheckpointRef `json:"head_before"`
	// HeadAfter is in full, for a partial decision makes a new checkpoint.
	HeadAfter Checkpoint `json:"head_after"`

	// Only and Except are the patterns of a partial decision.
	Only   []string `json:"only,omitempty"`
	Except []string `json:"except,omitempty"`
	// Supersedes lists decisions about the same receipt that this one replaces.
	Supersedes []string `json:"supersedes,omitempty"`
	// Race is set if the decision accepts the winner of a race.
	Race *Race `json:"race,omitempty"`
}

// PredicateType is [TypeDecision], or [TypeRaceDecision] with a race.
func (d *Decision) PredicateType() string {
	if d.Race != nil {
		return TypeRaceDecision
	}
	return TypeDecision
}

// ID is the id of the decision.
func (d *Decision) ID() string { return d.DecisionID }

func (d *Decision) subjects() []Subject {
	return []Subject{{Name: "receipt", Digest: Digest{SHA256: d.ReceiptSHA256}}}
}

func (d *Decision) check() error {
	if err := errors.Join(
		d.Link.check(true),
		checkID("dec", d.DecisionID),
		checkID("rcpt", d.ReceiptID),
		checkID("run", d.RunID),
	); err != nil {
		return err
	}
	switch d.Result {
	case Accepted, Rejected, Restored, Partial, Forked, Superseded:
	case Pending:
		return errors.New("result: pending is not a decision")
	default:
		return fmt.Errorf("unknown result %q", d.Result)
	}
	if !isHash(d.ReceiptSHA256) {
		return errors.New("receipt_sha256 is not a SHA-256")
	}
	if err := d.HeadBefore.check(); err != nil {
		return fmt.Errorf("head_before: %w", err)
	}
	if err := d.HeadAfter.check(); err != nil {
		return fmt.Errorf("head_after: %w", err)
	}
	for _, id := range d.Supersedes {
		if err := checkID("dec", id); err != nil {
			return fmt.Errorf("supersedes: %w", err)
		}
	}
	return d.checkRace()
}

// PresentDecision is the present decision about a run.
type PresentDecision struct {
	Result     Result
	DecisionID string // empty while pending
	Automatic  bool
	Forced     bool
	Reason     string
	Actor      string
	// Seq is the place of the decision's statement in the log.
	Seq int64
}

// Present returns the decision about a run that stands in the run's own cell: the
// one latest in the log, else the one inside the receipt. Decisions about other
// receipts do not count, nor do those that a fork took for itself: see [DecisionsOfOthers].
// It does not verify: statements must be verified already.
func Present(r *Run, decisions []*Decision) PresentDecision {
	s := PresentDecision{
		Result: r.Decision.Result, DecisionID: r.DecisionID, Automatic: r.Decision.Automatic,
		Reason: r.Decision.Reason, Actor: r.Actor, Seq: r.Seq,
	}
	for _, d := range decisions {
		// A fork settles nothing: the run may still be accepted or restored.
		if d.ReceiptID != r.ReceiptID || d.CellID != r.CellID || d.Seq <= s.Seq || d.Result == Forked {
			continue
		}
		s = PresentDecision{
			Result: d.Result, DecisionID: d.DecisionID, Automatic: d.Automatic,
			Forced: d.Forced, Reason: d.Reason, Actor: d.Actor, Seq: d.Seq,
		}
	}
	return s
}

// DecisionsOfOthers returns the last decision of each other cell about a run: forks decide
// for themselves about the work that they inherited. They are in the order of the
// log.
func DecisionsOfOthers(r *Run, decisions []*Decision) []*Decision {
	last := map[string]*Decision{}
	for _, d := range sortedBySeq(decisions) {
		if d.ReceiptID == r.ReceiptID && d.CellID != r.CellID && d.Result != Forked {
			last[d.CellID] = d
		}
	}
	return slices.SortedFunc(maps.Values(last), bySeq)
}

func bySeq(a, b *Decision) int { return cmp.Compare(a.Seq, b.Seq) }

func sortedBySeq(decisions []*Decision) []*Decision {
	return slices.SortedFunc(slices.Values(decisions), bySeq)
}
