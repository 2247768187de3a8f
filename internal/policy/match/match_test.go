package match_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/policy/match"
)

type matcher interface {
	Match(string) bool
	fmt.Stringer
}

// compilers are the kinds of patterns, by the name of their golden table.
func compilers() map[string]func(string) (matcher, error) {
	return map[string]func(string) (matcher, error){
		"host":   func(p string) (matcher, error) { return match.NewHost(p) },
		"path":   func(p string) (matcher, error) { return match.NewPath(p) },
		"text":   func(p string) (matcher, error) { return match.NewText(p) },
		"method": func(p string) (matcher, error) { return match.NewMethod(p) },
	}
}

// rows reads a golden table.
func rows(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out [][]string
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		cells := strings.Split(s.Text(), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		out = append(out, cells)
	}
	if len(out) == 0 {
		t.Fatalf("%s has no rows", name)
	}
	return out
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, compile := range compilers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, row := range rows(t, name) {
				m, err := compile(row[0])
				if row[1] == "error" {
					if err == nil || !strings.Contains(err.Error(), row[2]) {
						t.Errorf("%q: error %v, want one with %q", row[0], err, row[2])
					}
					continue
				}
				if err != nil {
					t.Errorf("%q: %v", row[0], err)
					continue
				}
				if got := m.Match(row[1]); got != (row[2] == "yes") {
					t.Errorf("%q matches %q: %v, want %s", row[0], row[1], got, row[2])
				}
			}
		})
	}
}

func TestURLPath(t *testing.T) {
	t.Parallel()
	for _, row := range rows(t, "url") {
		got, err := match.URLPath(row[0], false)
		if row[1] == "error" {
			if err == nil || !strings.Contains(err.Error(), row[2]) {
				t.Errorf("%q: %q, error %v, want one with %q", row[0], got, err, row[2])
			}
			continue
		}
		if err != nil || got != row[1] {
			t.Errorf("%q = %q, %v, want %q", row[0], got, err, row[1])
		}
	}
	if got, err := match.URLPath("/a%2f..a%2Fb/c", true); err != nil || got != "/a%2F..a%2Fb/c" {
		t.Errorf("an encoded slash is opaque where it is allowed: %q, %v", got, err)
	}
	if got, err := match.URLPath("/a%5c..a%5Cb/c", true); err != nil || got != "/a%5C..a%5Cb/c" {
		t.Errorf("an encoded backslash is opaque where it is allowed: %q, %v", got, err)
	}
	for _, p := range []string{"/a%252fb", "/a%255cb", "/%252e%252e/b", "/%c0%af", "/a%2f%c0%ae"} {
		if got, err := match.URLPath(p, true); err == nil {
			t.Errorf("%q = %q although allow_encoded_slash is for single encodings only", p, got)
		}
	}
	for _, p := range []string{"/a/..%2fb", "/a/b%2f..", "/a%5c.%2fb", "/a%2f%2e%2e%5cb", "/a%2f..;x", "/a/..;x%2fb"} {
		if got, err := match.URLPath(p, true); !errors.Is(err, match.ErrEncodedDots) {
			t.Errorf("%q = %q, %v: a server that decodes it goes up", p, got, err)
		}
	}
	if _, err := match.URLPath("/"+strings.Repeat("a", match.MaxPattern), false); err == nil {
		t.Error("a path over 4 KiB has a canonical form")
	}
	for _, p := range []string{"/a%2fb", "/a%61", "/a;x", "/a/%2e%2e/b", "/a b"} {
		if _, err := match.NewURLPath(p, true); err == nil {
			t.Errorf("NewURLPath(%q): a pattern that no request can match is accepted", p)
		}
	}
}

func TestDecoded(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/a": "", "/100%25": "", "/a%25zz": "", "/%2541": "/A", "/%252541": "/%2541", "/%2540x/%2561": "/%40x/a", "/a%2Fb%2562": "/a%2Fbb",
	} {
		if got := match.Decoded(path); got != want {
			t.Errorf("%q = %q, want %q", path, got, want)
		}
	}
}

func TestCheckMethod(t *testing.T) {
	t.Parallel()
	for m, ok := range map[string]bool{"GET": true, "get": false, "Post": false, "propfind": true, "": false, "A B": false} {
		if err := match.CheckMethod(m); (err == nil) != ok {
			t.Errorf("CheckMethod(%q) = %v", m, err)
		}
	}
}

