package login_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/network/egress/login"
)

// TestAnswers renews with answers of several forms. Whatever the form, the host's file
// gets the new tokens, and the cell gets none.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const tokens = `"access_token": "sk-ant-REAL-access-2", "refresh_token": "sk-ant-REAL-refresh-2"`
	for name, c := range map[string]struct {
		status       int
		answer, keys string
		access       string
		problem      string
	}{
		"created":          {201, `{` + tokens + `}`, "access_token refresh_token", "2", ""},
		"unmapped token":   {200, `{` + tokens + `, "id_token": "eyJ.REAL.x", "account": {"REAL": 1}}`, "access_token refresh_token", "2", ""},
		"plain fields":     {200, `{` + tokens + `, "token_type": "Bearer", "scope": "a b", "expires_in": 60}`, "access_token expires_in refresh_token scope token_type", "2", ""},
		"fields of a form": {200, `{` + tokens + `, "token_type": {"REAL": 1}, "scope": ["REAL"], "expires_in": "REAL"}`, "access_token refresh_token", "2", ""},
		"null":             {200, `{"access_token": "sk-ant-REAL-access-2", "refresh_token": null}`, "access_token", "2", ""},
		"number":           {200, `{"access_token": "sk-ant-REAL-access-2", "refresh_token": 1}`, "access_token", "2", ""},
		"mapped, unknown":  {200, `{` + tokens + `, "mapped_token": "REAL-mapped"}`, "access_token refresh_token", "2", ""},
		"deep":             {200, `{` + tokens + `, "deep": ` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, "access_token refresh_token", "2", ""},
		"no header":        {200, `{"access_token": "sk-ant-REAL-access-2\n", "refresh_token": "sk-ant-REAL-refresh-2"}`, "refresh_token", `2\n`, "cannot use the new token claudeAiOauth.accessToken"},
		"error":            {400, `{"error": "invalid_grant", "error_description": "it ended", "id_token": "REAL"}`, "error error_description", "1", ""},
		"error, object":    {401, `{"error": {"code": "refresh_token_reused", "REAL": "REAL"}, ` + tokens + `}`, "error", "1", ""},
		"error, code":      {401, `{"code": "refresh_token_expired", "REAL": "REAL"}`, "code", "1", ""},
		"error, page":      {503, `<html>REAL`, "", "1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, true)
			s.login.Refresh[0].Answer["mapped_token"] = "claudeAiOauth.mapped"
			in := s.session()
			s.answer = func(string) (int, string) { return c.status, c.answer }
			got, err := s.renew(in, body(in.refresh))
			if err != nil {
				t.Fatal(err)
			}
			var shown map[string]any
			if err := json.Unmarshal(got.Body, &shown); err != nil || got.Status != c.status || keys(shown) != c.keys || strings.Contains(string(got.Body), "REAL") {
				t.Errorf("the cell gets %d %s, %v", got.Status, got.Body, err)
			}
			if !strings.Contains(s.host(), `"accessToken": "sk-ant-REAL-access-`+c.access+`"`) {
				t.Errorf("the host has %s", s.host())
			}
			if !strings.Contains(got.Problem, c.problem) || (got.Problem == "") != (c.problem == "") {
				t.Errorf("problem %q", got.Problem)
			}
		})
	}
}

func keys(m map[string]any) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), " ")
}

// TestCellDoesNotDecide asks for other things than a renewal, and too often.
func TestCellDoesNotDecide(t *testing.T) {
	t.Parallel()
	s := newService(t, false)
	in := s.session()
	// The service of the test accepts only the client's id beside the token.
	text := strings.Replace(body(in.refresh), `"client_id"`, `"scope": "one", "expires_in": 5, "client_id"`, 1)
	for range 3 {
		if got, err := s.renew(in, text); err != nil || got.Status != 200 || !in.set.IsCurrent("access", "sk-ant-REAL-access-2") || strings.Contains(string(got.Body), "REAL") {
			t.Fatalf("%+v, %v", got, err)
		}
		s.at(now.Add(-30 * time.Second))
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("the service was asked %d times", n)
	}
	s.at(now.Add(-2 * time.Minute))
	if _, err := s.renew(in, text); err != nil || s.asked.Load() != 2 {
		t.Errorf("%v, asked %d times", err, s.asked.Load())
	}
}

