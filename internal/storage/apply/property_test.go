package apply

import (
	"context"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// tweak makes a random valid tree out of another one by a few edits.
func tweak(t *rapid.T, m model, label string) model {
	m = m.clone()
	for i := range rapid.IntRange(0, 7).Draw(t, label+" edits") {
		dirs := []string{"."}
		for _, p := range m.paths() {
			if m[p].Kind == tree.KindDir {
				dirs = append(dirs, p)
			}
		}
		at := under(rapid.SampledFrom(dirs).Draw(t, "in"), rapid.SampledFrom([]string{"a", "b", "c-", "\xffd"}).Draw(t, "name"))
		old, there := m[at]
		switch rapid.IntRange(0, 7).Draw(t, "what") {
		case 0:
			m = m.without(at)
		case 1, 2:
			m = m.without(at)
			m[at] = dir().mode(rapid.SampledFrom([]uint32{0o755, 0o700, 0o555, 0o2750}).Draw(t, "mode"))
		case 3:
			m = m.without(at)
			m[at] = link(rapid.SampledFrom([]string{"a", "..", "/etc/passwd"}).Draw(t, "target"))
		case 4:
			m = m.without(at)
			m[at] = special(rapid.SampledFrom([]tree.Kind{tree.KindFifo, tree.KindSocket}).Draw(t, "kind"))
		case 5:
			if there && old.Kind != tree.KindSymlink && old.Kind != tree.KindFifo && old.Kind != tree.KindSocket {
				m[at] = old.attr(rapid.SampledFrom([]string{"", "note"}).Draw(t, "attribute"))
			}
		default:
			m = m.without(at)
			m[at] = file(rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, "text")).
				mode(rapid.SampledFrom([]uint32{0o644, 0o400, 0o755, 0}).Draw(t, "mode")).at(int64(100 + i))
		}
	}
	return m
}

// linked joins some equal files into hard-link groups.
func linked(t *rapid.T, m model) model {
	m = m.clone()
	first := map[thing]string{}
	for _, p := range m.paths() {
		x := m[p]
		if x.Kind != tree.KindFile || !rapid.Bool().Draw(t, "linked") {
			continue
		}
		key := x
		key.MTime = 0
		if first[key] == "" {
			first[key] = p
		}
		y := m[first[key]]
		y.Group = first[key]
		m[first[key]], m[p] = y, y
	}
	return m
}

func bare(x thing) thing {
	x.MTime, x.Group = 0, ""
	return x
}

// merged is the merge by the simplest rule, path by path, and whether it is
// valid: no conflict, and every path in a directory.
func merged(base, theirs, ours model) (model, bool) {
	out, fine := model{}, true
	for _, p := range base.with(theirs).with(ours).paths() {
		b, t, o := bare(base[p]), bare(theirs[p]), bare(ours[p])
		take := ours[p]
		switch {
		case t == b, t == o:
		case o == b:
			take = theirs[p]
		default:
			fine = false
		}
		if take.Kind != 0 {
			out[p] = take
		}
	}
	for p := range out {
		if up := parentOf(p); up != "." && out[up].Kind != tree.KindDir {
			fine = false
		}
	}
	return out, fine
}

// A merge of random trees equals the model, and its undo restores the tree
// before, byte for byte.
func TestMergeAndUndo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		base := tweak(rt, tweak(rt, model{}, "base"), "base")
		theirs, ours := tweak(rt, base, "theirs"), linked(rt, tweak(rt, base, "ours"))
		how := rapid.SampledFrom([]OnConflict{Fail, Ours, Theirs}).Draw(rt, "on conflict")
		top, err := quickDir()
		check(rt, err)
		defer func() { openUp(top); _ = os.RemoveAll(top) }()
		p := makePlace(rt, top, ours)
		root, err := fsx.OpenRoot(p.target)
		check(rt, err)
		defer func() { _ = root.Close() }()
		ops, _, conflicts, chosen, err := ThreeWay(t.Context(), base.tree(rt), theirs.tree(rt),
			func(path string) (*tree.Entry, error) { return Probe(context.Background(), root, path, nil) },
			ThreeWayOptions{OnConflict: how, Owners: os.Geteuid() == 0, Names: func(path string) ([]string, error) {
				d, err := root.OpenDir(path)
				if err != nil {
					return nil, err
				}
				defer func() { _ = d.Close() }()
				return d.Names()
			}})
		check(rt, err)
		want, fine := merged(base, theirs, ours)
		if fine != (len(conflicts)+len(chosen) == 0) {
			rt.Fatalf("the model says fine: %v; conflicts %v, chosen %v", fine, conflicts, chosen)
		}
		if len(conflicts) > 0 {
			if how != Fail {
				rt.Fatalf("on conflict %s: %v", how, conflicts)
			}
			return
		}
		j, id := p.next(rt)
		defer func() { _ = j.Close() }()
		_, err = Execute(context.Background(), Plan{ID: id, Target: p.target, Ops: ops, Owners: os.Geteuid() == 0}, theirs, j, Options{})
		check(rt, err)
		got := read(rt, p.target)
		noStaging(rt, p.target)
		if fine {
			same(rt, "merged", p.target, regrouped(want, got))
		}
		for _, c := range chosen {
			side := ours
			if c.Took == Theirs {
				side = theirs
			}
			if bare(side[c.Path]) != bare(got[c.Path]) {
				rt.Fatalf("%s was to be %s's", c.Path, c.Took)
			}
		}
		_, err = undo(rt, p, id, Options{})
		check(rt, err)
		same(rt, "undone", p.target, ours)
	})
}

// regrouped drops the groups of a model that the merge split: this model does
// not have which files are still one.
func regrouped(want, got model) model {
	want = want.clone()
	for p, x := range want {
		x.Group = got[p].Group
		want[p] = x
	}
	return want
}
