package egress_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
)

const (
	secret  = "s3cr3t-value"
	tokens  = "\ncredentials: {token: {endpoints: [{host: api.example.com, port: 443, path: \"/v1/**\"}], inject: {header: Authorization, format: \"Bearer {value}\"}, expose_as: TOKEN, replace_in_headers: [X-Token], replace_in_query: [t]}}"
	twoAPIs = "{host: b.example.com, port: 443, protocol: rest, access: full}"
)

// withToken makes a generation with a credential, and returns the placeholder
// for it.
func withToken(t testing.TB, rules string) (*egress.Generation, string) {
	t.Helper()
	g := generation(t, rules)
	v, err := credential.NewValue([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	g.Credentials, err = credential.NewSet(g.Policy.Credentials, map[string]*credential.Value{"token": v})
	if err != nil {
		t.Fatal(err)
	}
	return g, g.Credentials.Environment()["TOKEN"]
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		text := rules(fullAPI, twoAPIs) + tokens
		g, placeholder := withToken(t, text)
		c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
		seen := make(chan string, 8)
		record := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			seen <- r.Header.Get("Authorization") + " " + r.Header.Get("X-Token") + " " + r.RequestURI
		})
		up, other := c.serve(api, 443, record), c.serve("b.example.com", 443, record)
		cl := c.client(h2)
		// Misuse: elsewhere, in whatever part, and on the same host outside the
		// credential's paths.
		for _, q := range []struct {
			url, body string
			header    []string
		}{
			{"https://b.example.com/", "", []string{"Authorization", "Bearer " + placeholder}},
			{"https://b.example.com/?x=" + placeholder, "", nil},
			{"https://b.example.com/" + placeholder, "", nil},
			{"https://b.example.com/", "x=" + placeholder, nil},
			{"https://" + api + "/v2", "", []string{"X-Token", placeholder}},
			// On its own paths, in any part that it does not name.
			{"https://" + api + "/v1/x?title=" + placeholder, "", nil},
			{"https://" + api + "/v1/" + placeholder, "", nil},
			{"https://" + api + "/v1/x", "", []string{"User-Agent", "ua-" + placeholder}},
			{"https://" + api + "/v1/x", "", []string{"X-Amz-Meta-A", placeholder}},
			{"https://" + api + "/v1/x", "", []string{"X-Token", "x-" + placeholder}},
			{"https://" + api + "/v1/x", "x=" + placeholder, nil},
		} {
			status, body, header := get(t, cl, "POST", q.url, strings.NewReader(q.body), q.header...)
			if status != 403 || header.Get("X-Forkcell-Policy") != "denied" || !strings.Contains(body, `"layer":"credential"`) {
				t.Errorf("%s: %d %s", q.url, status, body)
			}
		}
		up.untouched(t)
		other.untouched(t)
		c.find(event.DetectionFinding, func(e map[string]any) bool { return strings.Contains(fieldOf(e), "credential_misuse") })
		// Use: what the program says in the header does not count, and it
		// cannot have the header taken out again.
		for _, header := range [][]string{nil, {"Authorization", "mine"}, {"Connection", "Authorization"}} {
			if h2 && header != nil && header[0] == "Connection" {
				continue
			}
			if status, body, _ := get(t, cl, "GET", "https://"+api+"/v1/x?t="+placeholder, nil, append(header, "X-Token", placeholder)...); status != 200 {
				t.Fatal(status, body)
			}
			if got, want := <-seen, "Bearer "+secret+" "+secret+" /v1/x?t="+secret; got != want {
				t.Errorf("upstream got %q, want %q", got, want)
			}
		}
		if status, body, _ := get(t, cl, "GET", "https://b.example.com/", nil); status != 200 {
			t.Error(status, body)
		}
		if got := <-seen; got != "  /" {
			t.Errorf("the other upstream got %q", got)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.events {
			if strings.Contains(fieldOf(e), secret) {
				t.Errorf("the value is in an event: %v", e)
			}
		}
	})
}

func fieldOf(e map[string]any) string {
	var b strings.Builder
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		case string:
			b.WriteString(v + "\n")
		}
	}
	walk(e)
	return b.String()
}

// TestLongMisuse checks a placeholder that comes after the request has begun to
// be sent.
func TestLongMisuse(t *testing.T) {
	t.Parallel()
	text := rules(fullAPI, twoAPIs) + tokens
	g, placeholder := withToken(t, text)
	c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
	complete := make(chan bool, 1)
	c.serve("b.example.com", 443, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		complete <- err == nil || strings.Contains(string(b), placeholder)
	}))
	body := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), strings.NewReader(placeholder), strings.NewReader(strings.Repeat("x", 1<<20)))
	status, answer, _ := get(t, c.client(true), "POST", "https://b.example.com/", body)
	if status != 403 || !strings.Contains(answer, `"layer":"credential"`) {
		t.Error(status, answer)
	}
	if <-complete {
		t.Error("the upstream got the placeholder")
	}
	c.find(event.DetectionFinding, func(map[string]any) bool { return true })
}

// TestReloadCredential checks that a request is cut when the credential that it
// took along may no longer go there.
func TestReloadCredential(t *testing.T) {
	t.Parallel()
	text := rules(fullAPI) + tokens
	g, _ := withToken(t, text)
	c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
	c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	res, err := c.client(true).Get("https://" + api + "/v1/x")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.proxy.Reload(generation(t, rules(fullAPI))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("not cut")
	}
}

// TestForeignPlaceholder checks that a placeholder of another run, as a fork may
// have kept, is refused and told, also where there are no credentials.
func TestForeignPlaceholder(t *testing.T) {
	t.Parallel()
	_, placeholder := withToken(t, rules(fullAPI)+tokens)
	c := newCell(t, rules(fullAPI))
	up := c.serve(api, 443, http.HandlerFunc(mirror))
	if status, body, _ := get(t, c.client(true), "GET", "https://"+api+"/", nil, "Authorization", "Bearer "+placeholder); status != 403 {
		t.Error(status, body)
	}
	up.untouched(t)
	c.find(event.DetectionFinding, func(map[string]any) bool { return true })
}
