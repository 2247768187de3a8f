package mcp

import (
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/testkit/mcptest"
)

// TestConformanceWithFixtures runs every scenario of the public conformance suite
// against the handler of this package, whose servers also have what the suite calls.
func TestConformanceWithFixtures(t *testing.T) {
	t.Parallel()
	suite := mcptest.NewSuite(t)
	f := newFixtures(t)
	server := func(s Session, o *sdk.ServerOptions) *sdk.Server { return f.server(NewCatalog("v1"), s, o) }
	everyone := func(*http.Request) Session { return Session{ID: "suite", Rights: Rights{Run: true, Decide: true}} }
	handler := newHandler(server, everyone, sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)})
	site := httptest.NewServer(withPresentVersion(handler))
	t.Cleanup(func() { site.CloseClientConnections(); site.Close() })
	if n := suite.RunAll(t, site.URL+"/mcp"); n != 32 {
		t.Errorf("the suite has %d scenarios; docs/reference/mcp.md has 32", n)
	}
}

// withPresentVersion corrects the version of the protocol in requests of the scenario
// server-sse-polling. It names 2025-03-26, and tests what came with 2025-11-25: for
// older versions the protocol's library does not begin a stream with an event.
func withPresentVersion(h http.Handler) http.Handler {
	const header = "Mcp-Protocol-Version"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(header) == "2025-03-26" {
			r.Header.Set(header, "2025-11-25")
		}
		h.ServeHTTP(w, r)
	})
}
