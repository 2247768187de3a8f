package statements

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Receipts lists the receipts of a cell, or of all cells if its id is empty, oldest
// first.
func (l *Log) Receipts(cellID string) ([]api.ReceiptInfo, error) {
	out := []api.ReceiptInfo{}
	err := l.store.View(func(tx *store.Tx) error {
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

func receiptInfo(tx *store.Tx, r store.Run) (api.ReceiptInfo, error) {
	c, err := tx.CellByID(r.CellID)
	return api.ReceiptInfo{
		ReceiptID: r.ReceiptID, RunID: r.ID, Cell: c.LastName, Outcome: r.Outcome, Decision: r.Decision, CreatedAt: r.FinishedAt,
	}, err
}

// proof is the receipt of a run and the decisions about it, verified.
type proof struct {
	envelope  []byte // the exact signed bytes of the receipt
	statement receipt.Statement
	run       *receipt.Run
	decisions []*receipt.Decision
}

// Receipt returns the receipt of a finished run with its present decision. Its
// signature is checked first: what does not verify is not shown as evidence.
func (l *Log) Receipt(r store.Run) (*api.ReceiptDoc, error) {
	p, err := l.proofOf(r.ID)
	if err != nil {
		return nil, err
	}
	doc := &api.ReceiptDoc{Envelope: p.envelope}
	if err := l.store.View(func(tx *store.Tx) (err error) {
		doc.Info, err = receiptInfo(tx, r)
		return err
	}); err != nil {
		return nil, err
	}
	present := string(receipt.Present(p.run, p.decisions).Result)
	doc.Info.Decision = present
	doc.JSON, err = json.MarshalIndent(struct {
		Receipt   receipt.Statement   `json:"receipt"`
		Decisions []*receipt.Decision `json:"decisions"`
		Decision  string              `json:"decision"`
	}{p.statement, append([]*receipt.Decision{}, p.decisions...), present}, "", "  ")
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = receipt.Markdown(&page, p.run, p.decisions, nil)
	doc.Markdown = page.Bytes()
	return doc, err
}

// RunOf returns the verified receipt of a finished run.
func (l *Log) RunOf(runID string) (*receipt.Run, error) {
	p, err := l.proofOf(runID)
	return p.run, err
}

// CountByAction returns how many events of a run were allowed, denied and so on.
func CountByAction(e receipt.Events) map[string]int64 {
	counts := map[string]int64{"allowed": 0, "denied": 0}
	maps.Copy(counts, e.ByAction)
	return counts
}

// proofOf reads and verifies the receipt of a run and the decisions about it.
func (l *Log) proofOf(runID string) (p proof, err error) {
	var statements []store.Statement
	if err := l.store.View(func(tx *store.Tx) (err error) {
		statements, err = tx.RunStatements(runID)
		return err
	}); err != nil {
		return p, err
	}
	keys, err := l.trustedKeys()
	if err != nil {
		return p, err
	}
	for _, st := range statements {
		if err := p.add(l, st, keys); err != nil {
			return p, api.Refusef(api.CodeBadReceipt, "`forkcell receipt verify --all` names everything that does not hold",
				"statement %s does not verify: %v", st.ID, err)
		}
	}
	if p.run == nil {
		return p, &api.Error{
			Kind: api.Refused, Code: api.CodeBadReceipt, Message: "the log has no receipt for " + runID,
			Hint: "`forkcell receipt verify --all` names everything that does not hold",
		}
	}
	return p, nil
}

func (p *proof) add(l *Log, st store.Statement, keys *receipt.KeySet) error {
	raw, err := l.store.ReadStatement(st.Seq)
	if err != nil {
		return err
	}
	if receipt.Hash(raw) != st.Digest {
		return errors.New("its bytes are not the recorded ones")
	}
	s, err := receipt.Verify(raw, keys)
	if err != nil {
		return err
	}
	switch of := s.Predicate.(type) {
	case *receipt.Run:
		p.run, p.statement, p.envelope = of, s, raw
	case *receipt.Decision:
		// A fork decides nothing about the run itself.
		if of.Result != receipt.Forked {
			p.decisions = append(p.decisions, of)
		}
	}
	return nil
}
