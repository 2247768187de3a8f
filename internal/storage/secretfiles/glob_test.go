package secretfiles

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestGlob compares a component with path.Match, which says what it means.
func TestGlob(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune(`aab*?\[]-é`)), 1, 8, -1).Draw(t, "pattern")
		name := rapid.StringOfN(rapid.SampledFrom([]rune(`aab*?\[]é`)), 1, 8, -1).Draw(t, "name")
		g, err := newGlob(text)
		want, bad := path.Match(text, name)
		if (err == nil) != (bad == nil) {
			t.Fatalf("%q: %v, %v", text, err, bad)
		}
		if err == nil && text != "**" && g.match(name) != want {
			t.Fatalf("%q matches %q: %v", text, name, !want)
		}
	})
}

// anyDepth is matchParts written as the rule says it.
func anyDepth(pat []glob, parts []string) bool {
	switch {
	case len(pat) == 0:
		return len(parts) == 0
	case !pat[0].deep:
		return len(parts) > 0 && pat[0].match(parts[0]) && anyDepth(pat[1:], parts[1:])
	case len(pat) == 1:
		return len(parts) > 0
	}
	for i := range len(parts) + 1 {
		if anyDepth(pat[1:], parts[i:]) {
			return true
		}
	}
	return false
}

func TestMatchParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "a*", "**", "**"}), 1, 7).Draw(t, "pattern")
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 1, 9).Draw(t, "path")
		var pat []glob
		for _, c := range pattern {
			g, err := newGlob(c)
			if err != nil {
				t.Fatal(err)
			}
			pat = append(pat, g)
		}
		if want := anyDepth(pat, parts); matchParts(pat, parts) != want {
			t.Fatalf("%q matches %q: %v", pattern, parts, !want)
		}
	})
}

// TestSlowPatterns ends at once unless a "**" tries places more than once.
func TestSlowPatterns(t *testing.T) {
	t.Parallel()
	parts := strings.Split(strings.Repeat("d/", 30_000)+"d", "/")
	if matchParts(globs(t, "**/d/**/d/**/d/**/*b"), parts) || matchParts(globs(t, "**/d/**/d/**/e/**/*d"), parts) {
		t.Error("matches")
	}
}

// TestRemembered: the answers do not depend on what was asked before.
func TestRemembered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"a", "b/", "/a/b", "!a", "!a/b", "**/a/b", "a/**/ab", "!ab"})
		opt := Options{
			NoDefaults: true, Extra: rapid.SliceOfN(line, 0, 3).Draw(t, "extra"),
			IgnoreFile: []byte(strings.Join(rapid.SliceOfN(line, 0, 3).Draw(t, "file"), "\n")),
		}
		r, err := New(opt)
		if err != nil {
			t.Fatal(err)
		}
		name := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 1, 5)
		for range 10 {
			path, dir := strings.Join(name.Draw(t, "path"), "/"), rapid.Bool().Draw(t, "dir")
			fresh, err := New(opt)
			if err != nil {
				t.Fatal(err)
			}
			rule, v := r.decide(path, dir)
			if want, w := fresh.decide(path, dir); rule != want || v != w {
				t.Fatalf("%s: %q, %v; asked alone: %q, %v", path, rule, v, want, w)
			}
		}
	})
}

// TestWork: too many wildcards are refused for a new cell, but a cell that has them
// stays usable.
func TestWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line          string
		fits, refused int // how many such lines; 0 is any number
	}{
		{"*.o", maxIgnoreRules, 0},
		{"[Dd]ebug/", maxIgnoreRules, 0},
		{"*a*b*c*", maxIgnoreRules, 0},
		{"*a*b*c*d*e*f*g*h*i*j*k*l*m*", 9000, maxIgnoreRules},
		{"*.py[co]", 500, 600},
		{"**/a/**/b", 1000, 1100},
		{"*" + strings.Repeat("?", 400), 10, 11},
	} {
		for n, want := range map[int]bool{c.fits: true, c.refused: false} {
			lines := slices.Repeat([]string{c.line}, n)
			for _, opt := range []Options{{IgnoreFile: []byte(strings.Join(lines, "\n"))}, {Extra: lines}} {
				r, err := New(opt)
				if err != nil {
					t.Fatal(err)
				}
				err = r.CheckNew()
				if n > 0 && (err == nil) != want || err != nil && !errors.Is(err, ErrPattern) {
					t.Errorf("%d times %.20s: %v", n, c.line, err)
				}
			}
		}
	}
}
