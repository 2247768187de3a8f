package forge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const token = "tok-0123456789"

// service is a stand-in for the API of a service. It remembers the last request.
type service struct {
	*httptest.Server
	path   string
	header http.Header
	doc    map[string]string
	status int
	answer string
	to     string // where it redirects to, if anywhere
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{status: http.StatusCreated}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.path, s.header, s.doc = r.Method+" "+r.URL.EscapedPath(), r.Header, nil
		if err := json.NewDecoder(r.Body).Decode(&s.doc); err != nil {
			t.Error(err)
		}
		if s.to != "" {
			http.Redirect(w, r, s.to, http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(s.status)
		fmt.Fprint(w, s.answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) open(t *testing.T, kind, repo string) (string, error) {
	t.Helper()
	f := Forge{Host: "code.example.com", Kind: kind, API: s.URL + "/api/"}
	return f.Open(t.Context(), token, PullRequest{Repo: repo, Branch: "work/x", Base: "main", Title: "Fix", Body: "Because."})
}

// TestOpen compares the requests with what each service documents.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, repo, path, answer, header, value, head, base, body string
	}{
		{"github", "team/app", "POST /api/repos/team/app/pulls", `{"number":7,"html_url":"https://code.example.com/team/app/pull/7"}`, "Authorization", "Bearer " + token, "head", "base", "body"},
		{"gitlab", "group/sub/app", "POST /api/projects/group%2Fsub%2Fapp/merge_requests", `{"iid":7,"web_url":"https://code.example.com/team/app/pull/7"}`, "Private-Token", token, "source_branch", "target_branch", "description"},
		{"forgejo", "team/app", "POST /api/repos/team/app/pulls", `{"number":7,"html_url":"https://code.example.com/team/app/pull/7"}`, "Authorization", "token " + token, "head", "base", "body"},
		{"gitea", "team/app", "POST /api/repos/team/app/pulls", `{"number":7,"html_url":"https://code.example.com/team/app/pull/7"}`, "Authorization", "token " + token, "head", "base", "body"},
	} {
		s := newService(t)
		s.answer = c.answer
		at, err := s.open(t, c.kind, c.repo)
		if err != nil || at != "https://code.example.com/team/app/pull/7" {
			t.Errorf("%s: %s, %v", c.kind, at, err)
		}
		if s.path != c.path || s.header.Get(c.header) != c.value || s.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s, %v", c.kind, s.path, s.header)
		}
		if s.doc["title"] != "Fix" || s.doc[c.head] != "work/x" || s.doc[c.base] != "main" || s.doc[c.body] != "Because." || len(s.doc) != 4 {
			t.Errorf("%s: %v", c.kind, s.doc)
		}
	}
}

// TestRefusedByService: answers that are no pull request are errors without the token
// and without control characters.
func TestRefusedByService(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]struct {
		status int
		text   string
	}{
		"422: {\"message\":\"A pull request already exists": {422, `{"message":"A pull request already exists"}`},
		"401: bad [redacted]":                               {401, "bad " + token},
		`403: a\x1b[31mb`:                                   {403, "a\x1b[31mb"},
		"cannot be read":                                    {201, "<html>"},
		"has no URL":                                        {201, `{"html_url":"javascript:alert(1)"}`},
		"has no URL of a":                                   {201, `{"html_url":"http://plain.example.com/"}`},
		"answered 200":                                      {200, `{"html_url":"https://code.example.com/1"}`},
		strings.Repeat("x", 3):                              {500, strings.Repeat("x", 2<<20)},
	} {
		s := newService(t)
		s.status, s.answer = answer.status, answer.text
		_, err := s.open(t, github, "team/app")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), token) || len(err.Error()) > 1000 {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestNoRedirect: the token is not sent to where a service points.
func TestNoRedirect(t *testing.T) {
	t.Parallel()
	other, s := newService(t), newService(t)
	s.to = other.URL + "/stolen"
	if _, err := s.open(t, github, "team/app"); err == nil || !strings.Contains(err.Error(), "answered 307") {
		t.Errorf("got %v", err)
	}
	if other.path != "" {
		t.Errorf("the other service got %s", other.path)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	own := []Forge{{Host: "code.example.com:8443", Kind: gitea}, {Host: "github.com", Kind: github, Token: "env:MINE"}}
	for host, want := range map[string]string{
		"code.example.com:8443": "https://code.example.com:8443/api/v1", "GitHub.com": "https://github.com/api/v3", "gitlab.com:443": "https://gitlab.com/api/v4",
		"codeberg.org": "https://codeberg.org/api/v1",
	} {
		if f, ok := Find(own, host); !ok || f.base() != want {
			t.Errorf("%s: %+v", host, f)
		}
	}
	if f, ok := Find(nil, "github.com"); !ok || f.base() != "https://api.github.com" || f.Sources()[0] != "env:GH_TOKEN" {
		t.Errorf("got %+v", f)
	}
	for _, host := range []string{"", "code.example.com", "github.com.evil.example", "evil.example"} {
		if f, ok := Find(own, host); ok {
			t.Errorf("%q is %+v", host, f)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, f := range []Forge{
		{},
		{Host: "h", Kind: "svn"},
		{Host: "h/x", Kind: github},
		{Host: "h", Kind: github, API: "http://h.example.com"},
		{Host: "h", Kind: github, API: "https://u:p@h"},
		{Host: "h", Kind: github, API: "https://h/?x"},
		{Host: "h", Kind: github, API: "file:///x"},
	} {
		if f.Check() == nil {
			t.Errorf("%+v is taken", f)
		}
	}
	for repo, kind := range map[string]string{"": github, "a": gitlab, "a/b/c": github, "a//b": gitlab, "../b": gitea, "/a/b": gitlab} {
		if (Forge{Kind: kind}).CheckRepo(repo) == nil {
			t.Errorf("%s %q is taken", kind, repo)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	long := shorten(strings.Repeat("ä", maxBody))
	if len(long) > maxBody+100 || strings.ContainsRune(long, '\ufffd') || !strings.HasSuffix(long, "left out.)\n") || shorten("x") != "x" {
		t.Errorf("%d bytes, ends %q", len(long), long[len(long)-40:])
	}
}
