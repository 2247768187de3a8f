package statements

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Scope selects the statements that a verification reports about. The whole chain
// is always verified: one statement is only as good as those before it. The zero
// value selects all.
type Scope struct {
	Run  string // the id of a run
	Cell string // the id of a cell
}

func (s Scope) covers(st store.Statement) bool {
	return (s.Run == "" || st.RunID == s.Run) && (s.Cell == "" || st.CellID == s.Cell)
}

// Verify checks signatures, the chain, every bound hash, and that the database
// says what was signed. The given keys are trusted besides those of the home.
func (l *Log) Verify(of Scope, given ...ed25519.PublicKey) (*api.ReceiptVerifyResult, error) {
	res := newResult()
	if l.store == nil {
		res.OK = true
		return res, nil
	}
	if err := l.verifyLog(of, given, res); err != nil {
		return nil, err
	}
	res.OK = len(res.Problems) == 0
	if key, err := l.presentKey(); err == nil {
		res.KeyID = key.KeyID()
	}
	if !res.OK {
		return res, notVerified(res, "", "")
	}
	return res, nil
}

func newResult() *api.ReceiptVerifyResult {
	return &api.ReceiptVerifyResult{Problems: []api.ReceiptProblem{}, Bound: []api.BoundHash{}, Notes: []string{}}
}

// verifyLog looks at the log and at the database of one moment. What has its
// final name in the log was committed before, so the database of every later
// moment knows it; and the file of a statement that the database knows was
// durable before that was committed. So the files are listed first, and only the
// statements that the database knows are replayed.
func (l *Log) verifyLog(of Scope, given []ed25519.PublicKey, res *api.ReceiptVerifyResult) error {
	onDisk, _, err := l.store.SeqsOnDisk()
	if err != nil {
		return err
	}
	v := &logVerifier{log: l, res: res, scope: of, onDisk: onDisk}
	err = l.store.ViewApart(func(tx *store.Tx) error {
		keys, err := l.trustedKeys(given...)
		if err != nil {
			return err
		}
		v.tx, v.keys = tx, keys
		statements, err := tx.Statements("")
		if err != nil {
			return err
		}
		return v.statements(statements)
	})
	if err == nil && of == (Scope{}) {
		err = v.requests()
	}
	if err != nil {
		return err
	}
	return v.retryUnreadable()
}

// notVerified returns the error of a verification that found problems.
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

// VerifyBundle checks a bundle with the keys that this home trusts and the given
// ones, never with the one inside it.
func (l *Log) VerifyBundle(bundle io.Reader, given ...ed25519.PublicKey) (*api.ReceiptVerifyResult, error) {
	keys, err := l.trustedKeys(given...)
	if err != nil {
		return nil, err
	}
	report, err := receipt.VerifyBundle(bundle, keys)
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
	res := newResult()
	res.Checked, res.OK, res.KeyID = 1, true, report.TrustedKey
	words := api.ReceiptWords(receipt.InWords(report.Run, report.Decisions))
	res.Words = &words
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
