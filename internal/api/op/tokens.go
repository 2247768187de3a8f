package op

const tagTokens = "tokens"

// Operations on tokens.
var (
	ListTokens = Verb{
		ID: "listTokens", Method: "GET", Path: "/v1/tokens", Tag: tagTokens,
		Summary: "List tokens", Needs: []Scope{ScopeAdmin, ScopeUnbounded},
	}
	CreateToken = Verb{
		ID: "createToken", Method: "POST", Path: "/v1/tokens", Tag: tagTokens,
		Summary: "Make a token", Needs: []Scope{ScopeAdmin, ScopeUnbounded}, Effect: Adds, Status: created,
	}
	RevokeToken = Verb{
		ID: "revokeToken", Method: "DELETE", Path: "/v1/tokens/{token}", Tag: tagTokens,
		Summary: "Revoke a token", Needs: []Scope{ScopeAdmin, ScopeUnbounded}, Effect: Destroys, Idempotent: true, Status: noContent,
	}
)
