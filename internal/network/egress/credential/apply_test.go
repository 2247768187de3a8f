package credential_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

func basic(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }

func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

func TestReplace(t *testing.T) {
	t.Parallel()
	set, a, _ := two(t, false)
	for _, c := range []struct {
		name, url string
		headers   []string
		want      http.Header
		wantURL   string
		used      []string
	}{
		{
			"nothing to do", "https://a.example/x?a=b&c&%zz",
			[]string{"X-One", "1"},
			http.Header{"X-One": {"1"}},
			"https://a.example/x?a=b&c&%zz", nil,
		},
		{
			"headers", "https://a.example/x",
			[]string{"Authorization", "Bearer " + a, "X-Named", a, "X-Named", "z", "X-Named", "token  " + a},
			http.Header{"Authorization": {"Bearer " + secretA}, "X-Named": {secretA, "z", "token  " + secretA}},
			"https://a.example/x",
			[]string{"a"},
		},
		{
			"basic", "https://a.example/x",
			[]string{"Authorization", basic("me:" + a)},
			http.Header{"Authorization": {basic("me:" + secretA)}},
			"https://a.example/x",
			[]string{"a"},
		},
		{
			"basic, the user", "https://a.example/x",
			[]string{"Authorization", "bAsIc " + strings.TrimPrefix(basic(a+":x-oauth"), "Basic ")},
			http.Header{"Authorization": {"bAsIc " + strings.TrimPrefix(basic(secretA+":x-oauth"), "Basic ")}},
			"https://a.example/x",
			[]string{"a"},
		},
		{
			"basic of others stays", "https://a.example/x",
			[]string{"Authorization", "Basic  " + base64.RawStdEncoding.EncodeToString([]byte("me:pw"))},
			http.Header{"Authorization": {"Basic  " + base64.RawStdEncoding.EncodeToString([]byte("me:pw"))}},
			"https://a.example/x", nil,
		},
		{
			"query", "https://a.example/x?k=" + a + "&z=%7e", nil,
			http.Header{},
			"https://a.example/x?k=" + url.QueryEscape(secretA) + "&z=%7e",
			[]string{"a"},
		},
		{
			"query, percent-encoded", "https://a.example/x?%6B=" + percent(a) + "&y", nil,
			http.Header{},
			"https://a.example/x?%6B=" + url.QueryEscape(secretA) + "&y",
			[]string{"a"},
		},
		{
			"no placeholder, but like one", "https://a.example/x",
			[]string{"X-A", "fcph_short", "X-B", "fcph_" + strings.Repeat("A", 26)},
			http.Header{"X-A": {"fcph_short"}, "X-B": {"fcph_" + strings.Repeat("A", 26)}},
			"https://a.example/x", nil,
		},
	} {
		if c.name == "no placeholder, but like one" {
			c.headers[3], c.want["X-B"][0] = "fcph_"+strings.Repeat("1", 26), "fcph_"+strings.Repeat("1", 26)
		}
		req := request(t, "GET", c.url, "", c.headers...)
		done, err := set.Apply(t.Context(), req, target("a.example", req.URL.Path), nil, signTime)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, req.Header); diff != "" {
			t.Errorf("%s: headers (-want +got)\n%s", c.name, diff)
		}
		if got := req.URL.String(); got != c.wantURL {
			t.Errorf("%s: %s, want %s", c.name, got, c.wantURL)
		}
		if diff := cmp.Diff(c.used, done.Used); diff != "" {
			t.Errorf("%s: used (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestInject(t *testing.T) {
	t.Parallel()
	set, _, _ := two(t, false)
	req := request(t, "GET", "https://c.example/", "", "X-Api-Key", "the cell's own", "X-Api-Key", "two")
	done, err := set.Apply(t.Context(), req, target("c.example", "/"), nil, signTime)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(http.Header{"X-Api-Key": {"Key injected-value!"}}, req.Header); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"c"}, done.Used); diff != "" {
		t.Error(diff)
	}
	for _, to := range []credential.Target{target("a.example", "/"), {Host: "c.example", Port: 80, Path: "/", Secure: true}} {
		req = request(t, "GET", "https://other.example/", "")
		if _, err := set.Apply(t.Context(), req, to, nil, signTime); err != nil || len(req.Header) > 0 {
			t.Errorf("%v: %v, %v", to, req.Header, err)
		}
	}

	both, err := credential.NewSet([]policy.Credential{
		{Name: "x", Endpoints: at(t, "c.example", "/**"), Header: "Authorization"},
		{Name: "y", Endpoints: at(t, "c.example", "/y"), Header: "authorization"},
	}, map[string]*credential.Value{"x": value(t, "vx"), "y": value(t, "vy")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := both.Apply(t.Context(), request(t, "GET", "https://c.example/y", ""), target("c.example", "/y"), nil, signTime); !errors.Is(err, credential.ErrAmbiguous) {
		t.Errorf("two for one header: %v", err)
	}
	req = request(t, "GET", "https://c.example/z", "")
	if _, err := both.Apply(t.Context(), req, target("c.example", "/z"), nil, signTime); err != nil || req.Header.Get("Authorization") != "vx" {
		t.Errorf("%v, %v", req.Header, err)
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	set, a, b := two(t, true)
	stranger, _, _ := two(t, true)
	old := stranger.Environment()["A_TOKEN"]
	in64 := func(before, s string) string { return base64.StdEncoding.EncodeToString([]byte(before + s + "end")) }
	for _, c := range []struct {
		name string
		req  *http.Request
		want credential.MisuseError
	}{
		{"header", request(t, "GET", "https://a.example/", "", "X-H", "x"+b), credential.MisuseError{Credential: "b", Part: "header"}},
		{"header name", request(t, "GET", "https://a.example/", "", "x-"+b, "x"), credential.MisuseError{Credential: "b", Part: "header"}},
		{"upper case", request(t, "GET", "https://a.example/", "", "X-H", strings.ToUpper(b)), credential.MisuseError{Credential: "b", Part: "header"}},
		{"cookie", request(t, "GET", "https://a.example/", "", "Cookie", "k="+b), credential.MisuseError{Credential: "b", Part: "header"}},
		{"basic", request(t, "GET", "https://a.example/", "", "Authorization", basic("u:"+b)), credential.MisuseError{Credential: "b", Part: "header"}},
		{"base64 0", request(t, "GET", "https://a.example/", "", "X-H", in64("", b)), credential.MisuseError{Credential: "b", Part: "header"}},
		{"base64 1", request(t, "GET", "https://a.example/", "", "X-H", in64("?", b)), credential.MisuseError{Credential: "b", Part: "header"}},
		{"base64 2", request(t, "GET", "https://a.example/", "", "X-H", in64("??", b)), credential.MisuseError{Credential: "b", Part: "header"}},
		{"base64, raw", request(t, "GET", "https://a.example/", "", "X-H", base64.RawURLEncoding.EncodeToString([]byte(b))), credential.MisuseError{Credential: "b", Part: "header"}},
		{"query", request(t, "GET", "https://a.example/?q="+b, ""), credential.MisuseError{Credential: "b", Part: "query"}},
		{"query key", request(t, "GET", "https://a.example/?"+b, ""), credential.MisuseError{Credential: "b", Part: "query"}},
		{"query, percent", request(t, "GET", "https://a.example/?q="+percent(b), ""), credential.MisuseError{Credential: "b", Part: "query"}},
		{"query, percent twice", request(t, "GET", "https://a.example/?q="+url.QueryEscape(percent(b)), ""), credential.MisuseError{Credential: "b", Part: "query"}},
		{"query, base64 in percent", request(t, "GET", "https://a.example/?q="+percent(in64("x", b)), ""), credential.MisuseError{Credential: "b", Part: "query"}},
		{"path", request(t, "GET", "https://a.example/x/"+b+"/y", ""), credential.MisuseError{Credential: "b", Part: "path"}},
		{"path, percent", request(t, "GET", "https://a.example/x/"+percent(b), ""), credential.MisuseError{Credential: "b", Part: "path"}},
		{"method", request(t, strings.ToUpper(b), "https://a.example/", ""), credential.MisuseError{Credential: "b", Part: "method"}},
		{"body", request(t, "POST", "https://a.example/", "x="+b), credential.MisuseError{Credential: "b", Part: "body"}},
		{"body, base64", request(t, "POST", "https://a.example/", in64("12345", b)), credential.MisuseError{Credential: "b", Part: "body"}},
		{"body, percent", request(t, "POST", "https://a.example/", "x="+percent(b)), credential.MisuseError{Credential: "b", Part: "body"}},
		{"body, streamed", stream(request(t, "POST", "https://a.example/", strings.Repeat("x", 40000)+b+"x")), credential.MisuseError{Credential: "b", Part: "body"}},
		{"of a parent", request(t, "GET", "https://a.example/", "", "Authorization", "Bearer "+old), credential.MisuseError{Part: "header"}},
		{"beside a good one", request(t, "GET", "https://a.example/?k="+a, "", "Authorization", "Bearer "+a, "X-H", b), credential.MisuseError{Credential: "b", Part: "header"}},
	} {
		_, err := set.Apply(t.Context(), c.req, target("a.example", "/"), nil, signTime)
		if err == nil {
			_, err = readBody(t, c.req)
		}
		var got *credential.MisuseError
		if !errors.As(err, &got) {
			t.Errorf("%s: %v, want a misuse", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, *got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
		if strings.Contains(err.Error(), b) {
			t.Errorf("%s: the error holds the placeholder", c.name)
		}
	}
	// The path and the port are part of where a credential may go.
	for _, to := range []credential.Target{target("b.example", "/v2/x"), {Host: "b.example", Port: 8443, Path: "/v1/x", Secure: true}} {
		var misuse *credential.MisuseError
		if _, err := set.Apply(t.Context(), request(t, "GET", "https://b.example/v1/x", "", "X", b), to, nil, signTime); !errors.As(err, &misuse) {
			t.Errorf("%v: %v", to, err)
		}
	}
}

func TestTrailerMisuse(t *testing.T) {
	t.Parallel()
	set, _, b := two(t, false)
	req := stream(request(t, "POST", "https://a.example/", "body"))
	req.Trailer = http.Header{"X-Sum": nil}
	if _, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime); err != nil {
		t.Fatal(err)
	}
	req.Trailer.Set("X-Sum", b) // as a server does when the body has ended
	var misuse *credential.MisuseError
	if _, err := readBody(t, req); !errors.As(err, &misuse) || misuse.Part != "trailer" {
		t.Errorf("%v", err)
	}
}

func TestTooMuch(t *testing.T) {
	t.Parallel()
	set, err := credential.NewSet([]policy.Credential{{Name: "a", Endpoints: at(t, "a.example", "/**"), ExposeAs: "A", ReplaceInHeaders: []string{"X-A"}, ReplaceInQuery: []string{"k"}, ReplaceInBody: true}},
		map[string]*credential.Value{"a": value(t, strings.Repeat("v", credential.MaxValue))})
	if err != nil {
		t.Fatal(err)
	}
	a := set.Environment()["A"]
	many := strings.Repeat(a, 40)
	headers := request(t, "GET", "https://a.example/", "")
	for range 40 {
		headers.Header.Add("X-A", a)
	}
	for _, req := range []*http.Request{
		headers,
		request(t, "GET", "https://a.example/?"+strings.Repeat("&k="+a, 40), ""),
		request(t, "POST", "https://a.example/", many),
		stream(request(t, "POST", "https://a.example/", many)),
	} {
		_, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, signTime)
		if err == nil {
			_, err = readBody(t, req)
		}
		if !errors.Is(err, credential.ErrTooMuch) {
			t.Errorf("%v", err)
		}
	}
}

// TestRecall: a later run of a cell has placeholders of its own, and understands the newest
// of earlier runs; those of before stay unknown.
func TestRecall(t *testing.T) {
	t.Parallel()
	creds := []policy.Credential{{Name: "a", Endpoints: at(t, "a.example", "/**"), ExposeAs: "A", ReplaceInHeaders: []string{"X"}}}
	run := func(known map[string]credential.Known) *credential.Set {
		s, err := credential.NewSet(creds, map[string]*credential.Value{"a": value(t, "one")})
		if err != nil {
			t.Fatal(err)
		}
		s.Recall(known)
		return s
	}
	first := run(nil)
	known, last := first.Known(), first
	for range 64 {
		last = run(known)
		known = last.Known()
	}
	list := known["a"].Placeholders
	if len(list) != 65 || list[0] != first.Environment()["A"] || list[64] != last.Environment()["A"] || len(known["a"].Leads) != 1 {
		t.Fatalf("known are %d placeholders, leads %q", len(list), known["a"].Leads)
	}
	next := run(known)
	if now := next.Known()["a"].Placeholders; len(now) != 65 || now[0] != list[1] || now[63] != list[64] {
		t.Errorf("the oldest one is not forgotten: %d placeholders", len(now))
	}
}

func TestReloadAndFork(t *testing.T) {
	t.Parallel()
	creds := []policy.Credential{{Name: "a", Endpoints: at(t, "a.example", "/**"), ExposeAs: "A", ReplaceInHeaders: []string{"X"}}}
	first, err := credential.NewSet(creds, map[string]*credential.Value{"a": value(t, "one")})
	if err != nil {
		t.Fatal(err)
	}
	next, err := first.Reload(append(creds, policy.Credential{Name: "b", Endpoints: at(t, "b.example", "/**"), ExposeAs: "B"}),
		map[string]*credential.Value{"b": value(t, "two")})
	if err != nil {
		t.Fatal(err)
	}
	if first.Environment()["A"] != next.Environment()["A"] || next.Environment()["B"] == "" {
		t.Errorf("%v became %v", first.Environment(), next.Environment())
	}
	first.Drop()
	req := request(t, "GET", "https://a.example/", "", "X", next.Environment()["A"])
	if _, err := next.Apply(t.Context(), req, target("a.example", "/"), nil, time.Time{}); err != nil || req.Header.Get("X") != "one" {
		t.Errorf("after the old one was dropped: %v, %v", req.Header, err)
	}
	fork, err := credential.NewSet(creds, map[string]*credential.Value{"a": value(t, "one")})
	if err != nil || fork.Environment()["A"] == next.Environment()["A"] {
		t.Errorf("a fork has its parent's placeholder (%v)", err)
	}
	if _, err := credential.NewSet(creds, nil); !errors.Is(err, credential.ErrMissing) {
		t.Errorf("no value: %v", err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, next.Names()); diff != "" {
		t.Error(diff)
	}
}

// TestBranch: a set of a cell that begins with another one's memory knows its
// placeholders, and gives new ones to new commands. One that the other policy does not
// have is unknown.
func TestBranch(t *testing.T) {
	t.Parallel()
	creds := []policy.Credential{
		{Name: "a", Endpoints: at(t, "a.example", "/**"), ExposeAs: "A", ReplaceInHeaders: []string{"X"}}, {Name: "b", Endpoints: at(t, "b.example", "/**"), ExposeAs: "B"},
	}
	source, err := credential.NewSet(creds, map[string]*credential.Value{"a": value(t, "one"), "b": value(t, "two")})
	if err != nil {
		t.Fatal(err)
	}
	known := source.Environment()
	branch, err := source.Branch(creds[:1], nil)
	if err != nil || branch.Environment()["A"] == known["A"] {
		t.Fatalf("a branch has the placeholder of its source (%v)", err)
	}
	source.Drop()
	for _, placeholder := range []string{known["A"], branch.Environment()["A"]} {
		req := request(t, "GET", "https://a.example/", "", "X", placeholder)
		if _, err := branch.Apply(t.Context(), req, target("a.example", "/"), nil, time.Time{}); err != nil || req.Header.Get("X") != "one" {
			t.Errorf("%s: %v, %v", placeholder, req.Header, err)
		}
	}
	req := request(t, "GET", "https://a.example/", "", "X", known["B"])
	_, err = branch.Apply(t.Context(), req, target("a.example", "/"), nil, time.Time{})
	if _, ok := errors.AsType[*credential.MisuseError](err); !ok {
		t.Errorf("a credential that the branch does not have: %v", err)
	}
}
