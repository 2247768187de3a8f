package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// policyRefused is the state in the event of a refused policy.
const policyRefused = "policy refused"

// applyLive asks the supervisor of a live cell to apply another policy. It reads
// the sources of credentials itself, because they name the caller's variables and
// files.
func (e *Engine) applyLive(ctx context.Context, c store.Cell, f api.PolicyFile, given api.LiveGrant) (*api.PolicyApplied, error) {
	p, err := e.Caller.ParsePolicy(f)
	if err != nil {
		return nil, err
	}
	held, err := e.heldCredentials(c, p)
	if err != nil {
		return nil, err
	}
	network := api.NetworkRequest{Credentials: given.Credentials, CredentialsFile: given.CredentialsFile}
	values, err := e.readValues(ctx, p, networkRequest{NetworkRequest: network}, held...)
	if err != nil {
		return nil, err
	}
	raw := values.HandOver()
	defer wipe(raw)
	client, err := e.DialLive(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	return client.ApplyPolicy(ctx, f, api.GrantRequest{Addresses: given.Addresses, ConfigFile: given.ConfigFile}, raw)
}

// applyPolicy applies another policy to the cell and stores it for the cell's next
// runs. It returns the environment of later commands, or nil if it stays the same.
// A refused policy changes nothing, and is recorded as an event.
func (l *liveRun) applyPolicy(_ context.Context, f api.PolicyFile, given api.GrantRequest, raw map[string][]byte) (*api.PolicyApplied, []string, error) {
	values, err := network.TakeValues(raw)
	if err != nil {
		return nil, nil, api.Usagef("", "%v", err)
	}
	res, err := l.swapPolicy(f, given, values)
	if err != nil {
		l.r.recordEvent(event.Config(event.Subject{
			Verdict: event.Denied, Rule: "policy", Reason: err.Error(), Message: "kept the previous policy",
		}, policyRefused))
		return nil, nil, err
	}
	return res, l.commandEnv(), nil
}

// swapPolicy is applyPolicy without the event of a refusal. It takes ownership of
// values.
func (l *liveRun) swapPolicy(f api.PolicyFile, given api.GrantRequest, values network.Values) (*api.PolicyApplied, error) {
	r, req := l.r, l.req
	req.Grants = withAddresses(req.Grants, given)
	c, err := r.candidate(f, req)
	if err == nil {
		err = checkKeptCredentials(r.policy, c.policy, values)
	}
	if err != nil {
		values.Drop()
		return nil, err
	}
	res := &api.PolicyApplied{
		Cell: r.Record.Name, PolicyHash: c.kept, Before: r.policy.Digest(), Live: true, RunID: r.rec.ID, RulesAs: c.hash,
	}
	ruling := func() (err error) {
		res.FromEvent, err = r.recordPolicy(c)
		return err
	}
	if r.gateway == nil {
		err = ruling()
		values.Drop()
	} else {
		err = r.gateway.Reload(c.policy, c.hash, values, ruling)
	}
	switch {
	case errors.Is(err, network.ErrConfig), errors.Is(err, network.ErrCredential):
		return nil, settingError(err)
	case err != nil:
		return nil, api.Failf(api.CodePolicy, err, "apply the policy to cell %s", r.Record.Name)
	}
	r.policy, l.req.Grants = c.policy, req.Grants // branches have the grants too
	return res, nil
}

// withAddresses returns the grants of a live cell with those that came with a policy.
func withAddresses(start, given api.GrantRequest) api.GrantRequest {
	start.Addresses = slices.Concat(start.Addresses, given.Addresses)
	start.ConfigFile = cmp.Or(given.ConfigFile, start.ConfigFile)
	return start
}

// checkKeptCredentials refuses a policy that sends a credential to other hosts
// while the cell keeps its value: the value was provided for the old hosts.
func checkKeptCredentials(old, next *policy.Policy, values network.Values) error {
	for _, c := range next.Credentials {
		i := slices.IndexFunc(old.Credentials, func(o policy.Credential) bool { return o.Name == c.Name })
		if i >= 0 && values[c.Name] == nil && !reaches(old.Credentials[i], c) {
			return api.Refusef(api.CodeCredential, fmt.Sprintf("give --credential %s=SOURCE", c.Name),
				"the policy sends the credential %s to hosts that its value was not given for", c.Name)
		}
	}
	return nil
}

// candidate is a policy to apply to a live cell.
type candidate struct {
	policy *policy.Policy // narrowed by the flags of the start
	hash   string         // of policy
	kept   string         // of the policy before it was narrowed, for the cell's next runs
	added  int64          // the size of the texts that were not stored before
	pins   []string       // that come with it, for the operator's next runs
	grants []string       // that it uses, for the receipt
}

// candidate reads a policy, and refuses changes that are not possible while a cell
// is live.
func (r *run) candidate(f api.PolicyFile, start runRequest) (c candidate, err error) {
	whole, err := r.e.Caller.ParsePolicy(f)
	if err != nil {
		return c, err
	}
	c.pins = f.Resolve
	start.Policy = &f
	if c.policy, err = r.e.policyOf(r.Record, start); err != nil {
		return c, err
	}
	if err := checkFixedParts(r.policy, c.policy); err != nil {
		return c, api.WithHint(err, api.CodePolicySection, startWith(r.Record.Name, f, whole))
	}
	if c.grants, err = r.addedGrants(whole, c.policy, start); err != nil {
		return c, err
	}
	if r.gateway == nil && (c.policy.NeedsNetwork() || c.policy.NeedsCredentials()) {
		return c, api.Refusef(api.CodeUnenforced, "stop the cell, and start it with this policy",
			"the cell was started without a network, because this host cannot capture connections")
	}
	var more int64
	if c.kept, c.added, err = r.e.keepPolicy(whole); err == nil {
		c.hash, more, err = r.e.keepPolicy(c.policy)
	}
	c.added += more
	if err != nil {
		return c, api.Failf(api.CodePolicy, err, "keep the policy")
	}
	return c, nil
}

// addedGrants returns the grants for what the next policy loosens and the present one does
// not. System calls are a part that is fixed when the cell starts.
func (r *run) addedGrants(whole, next *policy.Policy, start runRequest) ([]string, error) {
	g, err := r.e.newGrants(whole, start)
	if err != nil {
		return nil, err
	}
	g.live = true
	present := network.SpecialAddresses(r.policy, g.pins)
	for _, a := range network.SpecialAddresses(next, g.pins) {
		if slices.Contains(present, a) {
			continue
		}
		if err := g.address(a); err != nil {
			return nil, err
		}
	}
	return g.usedGrants(), g.refusal()
}

// startWith returns the commands that have a live cell use a policy which it cannot take.
func startWith(cell string, f api.PolicyFile, p *policy.Policy) string {
	file := "FILE"
	if f.Path != "" {
		file = quote.Arg(string(f.Name))
	}
	return "`forkcell stop " + cell + "`, then `forkcell start " + strings.Join(append([]string{cell, "--policy", file}, flagsOf(neededGrants(p))...), " ") + "`"
}

// checkFixedParts refuses a policy that differs from the present one in parts that
// are fixed when the cell starts.
func checkFixedParts(old, next *policy.Policy) error {
	a, b := *old, *next
	a.Network, a.Ceilings, a.Credentials, b.Network, b.Ceilings, b.Credentials = nil, nil, nil, nil, nil, nil
	differences := policy.Diff(&a, &b)
	if len(differences) == 0 {
		return nil
	}
	e := &api.Error{
		Kind: api.Refused, Code: api.CodePolicySection,
		Message: "only network_policies and credentials can change while a cell lives, and this policy changes " + differences[0].Path,
	}
	for _, d := range differences[1:] {
		e.Details = append(e.Details, "it changes "+d.Path)
	}
	return e
}

// recordPolicy records that a policy is in force from the next event on. It also
// becomes the policy of the cell's next runs.
func (r *run) recordPolicy(c candidate) (from int64, err error) {
	home, err := r.e.Store.LockHome(false)
	if err != nil {
		return 0, err
	}
	defer home.Unlock()
	r.e.Evidence.ForgetKey()
	cell := r.Record
	cell.Policy, cell.Pins = c.kept, c.pins
	cell.PolicyBytes += c.added
	r.recording.Lock()
	defer r.recording.Unlock()
	rec, fell, err := lowerAssurance(r.rec, api.ReasonLivePolicy)
	if err != nil {
		return 0, err
	}
	asked, err := withGrants(rec.Asked, c.grants)
	if err != nil {
		return 0, err
	}
	changed := fell || !bytes.Equal(asked, rec.Asked)
	rec.Asked = asked
	err = r.e.Store.Update(func(tx *store.Tx) error {
		if err := tx.PutCell(cell); err != nil {
			return err
		}
		if changed {
			if err := tx.PutRun(rec); err != nil {
				return err
			}
		}
		return r.e.Evidence.Change(tx, cell, r.before, receipt.OpPolicy, map[string]string{"policy_hash": c.kept})
	})
	if err != nil {
		return 0, err
	}
	r.Record.Policy, r.Record.PolicyBytes, r.Record.Pins, r.rec = c.kept, cell.PolicyBytes, c.pins, rec
	r.grants = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.grants, c.grants))))
	if fell {
		r.recordEvent(event.Config(event.Subject{Message: "the assurance of the session fell: its policy was changed"}, "assurance fell: "+api.ReasonLivePolicy))
	}
	if from, err = r.journal.beginPolicy(c.hash); err != nil {
		return 0, err
	}
	r.rulings = append(r.rulings, receipt.Ruling{PolicyHash: c.hash, FromEvent: from})
	return from, nil
}

