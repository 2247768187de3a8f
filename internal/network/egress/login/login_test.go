package login_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/network/egress/login"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/match"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// service is a login on the host, and a stand-in of its token endpoint.
type service struct {
	t     *testing.T
	file  string
	login api.Login
	// answer makes the answer to a request with the real tokens.
	answer func(refresh string) (int, string)
	asked  atomic.Int64
}

func newService(t *testing.T, ended bool) *service {
	t.Helper()
	s := &service{t: t, file: filepath.Join(t.TempDir(), ".credentials.json")}
	end := now.Add(time.Hour)
	if ended {
		end = now.Add(-time.Hour)
	}
	s.write(fmt.Sprintf(`{
  "claudeAiOauth": {"accessToken": "sk-ant-REAL-access-1", "refreshToken": "sk-ant-REAL-refresh-1",
    "expiresAt": %d, "scopes": ["a", "b"]},
  "mcpOAuth": {"other": "kept"}
}
`, end.UnixMilli()))
	s.login = api.Login{
		Key: "claude_auth", File: api.Text(s.file), WriteBack: true, Expires: "claudeAiOauth.expiresAt", Scopes: "claudeAiOauth.scopes",
		Tokens: []api.LoginToken{{Credential: "access", Place: "claudeAiOauth.accessToken", Lead: "sk-ant-"}, {Credential: "refresh", Place: "claudeAiOauth.refreshToken", Lead: "sk-ant-"}},
		Refresh: []api.TokenEndpoint{{
			Host: "platform.claude.com", Port: 443, Path: "/v1/oauth/token",
			Request: map[string]string{"refresh_token": "claudeAiOauth.refreshToken"},
			Answer:  map[string]string{"access_token": "claudeAiOauth.accessToken", "refresh_token": "claudeAiOauth.refreshToken"},
		}},
	}
	n := 1
	s.answer = func(refresh string) (int, string) {
		if refresh != fmt.Sprintf("sk-ant-REAL-refresh-%d", n) {
			return 400, `{"error": "invalid_grant"}`
		}
		n++
		return 200, fmt.Sprintf(`{"token_type": "Bearer", "access_token": "sk-ant-REAL-access-%d", "expires_in": 3600, "refresh_token": "sk-ant-REAL-refresh-%d"}`, n, n)
	}
	return s
}

