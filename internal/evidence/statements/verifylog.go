package statements

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// logVerifier walks the log once and compares it with what the database says.
type logVerifier struct {
	log   *Log
	tx    *store.Tx
	res   *api.ReceiptVerifyResult
	scope Scope
	keys  *receipt.KeySet
	// onDisk are the statements that had their final names before tx began.
	onDisk []int64
	// journals are the newest statements about the files of the journal of requests,
	// by their numbers.
	journals map[int64]*receipt.Journal
	// losses are the statements that give others up.
	losses []*receipt.Loss
	// unread are the states whose manifests could not be read.
	unread []signedState
	// missing is stored output that was not there; gc may have freed it meanwhile.
	missing []missingLog
}

// signedState is a state that a statement gives.
type signedState struct {
	id   string // of the statement
	want receipt.Checkpoint
	row  store.Checkpoint
	err  error
}

func (v *logVerifier) problem(id, format string, args ...any) {
	v.res.Problems = append(v.res.Problems, api.ReceiptProblem{ID: id, What: fmt.Sprintf(format, args...)})
}

func (v *logVerifier) bound(id, what, sum, status string) {
	v.res.Bound = append(v.res.Bound, api.BoundHash{ID: id, What: what, SHA256: sum, Status: status})
}

// statements verifies the statements that the database knows, and compares it with
// them. Parsing and verifying them takes most of the time, so it is done once, while
// they are replayed. Only if one of them does not hold are they read again, to name
// everything that does not.
func (v *logVerifier) statements(known []store.Statement) error {
	v.reset()
	place := 0
	signed, err := v.log.replay(numbers(known), func(seq int64, raw []byte, s receipt.Statement) error {
		for known[place].Seq < seq {
			place++
		}
		return v.checkSubject(known[place], raw, s)
	})
	if err != nil {
		return err
	}
	if !signed.sound {
		if err := v.eachByItself(known); err != nil {
			return err
		}
	}
	return v.rows(known, signed.rows)
}

// reset forgets what was found.
func (v *logVerifier) reset() {
	*v.res = *newResult()
	v.journals, v.unread = map[int64]*receipt.Journal{}, nil
}

// eachByItself verifies the statements without the help of the replay.
func (v *logVerifier) eachByItself(known []store.Statement) error {
	v.reset()
	v.findLosses(known)
	chain := receipt.NewChain(v.keys)
	for _, st := range known {
		if err := v.statement(chain, st); err != nil {
			return err
		}
	}
	return nil
}

func (v *logVerifier) statement(chain *receipt.Chain, st store.Statement) error {
	raw, err := v.log.store.ReadStatement(st.Seq)
	givenUp := slices.ContainsFunc(v.losses, func(l *receipt.Loss) bool { return l.Covers(st.Seq) })
	if err == nil && givenUp {
		_, err = receipt.Verify(raw, v.keys)
	}
	if err != nil {
		p := chain.Missing(err)
		if v.scope.covers(st) && !givenUp {
			v.problem(st.ID, "%s", p.What)
		}
		return nil
	}
	s, problems := chain.Next(raw)
	if len(problems) == 0 {
		return v.checkSubject(st, raw, s)
	}
	if v.scope.covers(st) {
		v.res.Checked++
		for _, p := range problems {
			v.problem(st.ID, "%s", p.What)
		}
		v.checkRecorded(st, raw)
	}
	return nil
}

// checkRecorded checks that a statement is the one that the database knows.
func (v *logVerifier) checkRecorded(st store.Statement, raw []byte) {
	if receipt.Hash(raw) != st.Digest {
		v.problem(st.ID, "the statement is not the one that the database recorded")
	}
}

