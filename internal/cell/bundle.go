package cell

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// Bounds of what a bundle carries along. What is larger is left out, and whoever
// verifies is told so.
const (
	maxIncluded = 16 << 20 // logs
	maxEvents   = 8 << 20
)

// bundle collects everything that another machine needs to check a receipt: the
// decisions about it, the key statements of the home, its neighbours in both
// chains, the policy, and the events and logs that it binds while they are small.
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
	if err := e.includePolicy(&b, run.PolicyHash); err != nil {
		return b, err
	}
	for _, p := range run.Policies {
		if err := e.includePolicy(&b, p.PolicyHash); err != nil {
			return b, err
		}
	}
	if err := e.includeEvents(&b, run); err != nil {
		return b, err
	}
	return b, e.includeLogs(&b, run.Logs)
}

func (e *Engine) addToBundle(b *receipt.Bundle, st store.Statement, run *receipt.Run) error {
	decides := st.Kind == evidence.KindDecision && st.RunID == run.RunID && st.CellID == run.CellID
	// A neighbour that an older key signed would say nothing to who trusts only
	// the present one.
	neighbour := (st.Digest == run.Prev || st.Digest == run.CellPrev) && e.signedBy(st.Seq, run.KeyID)
	if !decides && !neighbour && st.Kind != evidence.KindKey {
		return nil
	}
	raw, err := e.store.ReadStatement(st.Seq)
	if err != nil {
		return err
	}
	switch {
	case decides:
		b.Decisions = append(b.Decisions, raw)
	case st.Kind == evidence.KindKey:
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

// notSigned refuses to export what would not verify.
func notSigned(what, run string) error {
	return api.Refusef(api.CodeNotVerified, "`forkcell receipt verify --all` names everything that does not hold",
		"the %s of %s is not what was signed", what, run)
}

func (e *Engine) includePolicy(b *receipt.Bundle, hash string) error {
	if hash == "" {
		return nil
	}
	text, err := e.store.ReadBlob(hash)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // reported as not included by whoever verifies
	case errors.Is(err, store.ErrDigest):
		return notSigned("policy", hash)
	case err != nil:
		return err
	}
	b.Included[hash] = text
	return nil
}

func (e *Engine) includeEvents(b *receipt.Bundle, run *receipt.Run) error {
	if run.Events.ChainHead == "" {
		return nil
	}
	f, err := e.store.OpenEvents(run.RunID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var data bytes.Buffer
	if n, err := io.Copy(&data, io.LimitReader(f, maxEvents+1)); err != nil || n > maxEvents {
		return err
	}
	count, head, err := receipt.EventChain(data.Bytes())
	if err != nil || head != run.Events.ChainHead || count != run.Events.Count {
		return notSigned("journal of events", run.RunID)
	}
	b.Events = data.Bytes()
	return nil
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
		if errors.Is(err, store.ErrDigest) {
			return notSigned("stored "+l.Stream, l.SHA256)
		}
		if err != nil {
			return err
		}
		b.Included[l.SHA256] = data
	}
	return nil
}
