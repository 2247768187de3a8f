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

	runs      map[string]*receipt.Run
	decisions map[string][]*receipt.Decision
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
	case *receipt.Decision:
		v.decision(p)
	}
	return nil
}

// run checks the row of a run and every hash that its receipt binds.
func (v *logVerifier) run(st store.Statement, p *receipt.Run) error {
	if v.runs == nil {
		v.runs, v.decisions = map[string]*receipt.Run{}, map[string][]*receipt.Decision{}
	}
	v.runs[p.RunID] = p
	row, err := v.tx.Run(p.RunID)
	if errors.Is(err, store.ErrNotFound) {
		v.problem(st.ID, "the database has no run %s", p.RunID)
		return nil
	}
	if err != nil {
		return err
	}
	v.compare(st.ID, "receipt", row.ReceiptID, p.ReceiptID)
	v.compare(st.ID, "outcome", row.Outcome, string(p.Outcome))
	v.compare(st.ID, "exit code", fmt.Sprint(row.ExitCode), fmt.Sprint(p.ExitCode))
	v.compare(st.ID, "state before", row.Before, p.CheckpointBefore.ID)
	v.compare(st.ID, "state after", row.After, p.CheckpointAfter.ID)
	for _, l := range p.Logs {
		if err := v.blob(st.ID, l.Stream, l.SHA256); err != nil {
			return err
		}
	}
	return v.state(st.ID, p.CheckpointAfter)
}

func (v *logVerifier) compare(id, what, row, signed string) {
	if row != signed {
		v.problem(id, "the database says %s %q, signed was %q", what, row, signed)
	}
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
	v.compare(id, "root of "+want.ID, row.Root(), want.Root)
	v.compare(id, "meta root of "+want.ID, row.MetaRoot(), want.MetaRoot)
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

func (v *logVerifier) decision(p *receipt.Decision) {
	if p.Result == receipt.Forked {
		return
	}
	if v.decisions == nil {
		v.runs, v.decisions = map[string]*receipt.Run{}, map[string][]*receipt.Decision{}
	}
	v.decisions[p.RunID] = append(v.decisions[p.RunID], p)
}

// rows looks for what the database claims and nobody signed.
func (v *logVerifier) rows() error {
	rows, err := v.tx.Runs("")
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.State != "done" {
			continue
		}
		signed, ok := v.runs[row.ID]
		if !ok {
			v.problem(row.ID, "the database has a run that no statement is about")
			continue
		}
		standing := receipt.Present(signed, v.decisions[row.ID])
		v.compare(row.ReceiptID, "decision", row.Decision, string(standing.Result))
	}
	last, err := v.e.store.SeqsOnDisk()
	if err != nil {
		return err
	}
	known, err := v.tx.Statements("")
	if err != nil {
		return err
	}
	// One statement may have been written by a process that died before its
	// transaction; more mean that the database is behind its log.
	if len(last) > len(known)+1 {
		v.problem("log", "it has %d statements, the database knows %d: run `forkcell recover`", len(last), len(known))
	}
	return nil
}