// checkSubject checks what a verified statement is about, if the scope covers it.
func (v *logVerifier) checkSubject(st store.Statement, raw []byte, s receipt.Statement) error {
	if !v.scope.covers(st) {
		return nil
	}
	v.res.Checked++
	v.checkRecorded(st, raw)
	switch p := s.Predicate.(type) {
	case *receipt.Run:
		return v.run(st, p)
	case *receipt.Rotation:
		if p.Lost {
			v.res.Notes = append(v.res.Notes, fmt.Sprintf(
				"from statement %d on key %s signs: key %s was lost and did not sign the change", p.Seq, p.NewKeyID, p.OldKeyID))
		}
	case *receipt.Loss:
		v.res.Notes = append(v.res.Notes, describeLoss(p))
	case *receipt.Journal:
		v.journals[p.Segment] = p
	case *receipt.Change:
		if err := v.state(signedState{id: st.ID, want: p.Checkpoint}, v.tx, func(_, _, _, _ string) {}); err != nil {
			return err
		}
		return v.cellPolicy(st.ID, p)
	}
	return nil
}

// findLosses reads the statements that give others up. They stand after what they
// are about.
func (v *logVerifier) findLosses(statements []store.Statement) {
	for _, st := range statements {
		if st.Kind != kindLoss {
			continue
		}
		raw, err := v.log.store.ReadStatement(st.Seq)
		if err != nil {
			continue // it is named when its turn comes
		}
		s, err := receipt.Verify(raw, v.keys)
		if p, ok := s.Predicate.(*receipt.Loss); err == nil && ok {
			v.losses = append(v.losses, p)
		}
	}
}

// cellPolicy checks the text of the policy that a statement gives a cell.
func (v *logVerifier) cellPolicy(id string, p *receipt.Change) error {
	if p.Op != receipt.OpInit && p.Op != receipt.OpFork && p.Op != receipt.OpPolicy {
		return nil
	}
	var record cellRecord
	if err := json.Unmarshal([]byte(p.Details["record"]), &record); err != nil || record.Policy == "" {
		return nil // a recovery names it
	}
	return v.blob(id, "policy", record.Policy)
}

// run checks every hash that a receipt binds.
func (v *logVerifier) run(st store.Statement, p *receipt.Run) error {
	if err := v.logs(st.ID, p); err != nil {
		return err
	}
	if p.PolicyHash != "" {
		if err := v.blob(st.ID, "policy", p.PolicyHash); err != nil {
			return err
		}
	}
	if err := v.policies(st.ID, p); err != nil {
		return err
	}
	if err := v.events(st.ID, p); err != nil {
		return err
	}
	return v.state(signedState{id: st.ID, want: p.CheckpointAfter}, v.tx, v.bound)
}

