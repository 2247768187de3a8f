package egress_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress"
)

// TestClearText checks that plain HTTP is spoken only where the policy says so,
// also where it was asked for as a proxy's request or under enforcement: audit.
func TestClearText(t *testing.T) {
	t.Parallel()
	const host = "Host: api.example.com:8080\r\n"
	for name, c := range map[string]struct {
		entry, request string
		to             uint16 // 0 is the proxy itself
		status         int
	}{
		"443":             {fullAPI, "GET /v1 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n", 443, 403},
		"443, audit":      {"{host: api.example.com, port: 443, protocol: rest, enforcement: audit, access: read-only}", "GET /v1 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n", 443, 403},
		"443, websocket":  {"{host: api.example.com, port: 443, protocol: websocket, access: full}", "GET /v1 HTTP/1.1\r\nHost: api.example.com:443\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", 443, 403},
		"443, proxy":      {fullAPI, "GET http://api.example.com:443/v1 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n", 0, 403},
		"8080":            {"{host: api.example.com, port: 8080, protocol: rest, access: full}", "GET /v1 HTTP/1.1\r\n" + host + "\r\n", 8080, 403},
		"8080, proxy":     {"{host: api.example.com, port: 8080, protocol: rest, access: full}", "GET http://api.example.com:8080/v1 HTTP/1.1\r\n" + host + "\r\n", 0, 403},
		"8080, off":       {"{host: api.example.com, port: 8080, protocol: rest, access: full, tls: off}", "GET /v1 HTTP/1.1\r\n" + host + "\r\n", 8080, 200},
		"8080, off proxy": {"{host: api.example.com, port: 8080, protocol: rest, access: full, tls: off}", "GET http://api.example.com:8080/v1 HTTP/1.1\r\n" + host + "\r\n", 0, 200},
		"80":              {"{host: api.example.com, port: 80, protocol: rest, access: full}", "GET /v1 HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 80, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell := newCell(t, rules(c.entry))
			port := c.to
			if port == 0 {
				port = 8080
			}
			// Without TLS whatever the port: it must not be reached where it is denied.
			up := cell.serve(api, port, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			to := explicit
			if c.to != 0 {
				to = cell.to(api, c.to)
			}
			res := raw(cell.dial(to), c.request)
			if res == nil || res.StatusCode != c.status {
				t.Fatalf("%+v, want %d", res, c.status)
			}
			defer func() { _ = res.Body.Close() }()
			if c.status == http.StatusOK {
				return
			}
			body, _ := io.ReadAll(res.Body)
			if !strings.Contains(string(body), `"layer":"tls"`) || !strings.Contains(string(body), `"hint":"tls: off"`) {
				t.Errorf("%s", body)
			}
			up.untouched(t)
		})
	}
}

// TestTLSOff checks that an endpoint without TLS refuses TLS.
func TestTLSOff(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c := newCell(t, rules("{host: api.example.com, port: 443, protocol: rest, access: full, tls: off}"))
		up := c.serve(api, 443, http.NotFoundHandler())
		status, body, _ := get(t, c.client(h2), "GET", "https://"+api+"/", nil)
		if status != 403 || !strings.Contains(body, `"layer":"tls"`) {
			t.Errorf("%d %s", status, body)
		}
		up.untouched(t)
	})
}

// TestClearTextCredentials checks that nothing of a credential goes over plain
// HTTP: neither the header that it sets nor a value for its placeholder, whatever
// its endpoints are.
func TestClearTextCredentials(t *testing.T) {
	t.Parallel()
	const entries = "{host: api.example.com, ports: [80, 443], protocol: rest, access: full}, {host: api.example.com, port: 8080, protocol: rest, access: full, tls: off}"
	text := rules(entries) + tokens
	g, placeholder := withToken(t, text)
	// A policy file cannot say this; the proxy does not rely on that.
	g.Policy.Credentials[0].Endpoints[0].Ports = []uint16{80, 443, 8080}
	c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
	seen := make(chan http.Header, 8)
	record := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })
	for _, port := range []uint16{80, 8080} {
		up := c.serve(api, port, record)
		url := "http://" + api + "/v1/x"
		if port != 80 {
			url = "http://" + api + ":8080/v1/x"
		}
		cl := c.client(false)
		if status, body, _ := get(t, cl, "GET", url, nil); status != 200 {
			t.Fatal(status, body)
		}
		if h := <-seen; h.Get("Authorization") != "" {
			t.Errorf("port %d: the credential went in clear text: %v", port, h)
		}
		for _, send := range []func() (int, string, http.Header){
			func() (int, string, http.Header) { return get(t, cl, "GET", url, nil, "X-Token", placeholder) },
			func() (int, string, http.Header) { return get(t, cl, "GET", url+"?t="+placeholder, nil) },
			func() (int, string, http.Header) { return get(t, cl, "POST", url, strings.NewReader("t="+placeholder)) },
		} {
			if status, body, _ := send(); status != 403 || !strings.Contains(body, "which goes over TLS only") {
				t.Errorf("port %d: %d %s", port, status, body)
			}
		}
		if n := up.requests.Load(); n != 1 {
			t.Errorf("port %d: the upstream saw %d requests", port, n)
		}
	}
	c.find(event.DetectionFinding, func(e map[string]any) bool { return strings.Contains(fieldOf(e), "credential_misuse") })
}