func (s *service) write(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) host() string {
	s.t.Helper()
	b, err := os.ReadFile(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// session is a cell's side of the login: its proxy's values and its placeholders.
type session struct {
	set             *credential.Set
	access, refresh string
}

func (s *service) session() session {
	s.t.Helper()
	host, err := match.NewHost("platform.claude.com")
	if err != nil {
		s.t.Fatal(err)
	}
	path, err := match.NewURLPath("/**", false)
	if err != nil {
		s.t.Fatal(err)
	}
	at := []policy.CredentialEndpoint{{Host: host, Ports: []uint16{443}, Path: path}}
	values := map[string]*credential.Value{}
	for _, t := range s.login.Tokens {
		source, err := credential.ParseSource("json:" + s.file + "#" + t.Place)
		if err != nil {
			s.t.Fatal(err)
		}
		if values[t.Credential], err = (credential.Reader{}).Read(s.t.Context(), source); err != nil {
			s.t.Fatal(err)
		}
	}
	set, err := credential.NewSet([]policy.Credential{{Name: "access", Endpoints: at, ExposeAs: "A"}, {Name: "refresh", Endpoints: at, ExposeAs: "R"}}, values)
	if err != nil {
		s.t.Fatal(err)
	}
	env := set.Environment()
	return session{set, env["A"], env["R"]}
}

var endpoint = credential.Target{Host: "platform.claude.com", Port: 443, Path: "/v1/oauth/token", Secure: true}

// renew asks for new tokens as a program in the cell does.
func (s *service) renew(in session, body string) (*login.Answer, error) {
	l := login.Logins{List: []api.Login{s.login}, Now: func() time.Time { return now }}
	if !l.Covers(endpoint) {
		s.t.Fatal("not covered")
	}
	return l.Renew(context.Background(), in.set, endpoint, []byte(body), func(_ context.Context, media string, sent []byte) (int, []byte, error) {
		s.asked.Add(1)
		refresh := s.sent(media, sent)
		status, text := s.answer(refresh)
		return status, []byte(text), nil
	})
}

// sent checks what the service is sent, and returns the token in it.
func (s *service) sent(media string, body []byte) (refresh string) {
	if s.login.Refresh[0].Form {
		before, refresh, ok := strings.Cut(string(body), "&refresh_token=")
		if !ok || before != "client_id=app&client_secret=a+%26b&grant_type=refresh_token" || media != "application/x-www-form-urlencoded" {
			s.t.Errorf("sent %s %s", media, body)
		}
		return refresh
	}
	var r struct {
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal(body, &r); err != nil || string(body) != `{"client_id":"app","grant_type":"refresh_token","refresh_token":"`+r.Refresh+`"}` || media != "application/json" {
		s.t.Errorf("sent %s %s", media, body)
	}
	return r.Refresh
}

func body(placeholder string) string {
	return `{"grant_type": "refresh_token", "refresh_token": "` + placeholder + `", "client_id": "app"}`
}

func TestRenewedOutside(t *testing.T) {
	t.Parallel()
	s := newService(t, true)
	in := s.session()
	got, err := s.renew(in, body(in.refresh))
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(got.Body, &answer); err != nil {
		t.Fatal(err)
	}
	if !in.set.Holds("access", answer["access_token"].(string)) || !in.set.Holds("refresh", answer["refresh_token"].(string)) || answer["expires_in"] != 3600.0 {
		t.Errorf("the cell gets %s", got.Body)
	}
	if strings.Contains(string(got.Body), "REAL") || got.Problem != "" || len(got.Used) != 1 || got.Used[0] != "refresh" {
		t.Errorf("%+v", got)
	}
	if !in.set.IsCurrent("access", "sk-ant-REAL-access-2") || !in.set.IsCurrent("refresh", "sk-ant-REAL-refresh-2") {
		t.Error("the proxy does not have the new tokens")
	}
	want := fmt.Sprintf(`{
  "claudeAiOauth": {"accessToken": "sk-ant-REAL-access-2", "refreshToken": "sk-ant-REAL-refresh-2",
    "expiresAt": %d, "scopes": ["a", "b"]},
  "mcpOAuth": {"other": "kept"}
}
`, now.Add(time.Hour).UnixMilli())
	if s.host() != want {
		t.Errorf("the host's file is\n%s", s.host())
	}
}

// TestOneRenewsForAll starts sessions that all find the login ended.
func TestOneRenewsForAll(t *testing.T) {
	t.Parallel()
	s := newService(t, true)
	sessions := make([]session, 8)
	for i := range sessions {
		sessions[i] = s.session()
	}
	var wg sync.WaitGroup
	for _, in := range sessions {
		wg.Go(func() {
			got, err := s.renew(in, body(in.refresh))
			if err != nil || got.Status != 200 || !in.set.IsCurrent("access", "sk-ant-REAL-access-2") || strings.Contains(string(got.Body), "REAL") {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := s.asked.Load(); n != 1 {
		t.Errorf("the service was asked %d times", n)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*service, *session)
		body  func(session) string
		has   string
		asked int64
	}{
		"not acknowledged": {func(s *service, _ *session) { s.login.WriteBack = false }, nil, "writing it back is not acknowledged", 0},
		"another grant":    {nil, func(session) string { return `{"grant_type": "authorization_code", "code": "x", "client_id": "app"}` }, "does not renew", 0},
		"a grant for it": {nil, func(in session) string {
			return strings.Replace(body(in.refresh), `"grant_type": "refresh_token"`, `"grant_type": "token-exchange"`, 1)
		}, "does not renew", 0},
		"a foreign token":  {nil, func(session) string { return body("sk-ant-mine") }, "does not renew", 0},
		"the other token":  {nil, func(in session) string { return body(in.access) }, "does not renew", 0},
		"not JSON":         {nil, func(in session) string { return "refresh_token=" + in.refresh }, "not a JSON object", 0},
		"a key twice":      {nil, func(in session) string { return `{"refresh_token":"` + in.refresh + `","refresh_token":"x"}` }, "there twice", 0},
		"file gone":        {func(s *service, _ *session) { _ = os.Remove(s.file) }, nil, "cannot be used", 0},
		"file open":        {func(s *service, _ *session) { _ = os.Chmod(s.file, 0o644) }, nil, "cannot be used", 0},
		"file is a link":   {func(s *service, _ *session) { _ = os.Rename(s.file, s.file+"x"); _ = os.Symlink(s.file+"x", s.file) }, nil, "cannot be used", 0},
		"file malformed":   {func(s *service, _ *session) { s.write("{") }, nil, "not as it should be", 0},
		"logged out":       {func(s *service, _ *session) { s.write("{}") }, nil, "has no claudeAiOauth.refreshToken", 0},
		"answer malformed": {func(s *service, _ *session) { s.answer = func(string) (int, string) { return 200, "[]" } }, nil, "not a JSON object", 1},
		"echo of the old": {func(s *service, _ *session) {
			s.answer = func(r string) (int, string) {
				return 200, `{"access_token":"sk-ant-REAL-access-2","token_type":"you sent ` + r + `"}`
			}
		}, nil, "repeats a credential", 1},
		"echo of the new": {func(s *service, _ *session) {
			s.answer = func(string) (int, string) {
				return 200, `{"access_token":"sk-ant-REAL-access-2","scope":"sk-ant-REAL-access-2"}`
			}
		}, nil, "repeats a credential", 1},
		"echo in an error": {func(s *service, _ *session) {
			s.answer = func(r string) (int, string) { return 400, `{"error":"bad ` + r + `"}` }
		}, nil, "repeats a credential", 1},
		"echo of what the host has renewed": {func(s *service, _ *session) {
			s.write(strings.ReplaceAll(s.host(), "-1\"", "-7\""))
			s.answer = func(r string) (int, string) { return 400, `{"error":"bad ` + r + `"}` }
		}, nil, "repeats a credential", 1},
		"a token that no request can carry": {func(s *service, _ *session) {
			s.write(strings.ReplaceAll(s.host(), `refresh-1"`, `refresh-\n"`))
		}, nil, "cannot be used", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, true)
			in := s.session()
			text := body(in.refresh)
			if c.body != nil {
				text = c.body(in)
			}
			if c.spoil != nil {
				c.spoil(s, &in)
			}
			got, err := s.renew(in, text)
			var refused *login.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.has) || strings.Contains(err.Error(), "REAL") || s.asked.Load() != c.asked {
				t.Errorf("%+v, %v, asked %d times; want a refusal with %q", got, err, s.asked.Load(), c.has)
			}
		})
	}
}

// TestHostRenewed takes tokens that the host's own program has renewed, also without
// the acknowledgement.
func TestHostRenewed(t *testing.T) {
	t.Parallel()
	s := newService(t, false)
	s.login.WriteBack = false
	in := s.session()
	s.write(strings.ReplaceAll(s.host(), "-1\"", "-7\""))
	before := s.host()
	got, err := s.renew(in, body(in.refresh))
	if err != nil || !in.set.IsCurrent("access", "sk-ant-REAL-access-7") || s.asked.Load() != 0 || s.host() != before {
		t.Fatalf("%+v, %v", got, err)
	}
	var answer struct {
		ExpiresIn int    `json:"expires_in"`
		Access    string `json:"access_token"`
		Scope     string `json:"scope"`
	}
	if err := json.Unmarshal(got.Body, &answer); err != nil || answer.ExpiresIn != 3600 || answer.Scope != "a b" || !in.set.Holds("access", answer.Access) {
		t.Errorf("%s, %v", got.Body, err)
	}
}

// TestForm renews a login whose token endpoint takes a form, with a field of the program
// besides its id.
func TestForm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body    string // after the token
		refused string
	}{
		"renewed":       {"&client_secret=a+%26b&scope=other&access_token=mine", ""},
		"a key twice":   {"&client_secret=a+%26b&refresh_token=mine", "a key is there twice"},
		"an escape":     {"&client_secret=%zz", "is not a form"},
		"a semicolon":   {";client_secret=a", "is not a form"},
		"another grant": {"x", "does not renew"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, true)
			s.login.Refresh[0].Form, s.login.Refresh[0].Passed = true, []string{"client_secret"}
			in := s.session()
			got, err := s.renew(in, "grant_type=refresh_token&client_id=app&refresh_token="+in.refresh+c.body)
			if c.refused != "" {
				var refused *login.RefusedError
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.refused) || s.asked.Load() != 0 {
					t.Errorf("%+v, %v, asked %d times; want a refusal with %q", got, err, s.asked.Load(), c.refused)
				}
				return
			}
			if err != nil || got.Problem != "" || !in.set.IsCurrent("access", "sk-ant-REAL-access-2") || strings.Contains(string(got.Body), "REAL") || !strings.Contains(s.host(), `"sk-ant-REAL-refresh-2"`) {
				t.Errorf("%+v, %v; the host has %s", got, err, s.host())
			}
		})
	}
	s := newService(t, true)
	s.login.Refresh[0].Form = true
	in := s.session()
	if _, err := s.renew(in, body(in.refresh)); err == nil || s.asked.Load() != 0 {
		t.Errorf("JSON was taken for a form: %v", err)
	}
}

