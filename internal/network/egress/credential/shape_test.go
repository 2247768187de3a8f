package credential_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/policy"
)

const jwtLead = "eyJhbGciOiJSUzI1NiJ9.eyJleHAiOjE3MDAwMDAwMDB9."

// shapedSet makes a Set with one credential whose placeholder has a lead.
func shapedSet(t testing.TB, lead, secret string) (*credential.Set, string) {
	t.Helper()
	set, err := credential.NewSet([]policy.Credential{{Name: "a", Endpoints: at(t, "a.example", "/**"), ExposeAs: "A", ReplaceInHeaders: []string{"Authorization", "X-Token"}, ReplaceInQuery: []string{"k"}, ReplaceInBody: true}},
		map[string]*credential.Value{"a": value(t, secret)})
	if err != nil {
		t.Fatal(err)
	}
	placeholder, err := credential.NewPlaceholder(lead)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Shape(map[string]string{"a": placeholder}); err != nil {
		t.Fatal(err)
	}
	if got := set.Environment()["A"]; got != placeholder || !strings.HasPrefix(got, lead) {
		t.Fatalf("the cell sees %q", got)
	}
	return set, placeholder
}

func TestLeadIsReplaced(t *testing.T) {
	t.Parallel()
	const secret = "github_pat_REAL0123456789"
	for _, lead := range []string{"", "github_pat_", jwtLead} {
		set, placeholder := shapedSet(t, lead, secret)
		for _, streamed := range []bool{false, true} {
			req := request(t, "POST", "https://a.example/?k="+placeholder, `{"t":"`+placeholder+`","n":"x"}`, "Authorization", "Bearer "+placeholder)
			req.SetBasicAuth("me", placeholder)
			req.Header.Set("X-Token", "Bearer "+placeholder)
			req.Header.Set("Content-Type", "application/json")
			if streamed {
				req = stream(req)
				req.Body = io.NopCloser(iotest.OneByteReader(req.Body))
			}
			if _, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, time.Now()); err != nil {
				t.Fatal(err)
			}
			body, err := readBody(t, req)
			_, basic, _ := req.BasicAuth()
			if err != nil || body != `{"t":"`+secret+`","n":"x"}` || basic != secret || req.Header.Get("X-Token") != "Bearer "+secret || req.URL.RawQuery != "k="+secret {
				t.Errorf("lead %q, streamed %v: body %s, basic %q, header %q, query %s, %v", lead, streamed, body, basic, req.Header.Get("X-Token"), req.URL.RawQuery, err)
			}
		}
		// Elsewhere it is a misuse, with or without its lead.
		req := request(t, "GET", "https://b.example/", "", "X", placeholder)
		var misuse *credential.MisuseError
		if _, err := set.Apply(t.Context(), req, target("b.example", "/"), nil, time.Now()); !errors.As(err, &misuse) {
			t.Errorf("lead %q: %v", lead, err)
		}
	}
}