func TestBinary(t *testing.T) {
	t.Parallel()
	for p, ok := range map[string]bool{"/usr/bin/curl": true, "/**": true, "/usr/bin/": false, "/": false, "curl": false} {
		if _, err := match.NewBinary(p); (err == nil) != ok {
			t.Errorf("NewBinary(%q): %v", p, err)
		}
	}
}

func TestZero(t *testing.T) {
	t.Parallel()
	if (match.Host{}).Match("a.b") || (match.Path{}).Match("/") || (match.Method{}).Match("GET") || (match.Text{}).Match("x") {
		t.Error("a pattern that was never compiled matches")
	}
}

// Patterns that make backtracking matchers explode are matched at once.
func TestNoExplosion(t *testing.T) {
	t.Parallel()
	stars, err := match.NewText(strings.Repeat("*a", 1000) + "*b")
	if err != nil {
		t.Fatal(err)
	}
	if stars.Match(strings.Repeat("a", 1_000_000)) {
		t.Error("matches")
	}
	deep, err := match.NewPath(strings.Repeat("/**/a", 31) + "/**/b")
	if err != nil {
		t.Fatal(err)
	}
	if deep.Match(strings.Repeat("/a", 100_000)) {
		t.Error("matches")
	}
}

// slow is the model of "*": all splits are tried.
func slow(pattern, s string) bool {
	switch {
	case pattern == "":
		return s == ""
	case pattern[0] == '*':
		return slow(pattern[1:], s) || s != "" && slow(pattern, s[1:])
	}
	return s != "" && s[0] == pattern[0] && slow(pattern[1:], s[1:])
}

// slowPath is the model of "**" over segments.
func slowPath(pattern, names []string) bool {
	switch {
	case len(pattern) == 0:
		return len(names) == 0
	case pattern[0] == "**":
		return slowPath(pattern[1:], names) || len(names) > 0 && slowPath(pattern, names[1:])
	}
	return len(names) > 0 && (pattern[0] != "*" || names[0] != "") && slow(pattern[0], names[0]) && slowPath(pattern[1:], names[1:])
}

// slowHost is the model of hosts.
func slowHost(pattern, host string) bool {
	p, h := strings.Split(pattern, "."), strings.Split(host, ".")
	if p[0] == "**" {
		if len(h) < len(p) {
			return false
		}
		p, h = p[1:], h[len(h)-len(p)+1:]
	}
	if len(p) != len(h) {
		return false
	}
	for i := range p {
		if !slow(p[i], h[i]) {
			return false
		}
	}
	return true
}

func TestTextModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.StringMatching(`[ab*]{0,8}`).Draw(t, "pattern")
		s := rapid.StringMatching(`[ab]{0,8}`).Draw(t, "text")
		m, err := match.NewText(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match(s); got != slow(p, s) {
			t.Fatalf("%q matches %q: %v", p, s, got)
		}
	})
}

func TestPathModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"**", "*", "a", "b", "a*", "*b", "a*b"}), 0, 6).Draw(t, "pattern")
		path := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "aab"}), 0, 7).Draw(t, "path")
		m, err := match.NewPath("/" + strings.Join(names, "/"))
		if err != nil {
			if strings.Contains(strings.Join(names, "/"), "**/**") {
				return
			}
			t.Fatal(err)
		}
		if got := m.Match("/" + strings.Join(path, "/")); got != slowPath(names, path) {
			t.Fatalf("%q matches %q: %v", names, path, got)
		}
	})
}

func TestHostModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]string{"**", "*", "a", "a*", "*b"}).Draw(t, "first")
		middle := rapid.SliceOfN(rapid.SampledFrom([]string{"*", "a", "b"}), 0, 2).Draw(t, "middle")
		pattern := strings.Join(append(append([]string{first}, middle...), "x", "org"), ".")
		host := strings.Join(append(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 0, 5).Draw(t, "host"), "x", "org"), ".")
		m, err := match.NewHost(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match(host); got != slowHost(pattern, host) {
			t.Fatalf("%q matches %q: %v", pattern, host, got)
		}
		if m.Match(strings.ToUpper(host)) != m.Match(host) {
			t.Fatalf("%q tells %q by case", pattern, host)
		}
	})
}
