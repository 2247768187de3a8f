package cell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// ReceiptDoc is one receipt in every form.
type ReceiptDoc struct {
	Info      api.ReceiptInfo
	Envelope  []byte // the exact signed bytes
	Statement receipt.Statement
	JSON      []byte // the statement, and the decision that stands now
	Markdown  []byte
}

// ReceiptList lists receipts, oldest first; "" asks for all cells.
func (e *Engine) ReceiptList(_ context.Context, cell string) ([]api.ReceiptInfo, error) {
	out := []api.ReceiptInfo{}
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

func receiptInfo(tx *store.Tx, r store.Run) (api.ReceiptInfo, error) {
	c, err := tx.CellByID(r.CellID)
	return api.ReceiptInfo{
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
		return store.Run{}, api.Missing("receipt", "there is none yet", "`forkcell run CELL -- CMD` makes one")
	}
	full, err := tx.Complete("statements", id)
	if err != nil {
		return store.Run{}, idError("receipt", id, err, "`forkcell receipt list` shows them")
	}
	r, err := tx.RunOfReceipt(full)
	if errors.Is(err, store.ErrNotFound) {
		return r, api.Missing("receipt", id, "`forkcell receipt list` shows them")
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
		return nil, api.Missing("receipt", "there is none yet", "`forkcell run CELL -- CMD` makes one")
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
			return nil, nil, api.Refusef(api.CodeBadReceipt, "`forkcell receipt verify --all` names everything that does not hold",
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
		return nil, nil, api.Refusef(api.CodeBadReceipt, "", "the log has no receipt for %s", doc.Info.RunID)
	}
	return run, decisions, nil
}

// keys are the home's own keys, the trusted ones, and one given as a file.
// Rotations in the home's log are followed.
func (e *Engine) keys(keyFile string) (*receipt.KeySet, error) {
	set := receipt.NewKeySet()
	if keyFile != "" {
		data, err := os.ReadFile(e.caller.path(keyFile))
		if err != nil {
			return nil, api.Usagef("", "--key %s: %v", quote.Path(keyFile), err)
		}
		pub, err := receipt.ParsePublic(data)
		if err != nil {
			return nil, api.Usagef("give a PEM (SPKI) Ed25519 public key, as `forkcell key show --pem` prints", "--key %s: %v", quote.Path(keyFile), err)
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
	// The staged one first: it may become the present one meanwhile.
	for name, read := range e.ownKeyFiles() {
		pem, err := read()
		if err == nil {
			own[name] = pem
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for id, pem := range own {
		key, err := receipt.ParsePrivate(pem)
		if err != nil {
			return fmt.Errorf("key %s: %w", id, err)
		}
		set.Trust(key.Public())
	}
	public, err := e.store.PublicKeys()
	for id, pem := range public {
		pub, err := receipt.ParsePublic(pem)
		if err != nil {
			return fmt.Errorf("public key %s: %w", id, err)
		}
		set.Trust(pub)
	}
	return err
}

// ownKeyFiles yields the readers of the keys that sign, or are about to.
func (e *Engine) ownKeyFiles() iter.Seq2[string, func() ([]byte, error)] {
	return func(yield func(string, func() ([]byte, error)) bool) {
		if yield("staged", e.store.StagedKey) {
			yield("present", func() ([]byte, error) { return e.store.SigningKey(nil) })
		}
	}
}

// ReceiptExport writes a self-contained bundle.
func (e *Engine) ReceiptExport(ctx context.Context, id, output string) (int64, error) {
	if output == "" {
		return 0, api.Usagef("`-o FILE`", "no output file")
	}
	if err := e.apart("-o", e.caller.path(output)); err != nil {
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
	out, err := createOutput(e.caller.path(output))
	if err != nil {
		return 0, err
	}
	if _, err := out.Write(data.Bytes()); err != nil {
		return 0, out.fail(err)
	}
	return int64(data.Len()), out.commit()
}
