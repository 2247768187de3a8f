package apply

import (
	"testing"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// TestReasons: the reason of a conflict names what differs.
func TestReasons(t *testing.T) {
	t.Parallel()
	none := thing{}
	for name, c := range map[string]struct {
		base, theirs, ours thing
		undo, refresh      bool
		want               string
	}{
		"contents":   {base: none, theirs: file("one"), ours: file("two"), want: "was added on both sides, differently (contents)"},
		"size":       {base: file("a"), theirs: file("one"), ours: file("three"), want: "was changed on both sides, differently (contents)"},
		"mode":       {base: none, theirs: file("a").mode(0o755), ours: file("a").mode(0o444), want: "was added on both sides, differently (mode 0444 in the directory, 0755 in the cell)"},
		"attributes": {base: none, theirs: file("a").attr("x"), ours: file("a"), want: `was added on both sides, differently (attribute "user.note")`},
		"values":     {base: none, theirs: file("a").attr("x"), ours: file("a").attr("y").mode(0o600), want: `was added on both sides, differently (mode 0600 in the directory, 0644 in the cell; attribute "user.note")`},
		"type":       {base: none, theirs: link("a"), ours: special(tree.KindFifo), want: "was added on both sides, differently (type fifo in the directory, symlink in the cell)"},
		"device":     {base: none, theirs: file("a"), ours: thing{Mode: 0o640}, want: "was added on both sides, differently (type unknown in the directory, file in the cell)"},
		"target":     {base: none, theirs: link("a"), ours: link("b"), want: "was added on both sides, differently (target \"b\" in the directory, \"a\" in the cell)"},
		"deleted":    {base: file("a"), theirs: file("b"), ours: none, want: "was deleted in the directory and changed in the cell (contents)"},
		"refreshed":  {base: file("a"), theirs: file("b"), ours: none, refresh: true, want: "was deleted in the cell and changed in the directory (contents)"},
		"gone":       {base: file("a"), theirs: none, ours: file("a").mode(0o600), refresh: true, want: "was deleted in the directory and changed in the cell (mode 0644 before, 0600 now)"},
		"undo":       {base: file("one"), theirs: file("b"), ours: file("two"), undo: true, want: "was changed since the apply (contents)"},
		"undo added": {base: file("one"), theirs: none, ours: file("one").mode(0o600), undo: true, want: "was changed since the apply added it (mode 0644 then, 0600 now)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			side := func(x thing) model {
				if x == none {
					return model{}
				}
				return model{"p": x}
			}
			_, _, conflicts, _ := sides{side(c.base), side(c.theirs), side(c.ours)}.merge(t, ThreeWayOptions{Undo: c.undo, Refresh: c.refresh})
			if len(conflicts) != 1 || conflicts[0].Reason != c.want {
				t.Errorf("got %+v, want %q", conflicts, c.want)
			}
		})
	}
}
