package daemon_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
	"github.com/forkcell/forkcell/internal/testkit/mcptest"
)

// TestConformance runs the public conformance suite of the Model Context Protocol
// against a daemon: every scenario that needs no tools or resources of the suite.
func TestConformance(t *testing.T) {
	t.Parallel()
	suite := mcptest.NewSuite(t)
	d := newDaemon(t)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.start(api.ServeOptions{Listen: []string{"unix:" + filepath.Join(d.home, daemon.SocketName), "127.0.0.1:0"}})
	var made api.TokenCreated
	d.want(http.StatusCreated, &made, "POST", "/v1/tokens", api.TokenRequest{Name: "suite", Scopes: []string{"run", "decide"}})
	site := withToken(t, "http://"+d.addresses[1], made.Token)
	for _, scenario := range []string{
		"server-initialize", "ping", "tools-list", "resources-list", "server-sse-multiple-streams", "dns-rebinding-protection",
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			suite.Run(t, site+"/mcp", scenario)
		})
	}
}

// withToken returns the address of a proxy that adds a token to each request: the
// suite cannot send one.
func withToken(t *testing.T, to, token string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	t.Cleanup(site.Close)
	return strings.Replace(site.URL, "127.0.0.1", "localhost", 1)
}
