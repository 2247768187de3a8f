package match_test

import (
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/policy/match"
)

// fuzz checks that a pattern survives being written and compiled again.
func fuzz(f *testing.F, name string) {
	compile := compilers()[name]
	for _, s := range [][2]string{{"*", "a"}, {"/**/a", "/a"}, {"**.a.b", "x.a.b"}, {"GET", "HEAD"}, {"[::1]", "::1"}, {"", ""}, {"a*b", "ab"}, {"\xff", "\xff"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		m, err := compile(pattern)
		if err != nil {
			return
		}
		again, err := compile(m.String())
		if err != nil || again.String() != m.String() {
			t.Fatalf("%q becomes %q, then %v, %v", pattern, m, again, err)
		}
		if m.Match(s) != again.Match(s) {
			t.Fatalf("%q and %q differ on %q", pattern, m, s)
		}
	})
}

func FuzzMatchHost(f *testing.F)   { fuzz(f, "host") }
func FuzzMatchPath(f *testing.F)   { fuzz(f, "path") }
func FuzzMatchText(f *testing.F)   { fuzz(f, "text") }
func FuzzMatchMethod(f *testing.F) { fuzz(f, "method") }

// A canonical path is its own canonical form, and leads nowhere else.
func FuzzURLPath(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/%2e%2e/", "/a;x/%2F", "//", "/%25%32%65", "/%c0%ae", "/%5c"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, raw string, slash bool) {
		canon, err := match.URLPath(raw, slash)
		if err != nil {
			return
		}
		again, err := match.URLPath(canon, slash)
		if err != nil || again != canon {
			t.Fatalf("%q becomes %q, then %q, %v", raw, canon, again, err)
		}
		for s := range strings.SplitSeq(canon, "/") {
			if s == "." || s == ".." {
				t.Fatalf("%q becomes %q", raw, canon)
			}
		}
		if strings.Contains(canon, "//") || !slash && (strings.Contains(canon, "%2F") || strings.Contains(canon, "%5C")) {
			t.Fatalf("%q becomes %q", raw, canon)
		}
		if low := strings.ToLower(canon); strings.Contains(low, "%252e") || strings.Contains(low, "%252f") || strings.Contains(low, "%255c") || strings.Contains(low, "%c0") {
			t.Fatalf("%q becomes %q", raw, canon)
		}
	})
}
