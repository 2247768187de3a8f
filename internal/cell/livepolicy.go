package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/gateway"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// States of a change of policy, as its events have them.
const (
	policySwapped = "policy applied"
	policyKept    = "policy refused"
)

// applyLive asks the supervisor of a live cell to let another policy rule. The
// sources of credentials are read here: they are about the caller's environment
// and files, and the supervisor has others.
func (e *Engine) applyLive(ctx context.Context, c store.Cell, f api.PolicyFile, grant api.NetworkRequest) (*api.PolicyApplied, error) {
	p, err := e.caller.parsePolicy(f)
	if err != nil {
		return nil, err
	}
	held, err := e.heldCredentials(c, p)
	if err != nil {
		return nil, err
	}
	values, err := e.readValues(ctx, p, networkRequest{NetworkRequest: grant}, held...)
	if err != nil {
		return nil, err
	}
	raw := values.HandOver()
	defer wipe(raw)
	var res api.PolicyApplied
	q := policyCall{Name: []byte(f.Name), Text: f.Text, Values: raw}
	if err := e.callLive(ctx, c.Name, callPolicy, q, &res); err != nil {
		return nil, err
	}
	return &res, nil
}

// applyPolicy lets another policy rule the cell, and keeps it for the cell's next
// runs. A policy that is refused is an event too, and changes nothing.
func (l *liveCell) applyPolicy(q policyCall) (*api.PolicyApplied, error) {
	values, err := gateway.TakeValues(q.Values)
	if err != nil {
		return nil, api.Usagef("", "%v", err)
	}
	l.whole.Lock()
	defer l.whole.Unlock()
	if err := l.alive(); err != nil {
		values.Drop()
		return nil, err
	}
	res, err := l.swapPolicy(api.PolicyFile{Name: api.Text(q.Name), Text: q.Text}, values)
	if err != nil {
		l.r.happened(event.Config(event.Subject{
			Verdict: event.Denied, Rule: "policy", Reason: err.Error(), Message: "the policy before rules on",
		}, policyKept))
	}
	return res, err
}

// swapPolicy is applyPolicy without the event of a refusal. It owns the values.
func (l *liveCell) swapPolicy(f api.PolicyFile, values gateway.Values) (*api.PolicyApplied, error) {
	r := l.r
	c, err := r.candidate(f, l.req)
	if err == nil {
		err = keptInPlace(r.policy, c.policy, values)
	}
	if err != nil {
		values.Drop()
		return nil, err
	}
	res := &api.PolicyApplied{
		Cell: r.cell.Name, PolicyHash: c.kept, Before: policyHash(r.policy), Live: true, RunID: r.rec.ID, RulesAs: c.hash,
	}
	ruling := func() (err error) {
		res.FromEvent, err = r.rule(c)
		return err
	}
	if r.gateway == nil {
		err = ruling()
		values.Drop()
	} else {
		err = r.gateway.Reload(c.policy, c.hash, values, ruling)
	}
	switch {
	case errors.Is(err, gateway.ErrConfig), errors.Is(err, gateway.ErrCredential):
		return nil, settingError(err)
	case err != nil:
		return nil, api.Failf(api.CodePolicy, err, "let the policy rule cell %s", r.cell.Name)
	}
	r.policy = c.policy
	l.renewEnv()
	return res, nil
}

// keptInPlace refuses a policy that sends a credential elsewhere whose value the
// cell would keep: the value was given for other hosts.
func keptInPlace(old, next *policy.Policy, values gateway.Values) error {
	for _, c := range next.Credentials {
		i := slices.IndexFunc(old.Credentials, func(o policy.Credential) bool { return o.Name == c.Name })
		if i >= 0 && values[c.Name] == nil && !reaches(old.Credentials[i], c) {
			return api.Refusef(api.CodeCredential, fmt.Sprintf("give --credential %s=SOURCE", c.Name),
				"the policy sends the credential %s to hosts that its value was not given for", c.Name)
		}
	}
	return nil
}

// candidate is a policy that may come to rule a live cell.
type candidate struct {
	policy *policy.Policy // narrowed by the flags of the start
	hash   string         // its own
	kept   string         // of the policy as the file has it, for the cell's next runs
}

// candidate reads a policy and refuses what cannot change while a cell lives.
func (r *run) candidate(f api.PolicyFile, start runRequest) (c candidate, err error) {
	whole, err := r.e.caller.parsePolicy(f)
	if err != nil {
		return c, err
	}
	start.Policy = &f
	if c.policy, err = r.e.policyOf(r.cell, start); err != nil {
		return c, err
	}
	if err := sameElsewhere(r.policy, c.policy); err != nil {
		return c, err
	}
	if r.gateway == nil && (c.policy.NeedsNetwork() || c.policy.NeedsCredentials()) {
		return c, api.Refusef(api.CodeUnenforced, "stop the cell, and start it with this policy",
			"the cell was started without a network, because this host cannot capture connections")
	}
	if c.kept, err = r.e.keepPolicy(whole); err == nil {
		c.hash, err = r.e.keepPolicy(c.policy)
	}
	if err != nil {
		return c, api.Failf(api.CodePolicy, err, "keep the policy")
	}
	return c, nil
}

// sameElsewhere refuses a policy that differs from the present one in what was
// built into the cell when it started.
func sameElsewhere(old, next *policy.Policy) error {
	a, b := *old, *next
	a.Network, a.Credentials, b.Network, b.Credentials = nil, nil, nil, nil
	differences := policy.Diff(&a, &b)
	if len(differences) == 0 {
		return nil
	}
	e := &api.Error{
		Kind: api.Refused, Code: api.CodePolicySection,
		Message: "only network_policies and credentials can change while a cell lives, and this policy changes " + differences[0].Path,
		Hint:    "stop the cell, and start it with this policy",
	}
	for _, d := range differences[1:] {
		e.Details = append(e.Details, "it changes "+d.Path)
	}
	return e
}

// rule writes down that a policy rules from the next event on. The cell has it
// from then on also for its next runs.
func (r *run) rule(c candidate) (from int64, err error) {
	home, err := r.e.store.LockHome(false)
	if err != nil {
		return 0, err
	}
	defer home.Unlock()
	r.e.log.ForgetKey()
	cell := r.cell
	cell.Policy = c.kept
	err = r.e.store.Update(func(tx *store.Tx) error {
		if err := tx.PutCell(cell); err != nil {
			return err
		}
		return r.e.log.Change(tx, cell, r.before, receipt.OpPolicy, map[string]string{"policy_hash": c.kept})
	})
	if err != nil {
		return 0, err
	}
	r.cell.Policy = c.kept
	if from, err = r.journal.turn(c.hash); err != nil {
		return 0, err
	}
	r.rulings = append(r.rulings, receipt.Ruling{PolicyHash: c.hash, FromEvent: from})
	return from, nil
}

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

// renewEnv gives the commands that are executed from now on the placeholders of
// the policy that rules. What runs keeps its environment.
func (l *liveCell) renewEnv() {
	if l.r.gateway == nil {
		return
	}
	env := l.r.gateway.Environment()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.env = replaced(l.r.plainEnv, env)
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
