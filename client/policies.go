package client

import (
	"context"
	"iter"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// Policies checks and explains policies. A policy is YAML, or the name of a preset.
type Policies struct{ client *Client }

// Presets returns the policies that come with the daemon.
func (s *Policies) Presets(ctx context.Context) iter.Seq2[Preset, error] {
	return list[Preset](ctx, s.client, op.ListPresets.Path, nil)
}

// Validate checks a policy and returns its canonical form.
func (s *Policies) Validate(ctx context.Context, policy string) (*PolicyResult, error) {
	return post[PolicyResult](ctx, s.client, op.ValidatePolicy.Path, api.ValidateBody{Policy: policy}, nil)
}

// Explain says what a policy decides about a path, a host or a system call.
func (s *Policies) Explain(ctx context.Context, r Explain) (*Explanation, error) {
	return post[Explanation](ctx, s.client, op.ExplainPolicy.Path, r, nil)
}

// Suggest returns a policy that allows what a run was denied, for a person to review.
func (s *Policies) Suggest(ctx context.Context, r Suggest) (*PolicySuggestion, error) {
	return ask(ctx, s.client, op.SuggestPolicy, r, nil)
}
