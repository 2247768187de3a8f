package op

// Handlers beside the API. Its document does not describe them.
var (
	OpenAPI = Op{
		ID: "openapi", Method: "GET", Path: "/openapi.json", Summary: "The document of the API",
		Needs: []Scope{ScopeRead}, Kind: KindMounted,
	}
	MCP = Op{
		ID: "mcp", Path: "/mcp", Summary: "Tools for models, each of which sends requests of the API as the caller",
		Needs: []Scope{ScopeRead}, Kind: KindMounted,
	}
	Pages = Op{
		ID: "pages", Path: "/ui/", Summary: "Pages for people, who sign in there",
		Kind: KindMounted,
	}
)
