package cell

import (
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/evidence"
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
	err = j.log.Append(event.Config(event.Subject{Verdict: event.Allowed, Policy: hash, Message: "it rules from this event on"}, evidence.PolicyApplied))
	return int64(from), err
}

// policies is what the receipt says: nothing where one policy ruled throughout.
func (r *run) policies() []receipt.Ruling {
	if len(r.rulings) == 0 {
		return nil
	}
	return append([]receipt.Ruling{{PolicyHash: r.rec.Policy, FromEvent: 1}}, r.rulings...)
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
	if later := e.log.Policies(r.ID); len(later) > 0 {
		hash = later[len(later)-1].PolicyHash
	}
	return e.storedPolicy(hash)
}