// at sets the time at which the host's file was written.
func (s *service) at(when time.Time) {
	s.t.Helper()
	if err := os.Chtimes(s.file, when, when); err != nil {
		s.t.Fatal(err)
	}
}

// TestCallerGoes lets the caller go while the service answers.
func TestCallerGoes(t *testing.T) {
	t.Parallel()
	s := newService(t, true)
	in := s.session()
	ctx, cancel := context.WithCancel(t.Context())
	l := login.Logins{List: []api.Login{s.login}, Now: func() time.Time { return now }}
	_, err := l.Renew(ctx, in.set, endpoint, []byte(body(in.refresh)), func(ctx context.Context, _ string, _ []byte) (int, []byte, error) {
		cancel()
		status, text := s.answer("sk-ant-REAL-refresh-1")
		return status, []byte(text), ctx.Err()
	})
	if err != nil || !strings.Contains(s.host(), "sk-ant-REAL-refresh-2") {
		t.Errorf("%v; the host has %s", err, s.host())
	}
}

// TestHostWritesMeanwhile changes the host's file while the service answers.
func TestHostWritesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ from, to, has, problem string }{
		"another part":  {`"kept"`, `"changed"`, `"sk-ant-REAL-refresh-2"`, ""},
		"another login": {"sk-ant-REAL-refresh-1", "sk-ant-REAL-refresh-9", `"sk-ant-REAL-access-1"`, "its file has another login now"},
		"logged out":    {"claudeAiOauth", "none", `"sk-ant-REAL-access-1"`, "another login now"},
		"opened":        {"", "", `"sk-ant-REAL-access-1"`, "open to others"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, true)
			in := s.session()
			answer := s.answer
			s.answer = func(refresh string) (int, string) {
				s.write(strings.Replace(s.host(), c.from, c.to, 1))
				if c.from == "" {
					if err := os.Chmod(s.file, 0o644); err != nil {
						t.Error(err)
					}
				}
				return answer(refresh)
			}
			got, err := s.renew(in, body(in.refresh))
			if err != nil || !strings.Contains(got.Problem, c.problem) || (got.Problem == "") != (c.problem == "") || !in.set.IsCurrent("access", "sk-ant-REAL-access-2") {
				t.Errorf("%+v, %v", got, err)
			}
			if !strings.Contains(s.host(), c.to) || !strings.Contains(s.host(), c.has) {
				t.Errorf("the host has %s", s.host())
			}
		})
	}
}

// FuzzAnswer checks that no token of an answer comes to the cell, whatever its form.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"access_token": "sk-ant-REAL-access-2", "refresh_token": "sk-ant-REAL-refresh-2", "expires_in": 60}`,
		`{"access_token": "sk-ant-REAL-access-2", "scope": "sk-ant-REAL-access-2"}`,
		`{"error": {"code": "sk-ant-REAL-refresh-1", "message": null}}`, `{"access_token": "a\nREAL-access"}`, `[]`, `null`,
	} {
		f.Add(200, []byte(seed))
		f.Add(400, []byte(seed))
	}
	f.Fuzz(func(t *testing.T, status int, answer []byte) {
		s := newService(t, true)
		in := s.session()
		s.answer = func(string) (int, string) { return status, string(answer) }
		got, err := s.renew(in, body(in.refresh))
		if err != nil {
			return
		}
		if !json.Valid(got.Body) || !json.Valid([]byte(s.host())) {
			t.Fatalf("the cell gets %q, the host %q", got.Body, s.host())
		}
		var tokens map[string]any
		_ = json.Unmarshal(answer, &tokens) // what is no object has no tokens
		for _, key := range []string{"access_token", "refresh_token"} {
			v, _ := tokens[key].(string)
			if _, err := credential.NewValue([]byte(v)); err == nil && len(v) >= 8 && status/100 == 2 && strings.Contains(string(got.Body), v) {
				t.Fatalf("the cell gets %q", got.Body)
			}
		}
		if strings.Contains(string(got.Body), "sk-ant-REAL-refresh-1") {
			t.Fatalf("the cell gets %q", got.Body)
		}
	})
}
