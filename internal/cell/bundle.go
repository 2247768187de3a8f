package cell

import (
	"io"

	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// maxIncluded bounds the logs that a bundle carries along.
const maxIncluded = 16 << 20

// bundle collects everything that another machine needs to check a receipt: the
// decisions about it, the key statements of the home, its neighbours in both
// chains, and the logs that it binds while they are small.
func (e *Engine) bundle(doc *ReceiptDoc) (receipt.Bundle, error) {
	run := doc.Statement.Predicate.(*receipt.Run)
	b := receipt.Bundle{Receipt: doc.Envelope, Included: map[string][]byte{}}
	err := e.store.View(func(tx *store.Tx) error {
		all, err := tx.Statements("")
		if err != nil {
			return err
		}
		for _, st := range all {
			if err := e.addToBundle(&b, st, run); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return b, err
	}
	return b, e.includeLogs(&b, run.Logs)
}

func (e *Engine) addToBundle(b *receipt.Bundle, st store.Statement, run *receipt.Run) error {
	decides := st.Kind == kindDecision && st.RunID == run.RunID
	// A neighbour that an older key signed would say nothing to who trusts only
	// the present one.
	neighbour := (st.Digest == run.Prev || st.Digest == run.CellPrev) && e.signedBy(st.Seq, run.KeyID)
	if !decides && !neighbour && st.Kind != kindKey {
		return nil
	}
	raw, err := e.store.ReadStatement(st.Seq)
	if err != nil {
		return err
	}
	switch {
	case decides:
		b.Decisions = append(b.Decisions, raw)
	case st.Kind == kindKey:
		b.Keys = append(b.Keys, raw)
	default:
		b.Context = append(b.Context, raw)
	}
	return nil
}

func (e *Engine) signedBy(seq int64, key string) bool {
	raw, err := e.store.ReadStatement(seq)
	if err != nil {
		return false
	}
	env, err := receipt.ParseEnvelope(raw)
	return err == nil && env.Statement.Place().KeyID == key
}

func (e *Engine) includeLogs(b *receipt.Bundle, logs []receipt.Log) error {
	total := int64(0)
	for _, l := range logs {
		if total += l.Bytes; total > maxIncluded {
			continue
		}
		f, err := e.store.OpenBlob(l.SHA256)
		if err != nil {
			continue // reported as not included by whoever verifies
		}
		data, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil {
			return err
		}
		b.Included[l.SHA256] = data
	}
	return nil
}