// withGrants adds grants to what was requested, as receipts have it.
func withGrants(asked json.RawMessage, grants []string) (json.RawMessage, error) {
	if len(grants) == 0 {
		return asked, nil
	}
	var doc map[string]any
	if err := json.Unmarshal(asked, &doc); err != nil {
		return nil, fmt.Errorf("the record of what was requested: %w", err)
	}
	have, _ := doc["grants"].([]any)
	added := false
	for _, one := range grants {
		if one = quote.UTF8(one); !slices.Contains(have, any(one)) {
			have, added = append(have, one), true
		}
	}
	if !added {
		return asked, nil
	}
	doc["grants"] = have
	return json.Marshal(doc)
}

// lowerAssurance returns the record of a run whose assurance falls for a reason. It reports
// false for a run that is no session, or has the reason.
func lowerAssurance(rec store.Run, reason string) (store.Run, bool, error) {
	if rec.Session == nil {
		return rec, false, nil
	}
	var s receipt.Session
	if err := json.Unmarshal(rec.Session, &s); err != nil {
		return rec, false, fmt.Errorf("the record of the session: %w", err)
	}
	if slices.Contains(s.AssuranceFalls, reason) {
		return rec, false, nil
	}
	s.AssuranceFalls = append(s.AssuranceFalls, reason)
	text, err := json.Marshal(s)
	rec.Session = text
	return rec, true, err
}

// commandEnv returns the environment with the placeholders of the present policy.
// Running commands keep theirs.
func (l *liveRun) commandEnv() []string {
	if l.r.gateway == nil {
		return nil
	}
	return driver.WithVariables(l.r.plainEnv, l.r.gateway.Environment())
}
