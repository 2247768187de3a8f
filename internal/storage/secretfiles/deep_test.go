package secretfiles

import (
	"strings"
	"testing"
)

// TestDeepPath: how long a name takes follows the number of its components, and not
// a power of it. A live directory is asked about each name of a deep tree.
func TestDeepPath(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("d/", 30_000)
	if _, yes := IsControlDir(deep + "d"); yes {
		t.Error("a plain directory is taken for a control file")
	}
	for pattern, want := range map[string]bool{
		"a/**/c": true, "a/**/b/c": true, "**/b/c": true, "a/**": true, "**/b/**/c": true, "a/**/x/c": false, "**/a": false, "a/**/a/b/c/d": false,
	} {
		parts := strings.Split(strings.Replace("a/"+deep+"b/c", "//", "/", 1), "/")
		if got := matchParts(globs(t, pattern), parts); got != want {
			t.Errorf("%s: %v", pattern, got)
		}
	}
	if !matchParts(globs(t, "a/**/b"), []string{"a", "b"}) || matchParts(globs(t, "a/**/a"), []string{"a"}) {
		t.Error("\"**\" stands for no directory, too")
	}
}

func globs(t *testing.T, pattern string) []glob {
	t.Helper()
	var all []glob
	for c := range strings.SplitSeq(pattern, "/") {
		g, err := newGlob(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	return all
}
