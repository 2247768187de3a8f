package statements

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// events recomputes the chain of a run's journal and compares it with what the
// receipt says of it.
func (v *logVerifier) events(id string, p *receipt.Run) error {
	sum, err := journalSummary(v.log.store, p.RunID)
	head := p.Events.ChainHead
	status, what := "mismatch", ""
	switch {
	case errors.Is(err, fs.ErrNotExist) && head == "":
		return nil
	case errors.Is(err, fs.ErrNotExist):
		status, what = "missing", "the journal is missing"
	case errors.Is(err, event.ErrCorrupt):
		what = "the journal was changed: " + err.Error()
	case err != nil:
		return err
	case head == "":
		what = "there is a journal that the receipt does not mention"
	case sum.Records != uint64(p.Events.Count):
		what = fmt.Sprintf("the journal has %d records, the receipt says %d", sum.Records, p.Events.Count)
	case sum.Head != head:
		what = "the journal was changed: its chain does not have the signed hash"
	case !maps.Equal(actionCounts(sum), p.Events.ByAction):
		what = "the receipt's counts by action are not those of the journal"
	default:
		status = "verified"
	}
	v.bound(id, "events", head, status)
	if what != "" {
		v.problem(id, "events: %s", what)
		return nil
	}
	return v.kinds(id, p.RunID, sum)
}

// kinds compares the kinds of events that the database has of a run with those of its
// journal: queries trust them.
func (v *logVerifier) kinds(id, run string, sum event.Summary) error {
	r, err := v.tx.Run(run)
	if errors.Is(err, store.ErrNotFound) {
		return nil // it is a difference of the rows
	}
	if err == nil && r.Kinds != "" && r.Kinds != event.FormatKinds(sum.Kinds) {
		v.problem(id, "events: the database says that the journal has %q, it has %q", plainValue(r.Kinds), event.FormatKinds(sum.Kinds))
	}
	return err
}

// journalSummary recomputes the summary of a run's journal.
func journalSummary(home *store.Store, run string) (event.Summary, error) {
	f, err := home.OpenEvents(run)
	if err != nil {
		return event.Summary{}, err
	}
	defer f.Close()
	return event.Verify(f)
}

// actionCounts returns a journal's counts as a receipt has them.
func actionCounts(s event.Summary) map[string]int64 {
	counts := map[string]int64{}
	for action, n := range s.Actions {
		counts[string(action)] = int64(n)
	}
	return counts
}

// policies checks the policies that a receipt lists: their texts, and that the
// journal has no other. A journal that was full may have fewer.
func (v *logVerifier) policies(id string, p *receipt.Run) error {
	for i, r := range p.Policies {
		if i == 0 {
			continue // it is the run's own
		}
		if err := v.blob(id, fmt.Sprintf("policy from event %d", r.FromEvent), r.PolicyHash); err != nil {
			return err
		}
	}
	for _, r := range v.log.Policies(p.RunID) {
		if !slices.Contains(p.Policies, r) {
			v.problem(id, "policies: the journal has one from event %d that the receipt does not list", r.FromEvent)
		}
	}
	return nil
}

// PolicyApplied is the state of the event that begins the part of a journal under
// another policy.
const PolicyApplied = "policy applied"

// Policies lists the policies that were applied while a run was under way, as its
// journal has them. A journal that cannot be read to its end is the matter of Verify.
func (l *Log) Policies(run string) []receipt.Ruling {
	f, err := l.store.OpenEvents(run)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []receipt.Ruling
	_ = event.Read(f, event.Filter{Class: event.ConfigChange}, func(rec event.Record) error {
		var line struct {
			State  string `json:"state"`
			Policy struct {
				UID string `json:"uid"`
			} `json:"policy"`
		}
		if json.Unmarshal(rec.Raw, &line) == nil && line.State == PolicyApplied {
			out = append(out, receipt.Ruling{PolicyHash: line.Policy.UID, FromEvent: int64(rec.Sequence)})
		}
		return nil
	})
	return out
}
