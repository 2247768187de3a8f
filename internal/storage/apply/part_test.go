package apply

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// byHand copies and removes the selected entries one by one, as with mkdir -p,
// cp, rm and rmdir. It reports false if an entry would replace a directory that
// is not empty.
func byHand(from, to model, selected map[string]bool) (model, bool) {
	out, fine := from.clone(), true
	below := func(dir string) bool {
		return slices.ContainsFunc(out.paths(), func(p string) bool { return strings.HasPrefix(p, dir+"/") })
	}
	for _, p := range slices.Backward(from.paths()) {
		if _, stays := to[p]; !stays && selected[p] && !(from[p].Kind == tree.KindDir && below(p)) {
			delete(out, p)
		}
	}
	var put func(p string)
	put = func(p string) {
		if up := parentOf(p); up != "." && out[up].Kind != tree.KindDir {
			put(up)
		}
		if out[p].Kind == tree.KindDir && to[p].Kind != tree.KindDir && below(p) {
			fine = false
			return
		}
		out[p] = to[p]
	}
	for _, p := range to.paths() {
		if selected[p] && from[p] != to[p] {
			put(p)
		}
	}
	return out, fine
}

// A selected part of random changes equals copying by hand.
func TestPartIsCopyingByHand(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		from := tweak(rt, tweak(rt, model{}, "from"), "from")
		to := tweak(rt, tweak(rt, from, "to"), "to")
		selected := map[string]bool{}
		for _, p := range from.with(to).paths() {
			selected[p] = rapid.Bool().Draw(rt, p)
		}
		ops, conflicts, err := Part(t.Context(), from.tree(rt), to.tree(rt), ThreeWayOptions{Only: func(path string, _ bool) bool { return selected[path] }})
		check(rt, err)
		want, fine := byHand(from, to, selected)
		if fine != (len(conflicts) == 0) {
			rt.Fatalf("by hand it works: %v; conflicts: %v", fine, conflicts)
		}
		if !fine {
			return
		}
		got := from.clone()
		for _, op := range ops {
			delete(got, op.Path)
			if op.New != nil {
				got[op.Path] = to[op.Path]
			}
		}
		for _, p := range got.with(want).paths() {
			if got[p] != want[p] {
				rt.Fatalf("%q is %+v, by hand %+v\nfrom %v\nto %v\nselected %v", p, got[p], want[p], from, to, selected)
			}
		}
	})
}
