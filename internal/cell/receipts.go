package cell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// ReceiptDoc is one receipt in every form.
type ReceiptDoc struct {
	Info      ReceiptInfo
	Envelope  []byte // the exact signed bytes
	Statement receipt.Statement
	JSON      []byte // the statement, and the decision that stands now
	Markdown  []byte
}

// ReceiptList lists receipts, oldest first; "" asks for all cells.
func (e *Engine) ReceiptList(_ context.Context, cell string) ([]ReceiptInfo, error) {
	out := []ReceiptInfo{}
	if e.store == nil && cell == "" {
		return out, nil
	}
	cellID := ""
	if cell != "" {
		c, err := e.findCell(cell)
		if err != nil {
			return nil, err
		}
		cellID = c.ID
	}
	err := e.store.View(func(tx *store.Tx) error {
		runs, err := tx.Runs(cellID)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if r.State != "done" {
				continue
			}
			info, err := receiptInfo(tx, r)
			if err != nil {
				return err
			}
			out = append(out, info)
		}
		return nil
	})
	return out, err
}

func receiptInfo(tx *store.Tx, r store.Run) (ReceiptInfo, error) {
	c, err := tx.CellByID(r.CellID)
	return ReceiptInfo{
		ReceiptID: r.ReceiptID, RunID: r.ID, Cell: c.LastName, Outcome: r.Outcome, Decision: r.Decision, CreatedAt: r.FinishedAt,
	}, err
}

// findReceipt resolves a receipt by id, or the latest of a cell, or of all.
func (e *Engine) findReceipt(tx *store.Tx, id, cell string) (store.Run, error) {
	if id == "" {
		cellID := ""
		if cell != "" {
			c, err := tx.Cell(cell)
			if err != nil {
				return store.Run{}, idError("cell", cell, err, "`forkcell ls` shows the cells")
			}
			cellID = c.ID
		}
		runs, err := tx.Runs(cellID)
		if err != nil {
			return store.Run{}, err
		}
		for i := len(runs) - 1; i >= 0; i-- {
			if runs[i].State == "done" {
				return runs[i], nil
			}
		}
		return store.Run{}, notFound("receipt", "there is none yet", "`forkcell run CELL -- CMD` makes one")
	}
	full, err := tx.Complete("statements", id)
	if err != nil {
		return store.Run{}, idError("receipt", id, err, "`forkcell receipt list` shows them")
	}
	r, err := tx.RunOfReceipt(full)
	if errors.Is(err, store.ErrNotFound) {
		return r, notFound("receipt", id, "`forkcell receipt list` shows them")
	}
	return r, err
}