// logs checks the stored output of a run. What gc has freed has its digests in the
// receipt.
func (v *logVerifier) logs(id string, p *receipt.Run) error {
	row, err := v.tx.Run(p.RunID)
	if err != nil && !errors.Is(err, store.ErrNotFound) { // rows names it
		return err
	}
	for _, l := range p.Logs {
		if row.OutputFreed {
			v.bound(id, l.Stream, l.SHA256, "freed")
			continue
		}
		has, err := v.log.store.HasBlob(l.SHA256)
		if err != nil {
			return err
		}
		if !has {
			v.missing = append(v.missing, missingLog{id, p.RunID, l})
			continue
		}
		if err := v.blob(id, l.Stream, l.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// missingLog is stored output that is not there.
type missingLog struct {
	id, run string
	log     receipt.Log
}

// missingAgain names the stored output that is missing, unless gc has freed it since the
// database was read.
func (v *logVerifier) missingAgain() error {
	if len(v.missing) == 0 {
		return nil
	}
	return v.log.store.View(func(tx *store.Tx) error {
		for _, m := range v.missing {
			now, err := tx.Run(m.run)
			if err == nil && now.OutputFreed {
				v.bound(m.id, m.log.Stream, m.log.SHA256, "freed")
				continue
			}
			if err := v.blob(m.id, m.log.Stream, m.log.SHA256); err != nil {
				return err
			}
		}
		return nil
	})
}

func (v *logVerifier) blob(id, what, sum string) error {
	f, err := v.log.store.OpenBlob(sum)
	if err != nil {
		v.bound(id, what, sum, "missing")
		v.problem(id, "%s: its stored bytes are missing", what)
		return nil
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	if errors.Is(err, store.ErrDigest) {
		v.bound(id, what, sum, "mismatch")
		v.problem(id, "%s: its stored bytes were changed", what)
		return nil
	}
	if err == nil {
		v.bound(id, what, sum, "verified")
	}
	return err
}

// state checks that the manifest of a state has the signed identity. The bytes
// themselves are checked by `forkcell verify`.
func (v *logVerifier) state(s signedState, tx *store.Tx, bound func(id, what, sum, status string)) (err error) {
	if s.row, err = tx.Checkpoint(s.want.ID); errors.Is(err, store.ErrNotFound) {
		return nil // rows names it
	}
	if err != nil {
		return err
	}
	if s.row.Freed {
		bound(s.id, "root", s.want.Root, "freed")
		return nil
	}
	m, err := v.log.layers.Manifest(s.row.Layer)
	if err != nil {
		s.err = err
		v.unread = append(v.unread, s)
		return nil
	}
	for _, area := range slices.Sorted(maps.Keys(s.want.Areas)) {
		roots := s.want.Areas[area]
		t, ok := m.Area(area)
		if !ok {
			v.problem(s.id, "manifest of %s has no %s", s.want.ID, area)
			continue
		}
		root, meta := t.Roots()
		if root.String() != roots.Root || meta.String() != roots.MetaRoot {
			bound(s.id, area+" root", roots.Root, "mismatch")
			v.problem(s.id, "manifest of %s: %s does not have the signed root", s.want.ID, area)
			continue
		}
		bound(s.id, area+" root", roots.Root, "verified")
	}
	return nil
}

// retryUnreadable looks at the manifests that could not be read. gc may have removed a
// layer, or a squash replaced it, since the database was read. So a manifest is
// missing only if the database still says the same.
func (v *logVerifier) retryUnreadable() error {
	if err := v.missingAgain(); err != nil {
		return err
	}
	for len(v.unread) > 0 {
		unread := v.unread
		v.unread = nil
		err := v.log.store.View(func(tx *store.Tx) error {
			for _, s := range unread {
				now, err := tx.Checkpoint(s.want.ID)
				if err == nil && now.Freed == s.row.Freed && now.Layer == s.row.Layer {
					v.problem(s.id, "manifest of %s: %v", s.want.ID, s.err)
					continue
				}
				if err := v.state(s, tx, v.bound); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rows compares the database with the rows that the log, replayed, gives. It finds
// rows that were changed, added or removed.
func (v *logVerifier) rows(known []store.Statement, signed rowsByKey) error {
	now, err := snapshot(v.tx)
	if err != nil {
		return err
	}
	for _, d := range differences(signed, now) {
		if v.scope.covers(store.Statement{CellID: d.Cell, RunID: d.Run}) {
			v.problem(d.ID, "%s", d.Text)
		}
	}
	indexed := make(map[int64]bool, len(known))
	for _, st := range known {
		indexed[st.Seq] = true
	}
	missing := slices.DeleteFunc(v.onDisk, func(seq int64) bool { return indexed[seq] })
	if len(missing) > 0 {
		v.problem("log", "it has %d statements that the database does not know: run `forkcell recover`", len(missing))
	}
	return v.heads()
}

// heads finds cells whose state is marked as freed: gc never frees a head.
func (v *logVerifier) heads() error {
	cells, err := v.tx.Cells(false)
	if err != nil {
		return err
	}
	for _, c := range cells {
		if !v.scope.covers(store.Statement{CellID: c.ID, RunID: v.scope.Run}) {
			continue
		}
		for what, id := range map[string]string{"head": c.Head, "applied state": c.Applied} {
			chk, err := v.tx.Checkpoint(id)
			if err == nil && chk.Freed {
				v.problem(c.ID, "the database says that its %s %s was freed", what, id)
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
	}
	return nil
}
