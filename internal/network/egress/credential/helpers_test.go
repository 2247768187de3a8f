package credential_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/policy/match"
)

var signTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func value(tb testing.TB, s string) *credential.Value {
	tb.Helper()
	v, err := credential.NewValue([]byte(s))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func at(tb testing.TB, host, path string) []policy.CredentialEndpoint {
	tb.Helper()
	h, err := match.NewHost(host)
	if err != nil {
		tb.Fatal(err)
	}
	p, err := match.NewURLPath(path, false)
	if err != nil {
		tb.Fatal(err)
	}
	return []policy.CredentialEndpoint{{Host: h, Ports: []uint16{443}, Path: p}}
}

const (
	secretA = `S3cr3t-A/with "quotes" & + =`
	secretB = "hush-B-0123456789"
)

// two makes a Set with credential a for a.example, b for b.example, and a third
// that is injected at b.example.
func two(tb testing.TB, inBody bool) (set *credential.Set, a, b string) {
	tb.Helper()
	set, err := credential.NewSet([]policy.Credential{
		{Name: "a", Endpoints: at(tb, "a.example", "/**"), ExposeAs: "A_TOKEN", ReplaceInHeaders: []string{"Authorization", "X-Named"}, ReplaceInQuery: []string{"k"}, ReplaceInBody: inBody},
		{Name: "b", Endpoints: at(tb, "b.example", "/v1/**"), ExposeAs: "B_TOKEN", ReplaceInHeaders: []string{"Authorization", "X-Named"}, ReplaceInQuery: []string{"k"}, ReplaceInBody: inBody},
		{Name: "c", Endpoints: at(tb, "c.example", "/**"), Header: "x-api-key", Format: "Key {value}!"},
	}, map[string]*credential.Value{"a": value(tb, secretA), "b": value(tb, secretB), "c": value(tb, "injected-value")})
	if err != nil {
		tb.Fatal(err)
	}
	env := set.Environment()
	return set, env["A_TOKEN"], env["B_TOKEN"]
}

func target(host, path string) credential.Target {
	return credential.Target{Host: host, Port: 443, Path: path, Secure: true}
}

func request(tb testing.TB, method, url, body string, headers ...string) *http.Request {
	tb.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(tb.Context(), method, url, r)
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

// stream makes the body one of unknown length.
func stream(req *http.Request) *http.Request {
	req.ContentLength = -1
	return req
}

func readBody(tb testing.TB, req *http.Request) (string, error) {
	tb.Helper()
	if req.Body == nil {
		return "", nil
	}
	var out bytes.Buffer
	_, err := io.Copy(&out, req.Body)
	return out.String(), err
}