// Receipt returns one receipt with the decision that stands now. Its signature
// is checked first: what does not verify is not shown as evidence.
func (e *Engine) Receipt(_ context.Context, id, cell string, _ bool) (*ReceiptDoc, error) {
	doc := &ReceiptDoc{}
	var statements []store.Statement
	err := e.view(func(tx *store.Tx) error {
		r, err := e.findReceipt(tx, id, cell)
		if err != nil {
			return err
		}
		if doc.Info, err = receiptInfo(tx, r); err != nil {
			return err
		}
		statements, err = tx.RunStatements(r.ID)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("receipt", "there is none yet", "`forkcell run CELL -- CMD` makes one")
	}
	if err != nil {
		return nil, err
	}
	run, decisions, err := e.readEvidence(doc, statements)
	if err != nil {
		return nil, err
	}
	standing := receipt.Present(run, decisions)
	doc.Info.Decision = string(standing.Result)
	doc.JSON, err = json.MarshalIndent(struct {
		Receipt   receipt.Statement   `json:"receipt"`
		Decisions []*receipt.Decision `json:"decisions"`
		Decision  string              `json:"decision"`
	}{doc.Statement, append([]*receipt.Decision{}, decisions...), string(standing.Result)}, "", "  ")
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = receipt.Markdown(&page, run, decisions, nil)
	doc.Markdown = page.Bytes()
	return doc, err
}

// readEvidence reads and verifies a receipt and the decisions about it.
func (e *Engine) readEvidence(doc *ReceiptDoc, statements []store.Statement) (*receipt.Run, []*receipt.Decision, error) {
	keys, err := e.keys("")
	if err != nil {
		return nil, nil, err
	}
	var run *receipt.Run
	var decisions []*receipt.Decision
	for _, st := range statements {
		raw, err := e.store.ReadStatement(st.Seq)
		if err == nil && receipt.Hash(raw) != st.Digest {
			err = errors.New("its bytes are not the recorded ones")
		}
		var s receipt.Statement
		if err == nil {
			s, err = receipt.Verify(raw, keys)
		}
		if err != nil {
			return nil, nil, refused("bad_receipt", "`forkcell receipt verify --all` names everything that does not hold",
				"statement %s does not verify: %v", st.ID, err)
		}
		switch p := s.Predicate.(type) {
		case *receipt.Run:
			run, doc.Statement, doc.Envelope = p, s, raw
		case *receipt.Decision:
			// A fork decides nothing about the run itself.
			if p.Result != receipt.Forked {
				decisions = append(decisions, p)
			}
		}
	}
	if run == nil {
		return nil, nil, refused("bad_receipt", "", "the log has no receipt for %s", doc.Info.RunID)
	}
	return run, decisions, nil
}

// keys are the home's own keys, the trusted ones, and one given as a file.
// Rotations in the home's log are followed.
func (e *Engine) keys(keyFile string) (*receipt.KeySet, error) {
	set := receipt.NewKeySet()
	if keyFile != "" {
		data, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, usage("", "--key %s: %v", quote.Path(keyFile), err)
		}
		pub, err := receipt.ParsePublic(data)
		if err != nil {
			return nil, usage("give a PEM (SPKI) Ed25519 public key, as `forkcell key show` prints", "--key %s: %v", quote.Path(keyFile), err)
		}
		set.Trust(pub)
	}
	if e.store == nil {
		return set, nil
	}
	trusted, err := e.store.TrustedKeys()
	if err != nil {
		return nil, err
	}
	for id, pem := range trusted {
		pub, err := receipt.ParsePublic(pem)
		if err != nil {
			return nil, fmt.Errorf("trusted key %s: %w", id, err)
		}
		set.Trust(pub)
	}
	return set, e.addOwnKeys(set)
}

