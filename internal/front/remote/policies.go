package remote

import (
	"context"
	"net/http"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/suggest"
)

// Policy returns the policy of a cell.
func (e *Engine) Policy(ctx context.Context, name string) (*api.PolicyResult, error) {
	res, err := asEngineError(e.client.Cells.Named(name).Policy(ctx))
	if err != nil {
		return nil, err
	}
	res.Text, err = e.canonical(res.Policy, res.PolicyHash)
	return res, err
}

// canonical returns the text of a policy, which must have the given hash.
func (e *Engine) canonical(doc []byte, hash string) ([]byte, error) {
	p, err := engine.ReadPolicy(e.caller, api.PolicyFile{Name: "policy of the daemon", Text: doc})
	if err == nil && p.PolicyHash != hash {
		err = api.Refusef(api.CodeProtocol, "", "the policy has the hash %s, not %s", p.PolicyHash, hash)
	}
	if err != nil {
		return nil, malformed(err)
	}
	return p.Text, nil
}

// ApplyPolicy gives a cell another policy.
func (e *Engine) ApplyPolicy(ctx context.Context, name string, f api.PolicyFile, given *api.LiveGrant) (*api.PolicyApplied, error) {
	switch {
	case given == nil:
	case len(given.Credentials) > 0:
		return nil, refuse("policy apply --credential")
	case len(given.Addresses) > 0:
		return nil, refuse("policy apply --grant-address")
	}
	return asEngineError(e.client.Cells.Named(name).SetPolicy(ctx, policyText(&f)))
}

// SuggestPolicy returns a policy that allows what a run was denied.
func (e *Engine) SuggestPolicy(ctx context.Context, name, run string) (*api.PolicySuggestion, error) {
	res, err := asEngineError(e.client.Policies.Suggest(ctx, api.SuggestRequest{Cell: name, Run: run}))
	if err != nil {
		return nil, err
	}
	text, err := e.canonical(res.Policy, res.PolicyHash)
	if err != nil {
		return nil, err
	}
	res.Text = suggest.File(res, text)
	return res, nil
}

// findPolicy finds a policy.
func (e *Engine) findPolicy(ctx context.Context, ref engine.PolicyRef) (*policy.Policy, error) {
	file := ref.File
	if file == nil {
		res, err := e.Policy(ctx, ref.Cell)
		switch {
		case err == nil:
			file = &api.PolicyFile{Name: api.Text("policy of " + ref.Cell), Text: res.Text}
		case api.KindOf(err) == api.NotFound && ref.Otherwise != nil:
			file = ref.Otherwise()
		default:
			return nil, err
		}
	}
	return e.caller.ParsePolicy(*file)
}

// DiffPolicies compares two policies key by key.
func (e *Engine) DiffPolicies(ctx context.Context, a, b engine.PolicyRef) (*api.PolicyDiff, error) {
	left, err := e.findPolicy(ctx, a)
	if err != nil {
		return nil, err
	}
	right, err := e.findPolicy(ctx, b)
	if err != nil {
		return nil, err
	}
	return engine.ComparePolicies(left, right), nil
}

// ExplainPolicy returns the decision of a policy.
func (e *Engine) ExplainPolicy(ctx context.Context, ref engine.PolicyRef, q engine.PolicyQuestion) (*policy.Explanation, error) {
	if q.Path == "" && q.Syscall == "" && q.Request == nil {
		p, err := e.findPolicy(ctx, ref)
		if err != nil {
			return nil, err
		}
		x := engine.ExplainNeeds(p)
		return &x, nil
	}
	body := api.ExplainBody{Cell: ref.Cell, Policy: policyText(ref.File), Path: q.Path, Syscall: q.Syscall}
	if ref.File != nil {
		body.Cell = ""
	}
	if r := q.Request; r != nil {
		if q.Body != nil || len(q.Header) > 0 {
			return nil, refuse("policy explain --body")
		}
		body.Host = r.Host + ":" + strconv.Itoa(int(r.Port))
		body.Scheme, body.Method, body.URLPath, body.Binary = r.Scheme, r.Method, r.Path, r.Binary
		if q.RawQuery != "" {
			body.URLPath += "?" + q.RawQuery
		}
	}
	res := new(api.Explanation)
	err := e.ask(ctx, http.MethodPost, op.ExplainPolicy.Path, body, res)
	if err != nil && api.KindOf(err) == api.NotFound && ref.Otherwise != nil && ref.File == nil {
		body.Cell, body.Policy = "", policyText(ref.Otherwise())
		err = e.ask(ctx, http.MethodPost, op.ExplainPolicy.Path, body, res)
	}
	if err != nil {
		return nil, err
	}
	return (*policy.Explanation)(res), nil
}
