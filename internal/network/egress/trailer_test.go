package egress_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/network/egress"
)

// TestTrailers checks that no trailer comes beside a header that the proxy sets,
// and that none says what only a header can say.
func TestTrailers(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		text := rules(fullAPI) + tokens
		g, placeholder := withToken(t, text)
		c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
		seen := make(chan http.Header, 8)
		up := c.serve(api, 443, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			all := r.Header.Clone()
			for name, values := range r.Trailer {
				all[name] = append(all[name], values...)
			}
			seen <- all
		}))
		send := func(path, name, value string, header ...string) (int, string) {
			r, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+api+path, io.MultiReader(strings.NewReader("body")))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i+1 < len(header); i += 2 {
				r.Header[header[i]] = []string{header[i+1]}
			}
			r.Trailer = http.Header{name: {value}}
			// On a connection of its own: HTTP/2 may end one for a forbidden trailer.
			res, err := c.client(h2).Do(r)
			if err != nil {
				return 0, err.Error()
			}
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				return 0, err.Error()
			}
			return res.StatusCode, string(body)
		}
		for _, name := range []string{
			"Authorization", "authorization", "Cookie", "Host", "X-Forwarded-Host", "Content-Encoding", "X-Original-Url", "X_Original-Url",
			"X-Http-Method-Override", "Proxy-Authorization", "X-Forkcell-Policy",
		} {
			// HTTP/2 itself refuses some of them.
			if status, body := send("/v1/x", name, "mine"); status != 403 && (!h2 || status != 0) || status == 403 && !strings.Contains(body, "trailer") {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
		if status, body := send("/v2/x", "X-Twice", "two", "X-Twice", "one"); status != 403 {
			t.Errorf("a header again: %d %s", status, body)
		}
		up.untouched(t)
		if status, body := send("/v1/x", "X-Sum", "42", "Authorization_", "a", "AUTHORIZATION", "mine"); status != 200 {
			t.Fatal(status, body)
		}
		if h := <-seen; h.Get("X-Sum") != "42" || !slices.Equal(h["Authorization"], []string{"Bearer " + secret}) {
			t.Errorf("%v", h)
		}
		// Its value comes when the request is on its way.
		if status, _ := send("/v2/x", "X-Sum", placeholder); status == 200 {
			t.Errorf("a placeholder in a trailer: %d", status)
		}
	})
}

// TestTrailerUnannounced checks that a trailer of which nothing was known before
// the request was sent is not sent.
func TestTrailerUnannounced(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules("{host: api.example.com, port: 80, protocol: rest, access: full}"))
	seen := make(chan http.Header, 8)
	c.serve(api, 80, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen <- r.Trailer
	}))
	const host = "POST / HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: chunked\r\n"
	const body = "\r\n1\r\na\r\n0\r\nX-Sum: 42\r\nAuthorization: mine\r\n\r\n"
	for header, want := range map[string]int{"": 0, "Trailer: X-Sum\r\n": 1} {
		if res := raw(c.dial(c.to(api, 80)), host+header+body); res == nil || res.StatusCode != 200 {
			t.Fatalf("%+v", res)
		}
		if got := <-seen; len(got) != want || got.Get("Authorization") != "" {
			t.Errorf("%q: %v", header, got)
		}
	}
}

// TestInjectedHeaderOnce checks that an upstream sees the header of a credential
// once, however a program names its own.
func TestInjectedHeaderOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		text := rules(fullAPI) + strings.Replace(tokens, "header: Authorization", "header: X-Api-Key", 1)
		g, _ := withToken(t, text)
		c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
		seen := make(chan http.Header, 8)
		c.serve(api, 443, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
		for _, name := range []string{"X-Api-Key", "x-api-key", "X_Api_Key", "X-Api_Key", "Connection"} {
			if h2 && name == "Connection" {
				continue
			}
			value := "X-Api-Key"
			if status, body, _ := get(t, c.client(h2), "GET", "https://"+api+"/v1/x", nil, name, value, "Proxy-Authorization", "mine"); status != 200 {
				t.Fatal(status, body)
			}
			h := <-seen
			for got, values := range h {
				if got != "X-Api-Key" && slices.Contains(values, value) || strings.HasPrefix(got, "Proxy-") {
					t.Errorf("%s: %s: %v", name, got, values)
				}
			}
			if !slices.Equal(h["X-Api-Key"], []string{"Bearer " + secret}) {
				t.Errorf("%s: %v", name, h)
			}
		}
	})
}