// TestStreamsInAnyPieces compares a body that arrives in random pieces with one that
// is replaced as a whole.
func TestStreamsInAnyPieces(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	set, placeholder := shapedSet(t, "sk-ant-", "REAL-value-0123")
	for range 300 {
		var text strings.Builder
		for range random.IntN(8) {
			text.WriteString([]string{placeholder, "sk-ant-", "sk-ant-fcph_", placeholder[7:], "fcph", "plain ", placeholder + placeholder}[random.IntN(7)])
		}
		want := strings.ReplaceAll(strings.ReplaceAll(text.String(), placeholder, "REAL-value-0123"), placeholder[7:], "REAL-value-0123")
		req := stream(request(t, "POST", "https://a.example/", text.String()+" "))
		pieces := io.Reader(req.Body)
		req.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) { return pieces.Read(p[:min(len(p), 1+random.IntN(20))]) }))
		if _, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, time.Now()); err != nil {
			t.Fatal(err)
		}
		if got, err := readBody(t, req); err != nil || got != want+" " {
			t.Fatalf("seed %d: %q became %q, want %q, %v", seed, text.String(), got, want, err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestShapeRefuses(t *testing.T) {
	t.Parallel()
	set, good := shapedSet(t, "x-", "REAL-value-0123")
	for _, bad := range []map[string]string{
		{"none": good}, {"a": ""}, {"a": "fcph_short"}, {"a": good + "x"}, {"a": "a b" + good}, {"a": good + good},
	} {
		if err := set.Shape(bad); !errors.Is(err, credential.ErrShape) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := credential.NewPlaceholder("a\"b"); err == nil {
		t.Error("a lead with a quotation mark")
	}
	if _, err := credential.NewPlaceholder(strings.Repeat("a", 9000)); err == nil {
		t.Error("a lead without bound")
	}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	set, placeholder := shapedSet(t, "eyJ.old.", "REAL-old-01234567")
	shown, err := set.Renew("a", value(t, "REAL-new-01234567"), "eyJ.new.")
	if err != nil || !strings.HasPrefix(shown, "eyJ.new.fcph_") || !set.Holds("a", shown) || !set.Holds("a", placeholder) {
		t.Fatalf("%q, %v", shown, err)
	}
	// The old form of the placeholder gets the new value too.
	for _, text := range []string{shown, placeholder} {
		req := request(t, "GET", "https://a.example/", "", "X-Token", text)
		if _, err := set.Apply(t.Context(), req, target("a.example", "/"), nil, time.Now()); err != nil || req.Header.Get("X-Token") != "REAL-new-01234567" {
			t.Errorf("%q: %q, %v", text, req.Header.Get("X-Token"), err)
		}
	}
	var known []string
	set.Reveal(func(_, v string) { known = append(known, v) })
	if len(known) != 2 {
		t.Errorf("values for redaction: %v", known)
	}
	if _, err := set.Renew("none", value(t, "x"), ""); err == nil {
		t.Error("a credential that does not exist")
	}
}

func TestLeadOf(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"eyJh.eyJi.c2ln": "eyJh.eyJi.", "sk-ant-x": "lead-", "eyJh.eyJi": "lead-", "eyJ h.x.y": "lead-", "a.b.c": "lead-",
	} {
		if got := credential.LeadOf(value, "lead-"); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func TestSourceInJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "auth#1.json")
	if err := os.WriteFile(file, []byte(`{"a": {"b": "REAL-value"}, "n": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(text string) (string, error) {
		s, err := credential.ParseSource(text)
		if err != nil {
			return "", err
		}
		v, err := credential.Reader{}.Read(t.Context(), s)
		if err != nil {
			return "", err
		}
		return string(v.HandOver()), nil
	}
	if got, err := read("json:" + file + "#a.b"); err != nil || got != "REAL-value" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"json:" + file + "#a", "json:" + file + "#n", "json:" + file + "#a.b.c", "json:x", "json:#a", "json:x#", "json:" + file + "x#a"} {
		if _, err := read(bad); err == nil || bytes.Contains([]byte(err.Error()), []byte("REAL")) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := read("json:" + file + "#a.b"); err == nil {
		t.Error("a file that others can read")
	}
}

// TestLoginIsShown: a placeholder of a login may stand in a request to a place of another
// token of the login. It is not replaced there, and may go nowhere else.
func TestLoginIsShown(t *testing.T) {
	t.Parallel()
	set, a, b := two(t, false)
	send := func(set *credential.Set, host, body string) (string, error) {
		req := request(t, "POST", "https://"+host+"/v1/x", body)
		if _, err := set.Apply(t.Context(), req, target(host, "/v1/x"), nil, signTime); err != nil {
			return "", err
		}
		return readBody(t, req)
	}
	if _, err := send(set, "b.example", a); err == nil {
		t.Error("a placeholder went to the place of another credential")
	}
	set.GroupLogin("a login", []string{"a", "b", "unknown"})
	next, err := set.Reload([]policy.Credential{
		{Name: "a", Endpoints: at(t, "a.example", "/**"), ExposeAs: "A_TOKEN"},
		{Name: "b", Endpoints: at(t, "b.example", "/v1/**"), ExposeAs: "B_TOKEN"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []*credential.Set{set, next} {
		if got, err := send(set, "b.example", a); err != nil || got != a {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := send(set, "c.example", b); err == nil {
			t.Error("a placeholder of a login went elsewhere")
		}
		// The body is the only part that may show it.
		for _, to := range []string{"a.example", "b.example"} {
			if _, err := set.Apply(t.Context(), request(t, "GET", "https://"+to+"/v1/x", "", "X-Shown", a), target(to, "/v1/x"), nil, signTime); err == nil {
				t.Errorf("a header of %s shows it", to)
			}
		}
	}
}
