package cell

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// logVerifier walks the log once and compares it with what the database says.
type logVerifier struct {
	e     *Engine
	tx    *store.Tx
	res   *ReceiptVerifyResult
	scope scope
}

func (v *logVerifier) problem(id, format string, args ...any) {
	v.res.Problems = append(v.res.Problems, ReceiptProblem{ID: id, What: fmt.Sprintf(format, args...)})
}

func (v *logVerifier) bound(what, sum, status string) {
	v.res.Bound = append(v.res.Bound, BoundHash{What: what, SHA256: sum, Status: status})
}

func (v *logVerifier) statement(chain *receipt.Chain, st store.Statement) error {
	raw, err := v.e.store.ReadStatement(st.Seq)
	if err != nil {
		p := chain.Missing(err)
		if v.scope.covers(st) {
			v.problem(st.ID, "%s", p.What)
		}
		return nil
	}
	s, problems := chain.Next(raw)
	if !v.scope.covers(st) {
		return nil
	}
	v.res.Checked++
	for _, p := range problems {
		v.problem(st.ID, "%s", p.What)
	}
	if receipt.Hash(raw) != st.Digest {
		v.problem(st.ID, "the statement is not the one that the database recorded")
	}
	if len(problems) > 0 {
		return nil
	}
	switch p := s.Predicate.(type) {
	case *receipt.Run:
		return v.run(st, p)
	case *receipt.Change:
		return v.cellPolicy(st.ID, p)
	}
	return nil
}

// cellPolicy checks the text of the policy that a statement gives a cell.
func (v *logVerifier) cellPolicy(id string, p *receipt.Change) error {
	if p.Op != opInit && p.Op != opFork && p.Op != opPolicy {
		return nil
	}
	var record cellExtra
	if err := json.Unmarshal([]byte(p.Details["record"]), &record); err != nil || record.Policy == "" {
		return nil // who rebuilds the database from it says what is wrong
	}
	return v.blob(id, "policy", record.Policy)
}

// run checks every hash that a receipt binds.
func (v *logVerifier) run(st store.Statement, p *receipt.Run) error {
	for _, l := range p.Logs {
		if err := v.blob(st.ID, l.Stream, l.SHA256); err != nil {
			return err
		}
	}
	if p.PolicyHash != "" {
		if err := v.blob(st.ID, "policy", p.PolicyHash); err != nil {
			return err
		}
	}
	if err := v.rulings(st.ID, p); err != nil {
		return err
	}
	if err := v.events(st.ID, p); err != nil {
		return err
	}
	return v.state(st.ID, p.CheckpointAfter)
}

// events recomputes the chain of a run's journal and compares it with what the
// receipt says of it.
func (v *logVerifier) events(id string, p *receipt.Run) error {
	sum, err := v.e.journalSummary(p.RunID)
	head := p.Events.ChainHead
	status, what := "mismatch", ""
	switch {
	case errors.Is(err, fs.ErrNotExist) && head == "":
		return nil
	case errors.Is(err, fs.ErrNotExist):
		status, what = "missing", "the journal is missing"
	case errors.Is(err, event.ErrCorrupt):
		what = "the journal was changed: " + err.Error()
	case err != nil:
		return err
	case head == "":
		what = "there is a journal that the receipt does not know"
	case sum.Records != uint64(p.Events.Count):
		what = fmt.Sprintf("the journal has %d records, the receipt says %d", sum.Records, p.Events.Count)
	case sum.Head != head:
		what = "the journal was changed: its chain does not have the signed hash"
	case !maps.Equal(actionCounts(sum), p.Events.ByAction):
		what = "the receipt's counts by action are not those of the journal"
	default:
		status = "verified"
	}
	v.bound("events", head, status)
	if what != "" {
		v.problem(id, "events: %s", what)
	}
	return nil
}

// journalSummary recomputes what a run's journal amounts to.
func (e *Engine) journalSummary(run string) (event.Summary, error) {
	f, err := e.store.OpenEvents(run)
	if err != nil {
		return event.Summary{}, err
	}
	defer f.Close()
	return event.Verify(f)
}

// actionCounts are a journal's counts as a receipt has them.
func actionCounts(s event.Summary) map[string]int64 {
	counts := map[string]int64{}
	for action, n := range s.Actions {
		counts[string(action)] = int64(n)
	}
	return counts
}

func (v *logVerifier) blob(id, what, sum string) error {
	f, err := v.e.store.OpenBlob(sum)
	if err != nil {
		v.bound(what, sum, "missing")
		v.problem(id, "%s: its stored bytes are missing", what)
		return nil
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	if errors.Is(err, store.ErrDigest) {
		v.bound(what, sum, "mismatch")
		v.problem(id, "%s: its stored bytes were changed", what)
		return nil
	}
	if err == nil {
		v.bound(what, sum, "verified")
	}
	return err
}

// state checks that the database and the manifest have the signed identity. The
// bytes themselves are the business of verify.
func (v *logVerifier) state(id string, want receipt.Checkpoint) error {
	row, err := v.tx.Checkpoint(want.ID)
	if errors.Is(err, store.ErrNotFound) {
		v.problem(id, "the database has no checkpoint %s", want.ID)
		return nil
	}
	if err != nil {
		return err
	}
	if row.Freed {
		v.bound("root", want.Root, "freed")
		return nil
	}
	m, err := v.e.ws.Manifest(row.Layer)
	if err != nil {
		v.problem(id, "manifest of %s: %v", want.ID, err)
		return nil
	}
	for _, area := range slices.Sorted(maps.Keys(want.Areas)) {
		roots := want.Areas[area]
		t, ok := m.Area(area)
		if !ok {
			v.problem(id, "manifest of %s has no %s", want.ID, area)
			continue
		}
		root, meta := t.Roots()
		if root.String() != roots.Root || meta.String() != roots.MetaRoot {
			v.bound(area+" root", roots.Root, "mismatch")
			v.problem(id, "manifest of %s: %s does not have the signed root", want.ID, area)
			continue
		}
		v.bound(area+" root", roots.Root, "verified")
	}
	return nil
}

// rows compares what the database says with what the log, replayed, gives: a
// row that somebody changed, added or removed is found by what was signed.
func (v *logVerifier) rows() error {
	replayed, err := v.e.replayed()
	if err != nil {
		return err
	}
	now, err := snapshot(v.tx)
	if err != nil {
		return err
	}
	for _, d := range differences(replayed, now) {
		if v.scope.covers(store.Statement{CellID: d.cell, RunID: d.run}) || v.scope == (scope{}) {
			v.problem(d.id, "%s", d.text)
		}
	}
	committed, _, err := v.e.store.SeqsOnDisk()
	if err != nil {
		return err
	}
	known, err := v.tx.Statements("")
	if err != nil {
		return err
	}
	if len(committed) > len(known) {
		v.problem("log", "it has %d statements, the database knows %d: run `forkcell recover`", len(committed), len(known))
	}
	return nil
}