func TestServiceRefuses(t *testing.T) {
	t.Parallel()
	s := newService(t, true)
	in := s.session()
	s.answer = func(string) (int, string) { return 400, `{"error": "invalid_grant"}` }
	before := s.host()
	got, err := s.renew(in, body(in.refresh))
	if err != nil || got.Status != 400 || string(got.Body) != `{"error":"invalid_grant"}` || s.host() != before || !in.set.IsCurrent("refresh", "sk-ant-REAL-refresh-1") {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestClaimsStayReadable checks tokens whose claims a program reads: the
// placeholder has the claims of the new token, and not its signature.
func TestClaimsStayReadable(t *testing.T) {
	t.Parallel()
	jwt := func(exp time.Time, signature string) string {
		return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, exp.Unix())) + "." + signature
	}
	s := newService(t, true)
	s.write(`{"tokens": {"access_token": "` + jwt(now.Add(-time.Hour), "REAL-signature-1") + `", "refresh_token": "REAL-refresh-1"}, "last_refresh": "2020-01-01T00:00:00Z"}`)
	s.login.Expires = "tokens.access_token"
	s.login.Tokens = []api.LoginToken{{Credential: "access", Place: "tokens.access_token"}, {Credential: "refresh", Place: "tokens.refresh_token"}}
	s.login.Refresh[0].Request = map[string]string{"refresh_token": "tokens.refresh_token"}
	s.login.Refresh[0].Answer = map[string]string{"access_token": "tokens.access_token", "refresh_token": "tokens.refresh_token"}
	fresh := jwt(now.Add(time.Hour), "REAL-signature-2")
	s.answer = func(string) (int, string) { return 200, `{"access_token": "` + fresh + `"}` }
	in := s.session()
	got, err := s.renew(in, body(in.refresh))
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]string
	if err := json.Unmarshal(got.Body, &answer); err != nil {
		t.Fatal(err)
	}
	claims := strings.TrimSuffix(fresh, "REAL-signature-2")
	if shown := answer["access_token"]; !strings.HasPrefix(shown, claims+"fcph_") || !in.set.IsCurrent("access", fresh) {
		t.Errorf("the cell sees %q", shown)
	}
	if !strings.Contains(s.host(), `"last_refresh": "2026-03-04T05:06:07Z"`) || !strings.Contains(s.host(), fresh) || !strings.Contains(s.host(), "REAL-refresh-1") {
		t.Errorf("the host's file is %s", s.host())
	}
}