// addOwnKeys trusts the keys that this home has held itself.
func (e *Engine) addOwnKeys(set *receipt.KeySet) error {
	own, err := e.store.RetiredKeys()
	if err != nil {
		return err
	}
	present, err := e.store.SigningKey(nil)
	if err == nil {
		own["present"] = present
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for id, pem := range own {
		key, err := receipt.ParsePrivate(pem)
		if err != nil {
			return fmt.Errorf("key %s: %w", id, err)
		}
		set.Trust(key.Public())
	}
	return nil
}

// ReceiptVerify checks signatures, the chain, every bound hash, and that the
// database says what was signed.
func (e *Engine) ReceiptVerify(_ context.Context, id, cell string, all bool, keyFile string) (*ReceiptVerifyResult, error) {
	res := &ReceiptVerifyResult{Problems: []ReceiptProblem{}, Bound: []BoundHash{}}
	if e.store == nil {
		if all {
			res.OK = true
			return res, nil
		}
		return nil, notFound("receipt", id+cell, "there is no state directory yet")
	}
	scope, err := e.verifyScope(id, cell, all)
	if err != nil {
		return nil, err
	}
	keys, err := e.keys(keyFile)
	if err != nil {
		return nil, err
	}
	if err := e.verifyLog(scope, keys, res); err != nil {
		return nil, err
	}
	res.OK = len(res.Problems) == 0
	if key, err := e.store.SigningKey(nil); err == nil {
		if s, err := receipt.ParsePrivate(key); err == nil {
			res.KeyID = s.KeyID()
		}
	}
	if !res.OK {
		return res, refused("not_verified", "", "%d things do not hold", len(res.Problems))
	}
	return res, nil
}

// scope says which statements a verification is asked about. The whole chain is
// always walked: one statement is only as good as those before it.
type scope struct {
	run  string
	cell string
}

func (s scope) covers(st store.Statement) bool {
	return (s.run == "" || st.RunID == s.run) && (s.cell == "" || st.CellID == s.cell)
}

func (e *Engine) verifyScope(id, cell string, all bool) (scope, error) {
	if all {
		return scope{}, nil
	}
	if id == "" && cell == "" {
		return scope{}, usage("give a receipt, --cell, --all or --bundle", "nothing to verify")
	}
	var s scope
	err := e.store.View(func(tx *store.Tx) error {
		if cell != "" {
			c, err := tx.Cell(cell)
			s.cell = c.ID
			if err != nil {
				return idError("cell", cell, err, "`forkcell ls` shows the cells")
			}
		}
		if id != "" {
			r, err := e.findReceipt(tx, id, "")
			s.run = r.ID
			return err
		}
		return nil
	})
	return s, err
}

func (e *Engine) verifyLog(sc scope, keys *receipt.KeySet, res *ReceiptVerifyResult) error {
	return e.store.View(func(tx *store.Tx) error {
		statements, err := tx.Statements("")
		if err != nil {
			return err
		}
		v := &logVerifier{e: e, tx: tx, res: res, scope: sc}
		chain := receipt.NewChain(keys)
		for _, st := range statements {
			if err := v.statement(chain, st); err != nil {
				return err
			}
		}
		return v.rows()
	})
}

// BundleVerify checks a bundle with keys that are trusted here, never with the
// one inside it.
func (e *Engine) BundleVerify(_ context.Context, file, keyFile string) (*ReceiptVerifyResult, error) {
	keys, err := e.keys(keyFile)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, usage("", "--bundle %s: %v", quote.Path(file), err)
	}
	defer f.Close()
	report, err := receipt.VerifyBundle(f, keys)
	if errors.Is(err, receipt.ErrUntrusted) {
		return nil, &Error{
			Kind: Refused, Code: "untrusted", Message: "bundle: " + err.Error(),
			Hint: "give the signer's public key with --key, or trust it with `forkcell key trust FILE`", Err: err,
		}
	}
	if err != nil && len(report.Checks) == 0 {
		return nil, &Error{Kind: Refused, Code: "not_verified", Message: "bundle: " + err.Error(), Hint: "do not rely on it", Err: err}
	}
	return bundleResult(report)
}

func bundleResult(report receipt.BundleReport) (*ReceiptVerifyResult, error) {
	res := &ReceiptVerifyResult{Checked: 1, OK: true, Problems: []ReceiptProblem{}, Bound: []BoundHash{}, KeyID: report.TrustedKey}
	for _, c := range report.Checks {
		res.Bound = append(res.Bound, BoundHash{What: c.Name, SHA256: c.SHA256, Status: string(c.State)})
		if c.State == receipt.Mismatch {
			res.OK = false
			res.Problems = append(res.Problems, ReceiptProblem{ID: report.Run.ReceiptID, What: c.Name + " does not have its hash"})
		}
	}
	if !res.OK {
		return res, refused("not_verified", "do not rely on it", "bundle: %d things do not hold", len(res.Problems))
	}
	return res, nil
}

// ReceiptExport writes a self-contained bundle.
func (e *Engine) ReceiptExport(ctx context.Context, id, output string) (int64, error) {
	if output == "" {
		return 0, usage("`-o FILE`", "no output file")
	}
	if err := e.apart("-o", output); err != nil {
		return 0, err
	}
	doc, err := e.Receipt(ctx, id, "", false)
	if err != nil {
		return 0, err
	}
	b, err := e.bundle(doc)
	if err != nil {
		return 0, err
	}
	var data bytes.Buffer
	if err := receipt.WriteBundle(&data, b); err != nil {
		return 0, err
	}
	out, err := createOutput(output)
	if err != nil {
		return 0, err
	}
	if _, err := out.Write(data.Bytes()); err != nil {
		return 0, out.fail(err)
	}
	return int64(data.Len()), out.commit()
}

