package op

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
)

const tagPolicies = "policies"

// Operations on policies.
var (
	GetPolicy = Op[api.OfCell, api.PolicyResult]{
		Verb: Verb{
			ID: "getPolicy", Method: "GET", Path: "/v1/cells/{cell}/policy", Tag: tagPolicies,
			Summary: "Show the policy of a cell", Needs: []Scope{ScopeRead},
		},
		Do: func(e Engine, ctx context.Context, in api.OfCell) (*api.PolicyResult, error) {
			return e.Policy(ctx, in.Cell)
		},
	}
	SetPolicy = Verb{
		ID: "setPolicy", Method: "PUT", Path: "/v1/cells/{cell}/policy", Tag: tagPolicies,
		Summary: "Give a cell another policy", Needs: []Scope{ScopeAdmin}, Effect: Destroys, Idempotent: true,
	}
	ListPresets = Verb{
		ID: "listPresets", Method: "GET", Path: "/v1/policies", Tag: tagPolicies, Command: "policy list",
		Summary: "List the presets", Needs: []Scope{ScopeRead},
	}
	ExplainPolicy = Verb{
		ID: "explainPolicy", Method: "POST", Path: "/v1/policies/explain", Tag: tagPolicies, Command: "policy explain {cell}",
		Summary: "What a policy decides, by which rule and why", Needs: []Scope{ScopeRead},
	}
	SuggestPolicy = Op[api.SuggestRequest, api.PolicySuggestion]{
		Verb: Verb{
			ID: "suggestPolicy", Method: "POST", Path: "/v1/policies/suggest", Tag: tagPolicies, Command: "policy suggest {cell}",
			Summary: "A policy that allows what a run was denied", Needs: []Scope{ScopeRead},
		},
	}
	ValidatePolicy = Verb{
		ID: "validatePolicy", Method: "POST", Path: "/v1/policies/validate", Tag: tagPolicies, Command: "policy validate {policy}",
		Summary: "Check a policy", Needs: []Scope{ScopeRead},
	}
)
