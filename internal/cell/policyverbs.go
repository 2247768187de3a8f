package cell

import (
	"context"
	"encoding/json"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/store"
)

// PolicyResult is a cell's policy.
type PolicyResult struct {
	Cell       string          `json:"cell"`
	PolicyHash string          `json:"policy_hash"`
	Policy     json.RawMessage `json:"policy"`

	Parsed *policy.Policy `json:"-"`
}

// PolicyApplied says that a cell got another policy.
type PolicyApplied struct {
	Cell       string `json:"cell"`
	PolicyHash string `json:"policy_hash"`
	Before     string `json:"policy_hash_before"`
}

// Policy returns a cell's policy.
func (e *Engine) Policy(_ context.Context, name string) (*PolicyResult, error) {
	c, err := e.findCell(name)
	if err != nil {
		return nil, err
	}
	p, err := e.storedPolicy(c.Policy)
	if err != nil {
		return nil, err
	}
	doc, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return &PolicyResult{Cell: c.Name, PolicyHash: policyHash(p), Policy: doc, Parsed: p}, nil
}

// ApplyPolicy gives a cell another policy, from its next run on.
func (e *Engine) ApplyPolicy(ctx context.Context, name string, f PolicyFile) (*PolicyApplied, error) {
	p, err := ParsePolicy(f)
	if err != nil {
		return nil, err
	}
	s, err := e.hold(ctx, name, "policy apply", 0)
	if err != nil {
		return nil, err
	}
	defer s.release()
	before, err := e.storedPolicy(s.cell.Policy)
	if err != nil && KindOf(err) != Refused {
		return nil, err
	}
	res := &PolicyApplied{Cell: s.cell.Name, PolicyHash: policyHash(p), Before: s.cell.Policy}
	if before != nil {
		res.Before = policyHash(before)
	}
	if s.cell.Policy, err = e.keepPolicy(p); err != nil {
		return nil, failed("policy", err, "keep the policy")
	}
	err = e.store.Update(func(tx *store.Tx) error {
		if err := tx.PutCell(s.cell); err != nil {
			return err
		}
		return e.logChange(tx, s.cell, s.head, opPolicy, map[string]string{"policy_hash": res.PolicyHash})
	})
	if err != nil {
		return nil, failed("policy", err, "record the policy of %s", name)
	}
	return res, nil
}
