package cell

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// turn begins the part of a journal that another policy rules: its first event
// says so.
func (j *journal) turn(hash string) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from, err := j.log.SetPolicy(hash)
	if err != nil {
		return 0, err
	}
	err = j.log.Append(event.Config(event.Subject{Verdict: event.Allowed, Policy: hash, Message: "it rules from this event on"}, policySwapped))
	return int64(from), err
}

// policies is what the receipt says: nothing where one policy ruled throughout.
func (r *run) policies() []receipt.Ruling {
	if len(r.rulings) == 0 {
		return nil
	}
	return append([]receipt.Ruling{{PolicyHash: r.rec.Policy, FromEvent: 1}}, r.rulings...)
}

// rulingsIn finds in a run's journal which policies came to rule it.
func (e *Engine) rulingsIn(run string) []receipt.Ruling {
	var out []receipt.Ruling
	for rec, err := range e.journalOf(run, event.Filter{Class: event.ConfigChange}) {
		if err != nil {
			break // who verifies the journal says what is wrong with it
		}
		var line struct {
			State  string `json:"state"`
			Policy struct {
				UID string `json:"uid"`
			} `json:"policy"`
		}
		if json.Unmarshal(rec.Raw, &line) == nil && line.State == policySwapped {
			out = append(out, receipt.Ruling{PolicyHash: line.Policy.UID, FromEvent: int64(rec.Sequence)})
		}
	}
	return out
}

// rulings checks the policies that a receipt lists: their texts, and that the
// journal tells of no other. A journal that was full may tell of fewer.
func (v *logVerifier) rulings(id string, p *receipt.Run) error {
	for i, r := range p.Policies {
		if i == 0 {
			continue // it is the run's own
		}
		if err := v.blob(id, fmt.Sprintf("policy from event %d", r.FromEvent), r.PolicyHash); err != nil {
			return err
		}
	}
	for _, r := range v.e.rulingsIn(p.RunID) {
		if !slices.Contains(p.Policies, r) {
			v.problem(id, "policies: the journal has one from event %d that the receipt does not list", r.FromEvent)
		}
	}
	return nil
}

// replaced returns an environment with variables set anew.
func replaced(env, with []string) []string {
	out := slices.Clone(env)
	for _, kv := range with {
		name, _, _ := strings.Cut(kv, "=")
		out = slices.DeleteFunc(out, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		out = append(out, kv)
	}
	return out
}

// lastPolicy returns the policy that a run ended with, or has now.
func (e *Engine) lastPolicy(r store.Run) (*policy.Policy, error) {
	hash := r.Policy
	if later := e.rulingsIn(r.ID); len(later) > 0 {
		hash = later[len(later)-1].PolicyHash
	}
	return e.storedPolicy(hash)
}
