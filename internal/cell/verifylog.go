package cell

import (
	"errors"
	"fmt"
	"io"

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
	if p, ok := s.Predicate.(*receipt.Run); ok {
		return v.run(st, p)
	}
	return nil
}

// run checks every hash that a receipt binds.
func (v *logVerifier) run(st store.Statement, p *receipt.Run) error {
	for _, l := range p.Logs {
		if err := v.blob(st.ID, l.Stream, l.SHA256); err != nil {
			return err
		}
	}
	return v.state(st.ID, p.CheckpointAfter)
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
	for area, roots := range want.Areas {
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
