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

// applyLive asks the supervisor of a live cell to apply another policy. The sources of
// credentials are read here: they name the caller's variables and files.
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
	client, err := e.dialLive(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	return client.ApplyPolicy(ctx, f, raw)
}

// applyPolicy applies another policy to the cell, and keeps it for the cell's next
// runs. It returns the environment of commands from then on, nil if it stays. A policy
// that is refused is an event too, and changes nothing.
func (l *liveRun) applyPolicy(f api.PolicyFile, raw map[string][]byte) (*api.PolicyApplied, []string, error) {
	values, err := gateway.TakeValues(raw)
	if err != nil {
		return nil, nil, api.Usagef("", "%v", err)
	}
	res, err := l.swapPolicy(f, values)
	if err != nil {
		l.r.happened(event.Config(event.Subject{
			Verdict: event.Denied, Rule: "policy", Reason: err.Error(), Message: "kept the previous policy",
		}, policyKept))
		return nil, nil, err
	}
	return res, l.commandEnv(), nil
}

// swapPolicy is applyPolicy without the event of a refusal. It owns the values.
func (l *liveRun) swapPolicy(f api.PolicyFile, values gateway.Values) (*api.PolicyApplied, error) {
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

// commandEnv returns the environment with the placeholders of the present policy. What
// runs keeps its own.
func (l *liveRun) commandEnv() []string {
	if l.r.gateway == nil {
		return nil
	}
	return replaced(l.r.plainEnv, l.r.gateway.Environment())
}
