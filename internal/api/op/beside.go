package op

// Handlers beside the API. Its document does not describe them.
var (
	OpenAPI = Verb{
		ID: "openapi", Method: "GET", Path: "/openapi.json", Summary: "The document of the API",
		Needs: []Scope{ScopeRead}, Kind: KindMounted,
	}
	MCP = Verb{
		ID: "mcp", Path: "/mcp", Summary: "Tools for models, each of which sends requests of the API as the caller",
		Needs: []Scope{ScopeRead}, Kind: KindMounted,
	}
	Pages = Verb{
		ID: "pages", Path: "/ui/", Summary: "Pages for people, who sign in there",
		Kind: KindMounted,
	}
)
