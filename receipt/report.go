package receipt

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// State is the result of a check of a bundle.
type State string

// The states.
const (
	Verified    State = "verified"
	NotIncluded State = "not included"
	Mismatch    State = "mismatch"
)

// Check is one bound hash of a bundle and what became of it.
type Check struct {
	// Name is the field, or the id of the statement.
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	State  State  `json:"state"`
	// Note explains the state, where that is necessary.
	Note string `json:"note,omitempty"`
}

// BundleReport is the result of checking a bundle.
type BundleReport struct {
	// Run is the receipt; its signature holds.
	Run *Run
	// ReceiptSHA256 is the [Hash] of its envelope.
	ReceiptSHA256 string
	// TrustedKey is the key of the caller's set that the trust comes from: the
	// signing key, or one that was rotated to it.
	TrustedKey string
	// Decisions about the receipt that hold, in the order of the log.
	Decisions []*Decision
	// Present is the present decision as far as the bundle shows: it cannot
	// show that nothing was decided later.
	Present PresentDecision
	// Checks has every bound hash.
	Checks []Check
}

// Mismatches counts the checks that failed.
func (r BundleReport) Mismatches() int {
	n := 0
	for _, c := range r.Checks {
		if c.State == Mismatch {
			n++
		}
	}
	return n
}

// VerifyBundle checks a bundle against trusted keys. The error is nil only if the
// receipt is signed by a trusted key, or one that rotations in the bundle lead to
// from a trusted key, and nothing in the bundle contradicts it. With [ErrChain] the
// report is complete and names the mismatches; with other errors it is empty.
func VerifyBundle(r io.Reader, keys *KeySet) (BundleReport, error) {
	b, err := ParseBundle(r)
	if err != nil {
		return BundleReport{}, err
	}
	return b.Verify(keys)
}

// Verify is [VerifyBundle] for a bundle that was read.
func (b Bundle) Verify(keys *KeySet) (BundleReport, error) {
	v := bundleCheck{bundle: b, keys: keys.clone(), used: map[string]bool{}}
	if err := v.followKeys(); err != nil {
		return BundleReport{}, err
	}
	s, err := Verify(b.Receipt, v.keys)
	if err != nil {
		return BundleReport{}, fmt.Errorf("bundle: receipt: %w", err)
	}
	run, ok := s.Predicate.(*Run)
	if !ok {
		return BundleReport{}, malformed("bundle: receipt: a %s", s.PredicateType)
	}
	v.report.Run, v.report.ReceiptSHA256 = run, Hash(b.Receipt)
	v.report.TrustedKey = v.keys.Origin(run.KeyID)
	v.add(run.ReceiptID, v.report.ReceiptSHA256, Verified, "signed by key "+run.KeyID)
	v.checkDecisions()
	v.checkContext()
	v.checkContents()
	v.report.Present = Present(run, v.report.Decisions)
	if n := v.report.Mismatches(); n > 0 {
		return v.report, fmt.Errorf("bundle: %w: mismatches: %d", ErrChain, n)
	}
	return v.report, nil
}

type bundleCheck struct {
	bundle Bundle
	keys   *KeySet
	report BundleReport
	used   map[string]bool // included things that something bound
}

func (v *bundleCheck) add(name, sum string, state State, note string) {
	v.report.Checks = append(v.report.Checks, Check{Name: name, SHA256: sum, State: state, Note: note})
}

// followKeys passes the trust on through the key statements, in the order of their
// logs. Those that start from no trusted key are left aside: the receipt does not
// bind them, and they prove nothing.
func (v *bundleCheck) followKeys() error {
	var statements []*Envelope
	hashes := map[*Envelope]string{}
	for _, raw := range v.bundle.Keys {
		e, err := ParseEnvelope(raw)
		if err != nil {
			return fmt.Errorf("bundle: keys: %w", err)
		}
		if e.Statement.PredicateType != TypeKey {
			return malformed("bundle: keys: a %s", e.Statement.PredicateType)
		}
		hashes[e] = Hash(raw)
		statements = append(statements, e)
	}
	slices.SortStableFunc(statements, func(a, b *Envelope) int {
		return cmp.Compare(a.Statement.Place().Seq, b.Statement.Place().Seq)
	})
	for _, e := range statements {
		name := "key " + e.Statement.ID()
		err := e.Verify(v.keys)
		if err == nil {
			err = v.keys.follow(e.Statement)
		}
		switch {
		case err == nil:
			v.add(name, hashes[e], Verified, "replaces key "+e.Statement.Place().KeyID)
		case !errors.Is(err, ErrUntrusted):
			v.add(name, hashes[e], Mismatch, err.Error())
		}
	}
	return nil
}