// TestWaits gives up when the caller does.
func TestWaits(t *testing.T) {
	t.Parallel()
	s := newService(t, true)
	first, second := s.session(), s.session()
	ctx, cancel := context.WithCancel(t.Context())
	l := login.Logins{List: []api.Login{s.login}, Now: func() time.Time { return now }}
	_, err := l.Renew(t.Context(), first.set, endpoint, []byte(body(first.refresh)), func(context.Context, string, []byte) (int, []byte, error) {
		cancel()
		_, err := l.Renew(ctx, second.set, endpoint, []byte(body(second.refresh)), nil)
		return 0, nil, fmt.Errorf("the second: %w", err)
	})
	if err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Error(err)
	}
}

// TestAbandonedWaits: a program that asks and goes away, again and again, leaves no thread
// and no descriptor of the host behind while another session renews the login.
func TestAbandonedWaits(t *testing.T) { //nolint:paralleltest // it counts what the process has
	s := newService(t, true)
	in := s.session()
	l := login.Logins{List: []api.Login{s.login}, Now: func() time.Time { return now }}
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = l.Renew(t.Context(), in.set, endpoint, []byte(body(in.refresh)), func(context.Context, string, []byte) (int, []byte, error) {
		goroutines, open := runtime.NumGoroutine(), descriptors()
		for range 100 {
			if _, err := l.Renew(gone, in.set, endpoint, []byte(body(in.refresh)), nil); err == nil {
				t.Error("renewed although another session has the lock")
			}
		}
		const noise = 10
		if n := runtime.NumGoroutine() - goroutines; n > noise {
			t.Errorf("%d goroutines more, each with a thread that waits for the lock", n)
		}
		if n := descriptors() - open; n > noise {
			t.Errorf("%d descriptors more", n)
		}
		return 500, nil, nil
	})
}
