package match

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBothPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"/**", "/a/**", "/a/**"},
		{"/a/**", "/a", "/a"},
		{"/a/**", "/b/**", ""},
		{"/repos/*/issues/**", "/repos/me/**", "/repos/me/issues/**"},
		{"/a/*", "/*/b", "/a/b"},
		{"/a*/x", "/*b/x", "unclear"},
		{"/a/*", "/a/**", "/a/*"},
		{"/a", "/a/*", ""},
		{"/**/x", "/a/**", "unclear"},
		{"/**/x", "/a/y", ""},
		{"/**/x", "/**/y", ""},
		{"/**/x", "/a/b/x", "/a/b/x"},
		{"/a/**/x", "/b/**/x", ""},
	} {
		a, b := mustPath(t, c.a), mustPath(t, c.b)
		for _, pair := range [][2]Path{{a, b}, {b, a}} {
			got, some, err := pair[0].Both(pair[1])
			switch {
			case c.want == "unclear" && errors.Is(err, errUnclear):
			case err != nil || some != (c.want != "") || got.String() != c.want && some:
				t.Errorf("%s and %s: %q, %v, %v; want %q", pair[0], pair[1], got, some, err, c.want)
			}
		}
	}
}

func mustPath(t *testing.T, s string) Path {
	t.Helper()
	p, err := NewPath(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBothHosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"a.example.com", "*.example.com", "a.example.com"},
		{"*.example.com", "**.example.com", "*.example.com"},
		{"**.b.example.com", "**.example.com", "**.b.example.com"},
		{"*.*.example.com", "**.b.example.com", "*.b.example.com"},
		{"*.example.com", "**.b.example.com", ""},
		{"example.com", "**.example.com", ""},
		{"x*.example.com", "*y.example.com", "unclear"},
		{"x*.example.com", "y*.example.com", ""},
		{"192.0.2.1", "192.0.2.1", "192.0.2.1"},
		{"192.0.2.1", "192.0.2.2", ""},
		{"192.0.2.1", "a.example.com", ""},
		{"A.example.com", "a.EXAMPLE.com", "a.example.com"},
	} {
		a, err := NewHost(c.a)
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewHost(c.b)
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][2]Host{{a, b}, {b, a}} {
			got, some, err := pair[0].Both(pair[1])
			switch {
			case c.want == "unclear" && errors.Is(err, errUnclear):
			case err != nil || some != (c.want != "") || got.String() != c.want && some:
				t.Errorf("%s and %s: %q, %v, %v; want %q", pair[0], pair[1], got, some, err, c.want)
			}
		}
	}
}

// TestBoth compares the pattern of two with what each of them matches.
func TestBoth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.SampledFrom([]rune("ab*")), 1, 4, -1)
		plain := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 1, 4, -1)
		compare := func(kind string, err error, some bool, a, b, both func(string) bool, subject string) {
			if err != nil {
				return
			}
			if want := a(subject) && b(subject); want != (some && both(subject)) {
				t.Fatalf("%s: %q is matched by both: %v", kind, subject, want)
			}
		}

		x, err := NewText(word.Draw(t, "x"))
		if err != nil {
			t.Skip(err)
		}
		y, err := NewText(word.Draw(t, "y"))
		if err != nil {
			t.Skip(err)
		}
		z, some, err := x.Both(y)
		for _, s := range []string{plain.Draw(t, "text"), ""} {
			compare("text", err, some, x.Match, y.Match, z.Match, s)
		}

		pattern := func(name string) Path {
			segs := rapid.SliceOfN(rapid.OneOf(word, rapid.Just("**")), 0, 4).Draw(t, name)
			p, err := NewPath("/" + strings.Join(segs, "/"))
			if err != nil {
				t.Skip(err)
			}
			return p
		}
		p, q := pattern("p"), pattern("q")
		r, some, err := p.Both(q)
		for range 5 {
			path := "/" + strings.Join(rapid.SliceOfN(plain, 0, 5).Draw(t, "path"), "/")
			compare("path", err, some, p.Match, q.Match, r.Match, path)
		}

		host := func(name string) Host {
			labels := rapid.SliceOfN(rapid.SampledFrom([]string{"*", "a", "b", "a*", "*b", "**"}), 0, 3).Draw(t, name)
			h, err := NewHost(strings.Join(append(labels, "e", "com"), "."))
			if err != nil {
				t.Skip(err)
			}
			return h
		}
		g, h := host("g"), host("h")
		i, some, err := g.Both(h)
		for range 5 {
			name := strings.Join(append(rapid.SliceOfN(plain, 0, 4).Draw(t, "host"), "e", "com"), ".")
			compare("host", err, some, g.Match, h.Match, i.Match, name)
		}
	})
}

func TestBothMethods(t *testing.T) {
	t.Parallel()
	all := []string{"*", "GET", "HEAD", "POST", "PURGE"}
	for _, a := range all {
		for _, b := range all {
			x, y := Method{a}, Method{b}
			z, some, err := x.Both(y)
			for _, m := range all[1:] {
				if want := x.Match(m) && y.Match(m); err != nil || want != (some && z.Match(m)) {
					t.Errorf("%s and %s for %s: %v, %v", a, b, m, z, err)
				}
			}
		}
	}
}
