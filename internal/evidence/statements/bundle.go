package statements

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Bounds of what a bundle carries along. What is larger is left out, and a
// verification says so.
const (
	maxIncluded = 16 << 20 // logs
	maxEvents   = 8 << 20
)

// Bundle writes the receipt of a run as a file that can be verified elsewhere.
func (l *Log) Bundle(w io.Writer, runID string) error {
	p, err := l.proofOf(runID)
	if err != nil {
		return err
	}
	b, err := l.bundle(p)
	if err != nil {
		return err
	}
	return receipt.WriteBundle(w, b)
}

// bundle collects everything that another machine needs to check a receipt: the
// decisions about it, the key statements of the home, its neighbours in both
// chains, the policy, and the events and logs that it binds while they are small.
func (l *Log) bundle(p proof) (receipt.Bundle, error) {
	run := p.run
	b := receipt.Bundle{Receipt: p.envelope, Included: map[string][]byte{}}
	cells := p.decidingCells()
	err := l.store.View(func(tx *store.Tx) error {
		all, err := tx.Statements("")
		if err != nil {
			return err
		}
		for _, st := range all {
			if err := l.addToBundle(&b, st, run, cells); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return b, err
	}
	if err := l.includePolicy(&b, run.PolicyHash); err != nil {
		return b, err
	}
	for _, ruling := range run.Policies {
		if err := l.includePolicy(&b, ruling.PolicyHash); err != nil {
			return b, err
		}
	}
	if err := l.includeEvents(&b, run); err != nil {
		return b, err
	}
	return b, l.includeLogs(&b, run.Logs)
}

// decidingCells returns the ids of the cells whose decisions about the run a bundle
// carries: its own, and those that accepted it as the winner of a race.
func (p proof) decidingCells() map[string]bool {
	cells := map[string]bool{p.run.CellID: true}
	for _, d := range p.decisions {
		if d.Race != nil {
			cells[d.CellID] = true
		}
	}
	return cells
}

func (l *Log) addToBundle(b *receipt.Bundle, st store.Statement, run *receipt.Run, cells map[string]bool) error {
	decides := st.Kind == KindDecision && st.RunID == run.RunID && cells[st.CellID]
	// A neighbour that an older key signed cannot be verified with the present one
	// alone.
	neighbour := (st.Digest == run.Prev || st.Digest == run.CellPrev) && l.signedBy(st.Seq, run.KeyID)
	if !decides && !neighbour && st.Kind != kindKey {
		return nil
	}
	raw, err := l.store.ReadStatement(st.Seq)
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

func (l *Log) signedBy(seq int64, key string) bool {
	raw, err := l.store.ReadStatement(seq)
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

func (l *Log) includePolicy(b *receipt.Bundle, hash string) error {
	if hash == "" {
		return nil
	}
	text, err := l.store.ReadBlob(hash)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // a verification reports it as not included
	case errors.Is(err, store.ErrDigest):
		return notSigned("policy", hash)
	case err != nil:
		return err
	}
	b.Included[hash] = text
	return nil
}

func (l *Log) includeEvents(b *receipt.Bundle, run *receipt.Run) error {
	if run.Events.ChainHead == "" {
		return nil
	}
	f, err := l.store.OpenEvents(run.RunID)
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

func (l *Log) includeLogs(b *receipt.Bundle, logs []receipt.Log) error {
	total := int64(0)
	for _, stream := range logs {
		if total+stream.Bytes > maxIncluded {
			continue
		}
		total += stream.Bytes
		f, err := l.store.OpenBlob(stream.SHA256)
		if err != nil {
			continue // a verification reports it as not included
		}
		data, err := io.ReadAll(f)
		_ = f.Close()
		if errors.Is(err, store.ErrDigest) {
			return notSigned("stored "+stream.Stream, stream.SHA256)
		}
		if err != nil {
			return err
		}
		b.Included[stream.SHA256] = data
	}
	return nil
}
