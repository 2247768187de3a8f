package cell

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/gateway"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// policyKept is the state of the event of a policy that was refused.
const policyKept = "policy refused"

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
