package egress_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apidata "github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/network/egress/login"
)

const loginRules = `
credentials:
  access: {endpoints: [{host: api.example.com, port: 443, path: "/**"}], expose_as: ACCESS, replace_in_headers: [Authorization], keep_in_body: true}
  refresh: {endpoints: [{host: login.example.com, port: 443, path: "/token"}], expose_as: REFRESH, keep_in_body: true}`

// loggedIn makes a cell with a login on the host, and returns its file and its
// placeholders.
func loggedIn(t *testing.T, writeBack bool) (c *cell, file, access, refresh string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "auth.json")
	if err := os.WriteFile(file, []byte(`{"access": "REAL-access-token-1", "refresh": "REAL-refresh-token-1", "ends": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	text := rules(fullAPI, "{host: login.example.com, port: 443, protocol: rest, access: full}") + loginRules
	g := generation(t, text)
	values := map[string]*credential.Value{}
	for _, name := range []string{"access", "refresh"} {
		v, err := credential.NewValue([]byte("REAL-" + name + "-token-1"))
		if err != nil {
			t.Fatal(err)
		}
		values[name] = v
	}
	var err error
	if g.Credentials, err = credential.NewSet(g.Policy.Credentials, values); err != nil {
		t.Fatal(err)
	}
	logins := login.Logins{List: []apidata.Login{{
		Key: "example_auth", File: apidata.Text(file), WriteBack: writeBack, Expires: "ends",
		Tokens: []apidata.LoginToken{{Credential: "access", Place: "access"}, {Credential: "refresh", Place: "refresh"}},
		Refresh: []apidata.TokenEndpoint{{
			Host: "login.example.com", Port: 443, Path: "/token",
			Request: map[string]string{"refresh_token": "refresh"}, Answer: map[string]string{"access_token": "access", "refresh_token": "refresh"},
		}},
	}}}
	c = newCell(t, text, func(cfg *egress.Config) { cfg.Generation, cfg.Logins = g, logins })
	env := g.Credentials.Environment()
	return c, file, env["ACCESS"], env["REFRESH"]
}

// TestLoginIsRenewedOutside lets a program in the cell renew its login, and use it.
func TestLoginIsRenewedOutside(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c, file, access, refresh := loggedIn(t, true)
		c.serve("login.example.com", 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var in map[string]string
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in["refresh_token"] != "REAL-refresh-token-1" || in["client_id"] != "app" || r.URL.RawQuery != "" || r.Header.Get("Content-Type") != "application/json" || r.Header["Content-Encoding"] != nil || r.Header["Content-Md5"] != nil {
				t.Errorf("the service got %v, %v", in, err)
			}
			w.Header().Set("Set-Cookie", "session=REAL-access-token-2")
			_, _ = fmt.Fprint(w, `{"access_token": "REAL-access-token-2", "refresh_token": "REAL-refresh-token-2", "expires_in": 3600}`)
		}))
		seen := make(chan string, 8)
		c.serve(api, 443, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") }))
		cl := c.client(h2)
		status, body, header := get(t, cl, "POST", "https://login.example.com/token?scope=other", strings.NewReader(`{"grant_type": "refresh_token", "refresh_token": "`+refresh+`", "client_id": "app"}`),
			"Content-Type", "text/plain", "Content-Encoding", "", "Content-Encoding", "gzip", "Content-MD5", "x")
		if status != 200 || strings.Contains(body+fmt.Sprint(header), "REAL") {
			t.Fatalf("the cell gets %d %v %s", status, header, body)
		}
		var answer map[string]any
		if err := json.Unmarshal([]byte(body), &answer); err != nil || answer["access_token"] != access || answer["refresh_token"] != refresh {
			t.Errorf("the cell gets %s, %v", body, err)
		}
		if status, body, _ := get(t, cl, "GET", "https://"+api+"/", nil, "Authorization", "Bearer "+access); status != 200 {
			t.Error(status, body)
		}
		if got := <-seen; got != "Bearer REAL-access-token-2" {
			t.Errorf("after the renewal the service gets %q", got)
		}
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "REAL-refresh-token-2") {
			t.Errorf("the host's file is %s, %v", text, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.events {
			if strings.Contains(fieldOf(e), "REAL") {
				t.Errorf("a value is in an event: %v", e)
			}
		}
	})
}

// TestLoginIsRenewedAfterHangup closes the program's connection after the service has
// replaced the tokens: the host's file gets them, before Close returns.
func TestLoginIsRenewedAfterHangup(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c, file, _, refresh := loggedIn(t, true)
		replaced, gone := make(chan struct{}), make(chan struct{})
		c.serve("login.example.com", 443, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(replaced)
			<-gone
			_, _ = fmt.Fprint(w, `{"access_token": "REAL-access-token-2", "refresh_token": "REAL-refresh-token-2", "expires_in": 3600}`)
		}))
		ctx, hangUp := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://login.example.com/token", strings.NewReader(`{"grant_type": "refresh_token", "refresh_token": "`+refresh+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-replaced
			hangUp()
		}()
		if res, err := c.client(h2).Do(req); err == nil {
			_ = res.Body.Close()
			t.Fatal("the program got an answer")
		}
		closed := make(chan error, 1)
		go func() { closed <- c.proxy.Close() }()
		close(gone)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "REAL-refresh-token-2") {
			t.Errorf("the host's file is %s, %v", text, err)
		}
	})
}