func (v *bundleCheck) checkDecisions() {
	run := v.report.Run
	cells := v.decidingCells()
	for _, raw := range v.bundle.Decisions {
		sum := Hash(raw)
		s, err := Verify(raw, v.keys)
		if err != nil {
			v.add("decision", sum, Mismatch, err.Error())
			continue
		}
		d, ok := s.Predicate.(*Decision)
		switch {
		case !ok:
			v.add("decision", sum, Mismatch, "not a decision")
		case d.ReceiptID != run.ReceiptID || d.ReceiptSHA256 != v.report.ReceiptSHA256 || d.RunID != run.RunID:
			v.add(d.DecisionID, sum, Mismatch, "about another receipt")
		case d.HomeID != run.HomeID || !cells[d.CellID] || d.Seq <= run.Seq:
			v.add(d.DecisionID, sum, Mismatch, "of another home or cell, or before the receipt")
		default:
			v.add(d.DecisionID, sum, Verified, "")
			v.report.Decisions = append(v.report.Decisions, d)
		}
	}
	v.report.Decisions = sortedBySeq(v.report.Decisions)
}

// decidingCells returns the ids of the cells whose decisions a bundle may carry: the
// run's own, and those that accepted the run as the winner of a race.
func (v *bundleCheck) decidingCells() map[string]bool {
	cells := map[string]bool{v.report.Run.CellID: true}
	for _, raw := range v.bundle.Decisions {
		s, err := Verify(raw, v.keys)
		if err != nil {
			continue // it is reported with the others
		}
		if d, ok := s.Predicate.(*Decision); ok && d.wonBy(v.report.Run) {
			cells[d.CellID] = true
		}
	}
	return cells
}

// checkContext looks for the statements that prev and cell_prev stand for.
func (v *bundleCheck) checkContext() {
	run := v.report.Run
	prev, cellPrev := NotIncluded, NotIncluded
	for _, raw := range slices.Concat(v.bundle.Context, v.bundle.Keys) {
		e, err := ParseEnvelope(raw)
		sum := Hash(raw)
		if err != nil {
			v.add("context", sum, Mismatch, err.Error())
			continue
		}
		// A key statement that is not part of the trust is reported above.
		if err := e.Verify(v.keys); err != nil {
			if e.Statement.PredicateType != TypeKey {
				v.add("context "+e.Statement.ID(), sum, Mismatch, err.Error())
			}
			continue
		}
		at := e.Statement.Place()
		if at.HomeID != run.HomeID {
			continue
		}
		prev = worse(prev, matches(at.Seq == run.Seq-1, sum == run.Prev))
		if sum == run.CellPrev {
			cellPrev = worse(cellPrev, matches(true, at.CellID == run.CellID && at.Seq < run.Seq))
		}
	}
	v.addLink("prev", run.Prev, prev)
	v.addLink("cell_prev", run.CellPrev, cellPrev)
}

func (v *bundleCheck) addLink(name, sum string, state State) {
	if sum == "" {
		return // the first of its log or cell
	}
	v.add(name, sum, state, "")
}

// matches judges a statement that claims a place (due) or has its hash (same).
func matches(due, same bool) State {
	switch {
	case due && same:
		return Verified
	case due || same:
		return Mismatch
	}
	return NotIncluded
}

func worse(a, b State) State {
	rank := map[State]int{NotIncluded: 0, Verified: 1, Mismatch: 2}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// checkContents compares included things with the hashes that bind them.
func (v *bundleCheck) checkContents() {
	run := v.report.Run
	v.addRoots("checkpoint_before", Roots{run.CheckpointBefore.Root, run.CheckpointBefore.MetaRoot})
	v.addRoots("checkpoint_after", Roots{run.CheckpointAfter.Root, run.CheckpointAfter.MetaRoot})
	for _, area := range sortedKeys(run.CheckpointAfter.Areas) {
		v.addRoots("checkpoint_after.areas."+area, run.CheckpointAfter.Areas[area])
	}
	if run.PolicyHash != "" {
		v.addBlob("policy_hash", run.PolicyHash, -1)
	}
	for i, p := range run.Policies {
		// The first is the run's own, which stands above.
		if i > 0 && p.PolicyHash != run.PolicyHash {
			v.addBlob(fmt.Sprintf("policies[%d]", i), p.PolicyHash, -1)
		}
	}
	v.checkEvents()
	for _, l := range run.Logs {
		v.addBlob("logs."+l.Stream, l.SHA256, l.Bytes)
	}
	for _, sum := range sortedKeys(v.bundle.Included) {
		if !v.used[sum] {
			v.add("included", sum, Mismatch, "nothing binds it")
		}
	}
}

func (v *bundleCheck) addRoots(name string, r Roots) {
	const note = "a bundle does not carry files"
	v.add(name+".root", r.Root, NotIncluded, note)
	v.add(name+".meta_root", r.MetaRoot, NotIncluded, note)
}

func (v *bundleCheck) addBlob(name, sum string, size int64) {
	data, ok := v.bundle.Included[sum]
	v.used[sum] = true
	switch {
	case !ok:
		v.add(name, sum, NotIncluded, "")
	case Hash(data) != sum:
		v.add(name, sum, Mismatch, "the contents have another hash")
	case size >= 0 && int64(len(data)) != size:
		v.add(name, sum, Mismatch, fmt.Sprintf("%d bytes, the receipt says %d", len(data), size))
	default:
		v.add(name, sum, Verified, "")
	}
}
