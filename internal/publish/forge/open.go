package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/text/quote"
)

const (
	timeout   = time.Minute
	maxAnswer = 1 << 20
	maxShown  = 300
	// maxBody is below the shortest limit of the services, 65,536 characters.
	maxBody = 60_000
)

// PullRequest asks to merge a branch.
type PullRequest struct {
	// Repo is the path of the repository on the service, as in owner/name.
	Repo         string
	Branch, Base string
	Title, Body  string
}

// CheckRepo refuses a repository that the service cannot have.
func (f Forge) CheckRepo(repo string) error {
	parts := strings.Split(repo, "/")
	for _, p := range parts {
		if p == "" || p == "." || p == ".." {
			return fmt.Errorf("%s is not the path of a repository", quote.Path(repo))
		}
	}
	if len(parts) < 2 || f.Kind != gitlab && len(parts) != 2 {
		return fmt.Errorf("%s is not the path of a repository, as in owner/name", quote.Path(repo))
	}
	return nil
}

// Open makes a pull request and returns its URL. The token goes to the API of the
// service only: no redirect is followed.
func (f Forge) Open(ctx context.Context, token string, p PullRequest) (string, error) {
	if err := errors.Join(f.Check(), f.CheckRepo(p.Repo)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := f.request(ctx, token, p)
	if err != nil {
		return "", err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	if err != nil {
		return "", errors.New(quote.Line(hide(err.Error(), token)))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return "", err
	}
	if answer.StatusCode/100 == 3 {
		return "", fmt.Errorf("the service answered %d: redirects are not followed", answer.StatusCode)
	}
	if answer.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("the service answered %d: %s", answer.StatusCode, excerpt(text, token))
	}
	return f.madeAt(text, token)
}

// request returns the request of the service's API.
func (f Forge) request(ctx context.Context, token string, p PullRequest) (*http.Request, error) {
	owner, name, _ := strings.Cut(p.Repo, "/")
	at := f.base() + "/repos/" + url.PathEscape(owner) + "/" + url.PathEscape(name) + "/pulls"
	doc := map[string]string{"title": p.Title, "head": p.Branch, "base": p.Base, "body": shorten(p.Body)}
	if f.Kind == gitlab {
		at = f.base() + "/projects/" + url.PathEscape(p.Repo) + "/merge_requests"
		doc = map[string]string{"title": p.Title, "source_branch": p.Branch, "target_branch": p.Base, "description": shorten(p.Body)}
	}
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "forkcell")
	switch f.Kind {
	case github:
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Accept", "application/vnd.github+json")
		req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	case gitlab:
		req.Header.Set("PRIVATE-TOKEN", token)
	default:
		req.Header.Set("Authorization", "token "+token)
		req.Header.Set("Accept", "application/json")
	}
	return req, nil
}

// madeAt reads the URL of the pull request from the answer.
func (f Forge) madeAt(text []byte, token string) (string, error) {
	var doc struct {
		HTML string `json:"html_url"`
		Web  string `json:"web_url"`
	}
	if len(text) > maxAnswer || json.Unmarshal(text, &doc) != nil {
		return "", fmt.Errorf("the answer cannot be read: %s", excerpt(text, token))
	}
	at := doc.HTML
	if f.Kind == gitlab {
		at = doc.Web
	}
	if !quote.Visible(at) || !isTrusted(strings.SplitN(at, "#", 2)[0]) {
		return "", fmt.Errorf("the answer has no URL of a pull request: %s", excerpt(text, token))
	}
	return at, nil
}

// excerpt returns the beginning of an answer for an error.
func excerpt(text []byte, token string) string {
	s := hide(string(text), token)
	return quote.Line(strings.TrimSpace(strings.ToValidUTF8(s[:min(len(s), maxShown)], "")))
}

// hide removes the token from a text: a service may repeat what it was sent.
func hide(s, token string) string {
	if token == "" {
		return s
	}
	return strings.ReplaceAll(s, token, "[redacted]")
}

// shorten shortens a text to what every service takes.
func shorten(s string) string {
	if len(s) <= maxBody {
		return s
	}
	s = strings.ToValidUTF8(s[:maxBody], "")
	return s + "\n\n(The rest is left out.)\n"
}
