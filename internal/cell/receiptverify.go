package cell

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// ReceiptVerify checks signatures, the chain, every bound hash, and that the
// database says what was signed.
func (e *Engine) ReceiptVerify(_ context.Context, id, cell string, all bool, keyFile string) (*api.ReceiptVerifyResult, error) {
	res := &api.ReceiptVerifyResult{Problems: []api.ReceiptProblem{}, Bound: []api.BoundHash{}, Notes: []string{}}
	if e.store == nil {
		if all {
			res.OK = true
			return res, nil
		}
		return nil, api.Missing("receipt", id+cell, "there is no state directory yet")
	}
	scope, err := e.verifyScope(id, cell, all)
	if err != nil {
		return nil, err
	}
	if err := e.verifyLog(scope, keyFile, res); err != nil {
		return nil, err
	}
	res.OK = len(res.Problems) == 0
	if key, err := e.store.SigningKey(nil); err == nil {
		if s, err := receipt.ParsePrivate(key); err == nil {
			res.KeyID = s.KeyID()
		}
	}
	if !res.OK {
		return res, notVerified(res, "", "")
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
		return scope{}, api.Usagef("give a receipt, --cell, --all or --bundle", "nothing to verify")
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

// verifyLog looks at the log and at the database of one moment. What has its
// final name in the log was committed before, so the database of every later
// moment knows it; and the file of a statement that the database knows was
// durable before that was committed. So the files are listed first, and only the
// statements that the database knows are replayed.
func (e *Engine) verifyLog(sc scope, keyFile string, res *api.ReceiptVerifyResult) error {
	onDisk, _, err := e.store.SeqsOnDisk()
	if err != nil {
		return err
	}
	v := &logVerifier{e: e, res: res, scope: sc, onDisk: onDisk}
	err = e.store.View(func(tx *store.Tx) error {
		keys, err := e.keys(keyFile)
		if err != nil {
			return err
		}
		v.tx, v.keys = tx, keys
		statements, err := tx.Statements("")
		if err != nil {
			return err
		}
		v.findLosses(statements)
		chain := receipt.NewChain(keys)
		for _, st := range statements {
			if err := v.statement(chain, st); err != nil {
				return err
			}
		}
		return v.rows(statements)
	})
	if err != nil {
		return err
	}
	return v.again()
}

// notVerified is the failure of a verification that found something.
func notVerified(res *api.ReceiptVerifyResult, prefix, hint string) error {
	e := api.Refusef(api.CodeNotVerified, hint, "%s%s not hold", prefix, things(len(res.Problems)))
	for _, p := range res.Problems {
		e.Details = append(e.Details, p.ID+": "+p.What)
	}
	return e
}

func things(n int) string {
	if n == 1 {
		return "1 thing does"
	}
	return fmt.Sprintf("%d things do", n)
}

// BundleVerify checks a bundle with keys that are trusted here, never with the
// one inside it.
func (e *Engine) BundleVerify(_ context.Context, file, keyFile string) (*api.ReceiptVerifyResult, error) {
	keys, err := e.keys(keyFile)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(e.caller.path(file))
	if err != nil {
		return nil, api.Usagef("", "--bundle %s: %v", quote.Path(file), err)
	}
	defer f.Close()
	report, err := receipt.VerifyBundle(f, keys)
	if errors.Is(err, receipt.ErrUntrusted) {
		return nil, &api.Error{
			Kind: api.Refused, Code: api.CodeUntrusted, Message: err.Error(),
			Hint: "give the signer's public key with --key, or trust it with `forkcell key trust FILE`", Err: err,
		}
	}
	if err != nil && len(report.Checks) == 0 {
		return nil, &api.Error{Kind: api.Refused, Code: api.CodeNotVerified, Message: err.Error(), Hint: "do not rely on it", Err: err}
	}
	return bundleResult(report)
}

func bundleResult(report receipt.BundleReport) (*api.ReceiptVerifyResult, error) {
	res := &api.ReceiptVerifyResult{Checked: 1, OK: true, Problems: []api.ReceiptProblem{}, Bound: []api.BoundHash{}, Notes: []string{}, KeyID: report.TrustedKey}
	for _, c := range report.Checks {
		res.Bound = append(res.Bound, api.BoundHash{What: c.Name, SHA256: c.SHA256, Status: string(c.State)})
		if c.State == receipt.Mismatch {
			res.OK = false
			res.Problems = append(res.Problems, api.ReceiptProblem{ID: report.Run.ReceiptID, What: c.Name + " does not have its hash"})
		}
	}
	if !res.OK {
		return res, notVerified(res, "bundle: ", "do not rely on it")
	}
	return res, nil
}
