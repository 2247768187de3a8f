package home

import (
	"errors"
	"io/fs"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// StoredPolicy reads a stored policy; "" is the default one.
func (h *Home) StoredPolicy(hash string) (*policy.Policy, error) {
	if hash == "" {
		return policy.Default(), nil
	}
	text, err := h.Store.ReadBlob(hash)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Refusef(api.CodePolicy, "`forkcell policy apply CELL FILE` gives the cell a new one", "the stored policy %s is missing", hash)
	}
	if errors.Is(err, store.ErrDigest) {
		return nil, api.Refusef(api.CodePolicy, "`forkcell policy apply CELL FILE` gives the cell a new one", "the stored policy %s was changed", hash)
	}
	if err != nil {
		return nil, err
	}
	return h.Caller.ParsePolicy(api.PolicyFile{Name: api.Text("policy " + hash[:12]), Text: text})
}

// LastPolicy returns the policy that a run ended with, or has now.
func (h *Home) LastPolicy(r store.Run) (*policy.Policy, error) {
	hash := r.Policy
	if later := h.Evidence.Policies(r.ID); len(later) > 0 {
		hash = later[len(later)-1].PolicyHash
	}
	return h.StoredPolicy(hash)
}