// envelopes yields the exact bytes of statements.
func (e *Engine) envelopes(statements []store.Statement) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, st := range statements {
			if !yield(e.store.ReadStatement(st.Seq)) {
				return
			}
		}
	}
}

// Decisions lists decisions, oldest first. Automatic ones stand in receipts.
func (e *Engine) Decisions(_ context.Context, cell, run string) ([]DecisionInfo, error) {
	out := []DecisionInfo{}
	if e.store == nil && cell == "" {
		return out, nil
	}
	var statements []store.Statement
	err := e.view(func(tx *store.Tx) error {
		cellID, runID := "", ""
		if cell != "" {
			c, err := tx.Cell(cell)
			if err != nil {
				return idError("cell", cell, err, "`forkcell ls` shows the cells")
			}
			cellID = c.ID
		}
		if run != "" {
			id, err := tx.Complete("runs", run)
			if err != nil {
				return idError("run", run, err, "`forkcell log CELL` shows them")
			}
			runID = id
		}
		all, err := tx.Statements(cellID)
		for _, st := range all {
			if (st.Kind == kindRun || st.Kind == kindDecision) && (runID == "" || st.RunID == runID) {
				statements = append(statements, st)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for raw, err := range e.envelopes(statements) {
		if err != nil {
			return nil, err
		}
		env, err := receipt.ParseEnvelope(raw)
		if err != nil {
			return nil, err
		}
		if info, ok := decisionInfo(env.Statement); ok {
			out = append(out, info)
		}
	}
	return out, nil
}

// Decision finds one decision.
func (e *Engine) Decision(ctx context.Context, id string) (*DecisionInfo, error) {
	all, err := e.Decisions(ctx, "", "")
	if err != nil {
		return nil, err
	}
	var found *DecisionInfo
	for i := range all {
		if all[i].DecisionID == id {
			return &all[i], nil
		}
		if len(id) > 0 && len(all[i].DecisionID) >= len(id) && all[i].DecisionID[:len(id)] == id {
			if found != nil {
				return nil, usage("give more of it", "decision %q fits more than one", id)
			}
			found = &all[i]
		}
	}
	if found == nil {
		return nil, notFound("decision", id, "`forkcell decisions list` shows them")
	}
	return found, nil
}

func decisionInfo(s receipt.Statement) (DecisionInfo, bool) {
	place := s.Place()
	info := DecisionInfo{Cell: place.Cell, Actor: place.Actor, CreatedAt: place.CreatedAt}
	switch p := s.Predicate.(type) {
	case *receipt.Run:
		if p.DecisionID == "" {
			return info, false
		}
		info.DecisionID, info.ReceiptID, info.RunID = p.DecisionID, p.ReceiptID, p.RunID
		info.Result, info.Automatic, info.Reason = string(p.Decision.Result), true, p.Decision.Reason
		info.HeadBefore, info.HeadAfter = p.CheckpointBefore.ID, p.CheckpointAfter.ID
		if p.Decision.Result == receipt.Restored {
			info.HeadAfter = p.CheckpointBefore.ID
		}
	case *receipt.Decision:
		info.DecisionID, info.ReceiptID, info.RunID = p.DecisionID, p.ReceiptID, p.RunID
		info.Result, info.Automatic, info.Forced, info.Reason = string(p.Result), p.Automatic, p.Forced, p.Reason
		info.HeadBefore, info.HeadAfter = p.HeadBefore.ID, p.HeadAfter.ID
	default:
		return info, false
	}
	return info, true
}
