package op

const tagPolicies = "policies"

// Operations on policies.
var (
	GetPolicy = Op{
		ID: "getPolicy", Method: "GET", Path: "/v1/cells/{cell}/policy", Tag: tagPolicies,
		Summary: "Show the policy of a cell", Needs: []Scope{ScopeRead},
	}
	SetPolicy = Op{
		ID: "setPolicy", Method: "PUT", Path: "/v1/cells/{cell}/policy", Tag: tagPolicies,
		Summary: "Give a cell another policy", Needs: []Scope{ScopeAdmin}, Effect: Destroys, Idempotent: true,
	}
	ListPresets = Op{
		ID: "listPresets", Method: "GET", Path: "/v1/policies", Tag: tagPolicies, Command: "policy list",
		Summary: "List the presets", Needs: []Scope{ScopeRead},
	}
	ExplainPolicy = Op{
		ID: "explainPolicy", Method: "POST", Path: "/v1/policies/explain", Tag: tagPolicies, Command: "policy explain {cell}",
		Summary: "What a policy decides, by which rule and why", Needs: []Scope{ScopeRead},
	}
	SuggestPolicy = Op{
		ID: "suggestPolicy", Method: "POST", Path: "/v1/policies/suggest", Tag: tagPolicies, Command: "policy suggest {cell}",
		Summary: "A policy that allows what a run was denied", Needs: []Scope{ScopeRead},
	}
	ValidatePolicy = Op{
		ID: "validatePolicy", Method: "POST", Path: "/v1/policies/validate", Tag: tagPolicies, Command: "policy validate {policy}",
		Summary: "Check a policy", Needs: []Scope{ScopeRead},
	}
)