func TestLoginIsNotRenewed(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c, _, access, refresh := loggedIn(t, false)
		up := c.serve("login.example.com", 443, http.NotFoundHandler())
		cl := c.client(h2)
		for body, want := range map[string]string{
			`{"grant_type": "refresh_token", "refresh_token": "` + refresh + `"}`: "not acknowledged",
			`{"refresh_token": "mine"}`: "does not renew",
			`{"code": "x"}`:             "does not renew",
			`{"refresh_token": "` + refresh + strings.Repeat(" ", 70<<10) + `x"}`: "too long",
		} {
			status, got, _ := get(t, cl, "POST", "https://login.example.com/token", strings.NewReader(body))
			if status != 403 || !strings.Contains(got, want) || !strings.Contains(got, `"layer":"credential"`) {
				t.Errorf("%.60s: %d %s", body, status, got)
			}
		}
		// The token of the API may not go there at all.
		if status, got, _ := get(t, cl, "POST", "https://login.example.com/token", strings.NewReader(`{"refresh_token": "`+access+`"}`)); status != 403 || !strings.Contains(got, "may not go to this endpoint") {
			t.Error(status, got)
		}
		if status, got, _ := get(t, cl, "GET", "https://login.example.com/token", nil); status != 403 {
			t.Error(status, got)
		}
		up.untouched(t)
	})
}

// TestEchoedCredential has an upstream repeat what it was sent.
func TestEchoedCredential(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c, _, access, _ := loggedIn(t, false)
		c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding"); got != "identity" {
				t.Errorf("the upstream is asked for %q", got)
			}
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			w.Header().Set("X-Echo", token)
			if r.URL.Path == "/gzip" {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, token)
				_ = z.Close()
				return
			}
			w.Header().Set("Trailer", "X-Last")
			for i := range token {
				_, _ = io.WriteString(w, token[i:i+1])
				_ = http.NewResponseController(w).Flush()
			}
			_, _ = io.WriteString(w, " is yours")
			w.Header().Set("X-Last", token)
		}))
		cl := c.client(h2)
		status, body, header := get(t, cl, "GET", "https://"+api+"/", nil, "Authorization", "Bearer "+access, "Accept-Encoding", "gzip")
		if status != 200 || body != strings.Repeat("*", len("REAL-access-token-1"))+" is yours" || strings.Contains(fmt.Sprint(header), "REAL") {
			t.Errorf("%d %v %s", status, header, body)
		}
		status, body, header = get(t, cl, "GET", "https://"+api+"/gzip", nil, "Authorization", "Bearer "+access)
		if status != 502 || !strings.Contains(body, "compresses its answer") || strings.Contains(fmt.Sprint(header), "REAL") {
			t.Errorf("%d %v %s", status, header, body)
		}
	})
}
