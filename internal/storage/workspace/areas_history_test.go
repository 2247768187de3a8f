package workspace

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// TestAreaHistories plays random generations on an area.
func TestAreaHistories(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		b := w.c.Backend
		rapid.Check(t, func(rt *rapid.T) {
			w := newWorld(drawn{t, rt}, b)
			host := w.withArea(rapid.SliceOfN(rapid.Custom(drawAct), 5, 25).Draw(rt, "host")...)
			base, _ := w.imports()
			states, seen := []Sealed{base}, [][]item{see(w.t, host)}
			for range rapid.IntRange(1, 3).Draw(rt, "generations") {
				at := rapid.IntRange(0, len(states)-1).Draw(rt, "on")
				work := w.begin(w.c, states[at].Layer)
				job := w.job(work, "/data", rapid.SliceOfN(rapid.Custom(drawAct), 0, 12).Draw(rt, "acts"))
				job.Loose = true
				now := w.dropUnreliable(play(w.t, job))
				snap, err := work.Snapshot(t.Context(), w.op())
				w.must(err)
				one := w.seal(work)
				if d := cmp.Diff(one.Areas, snap.Areas); d != "" || snap.Unchanged != one.Unchanged {
					w.t.Errorf("the snapshot is another state: %s", d)
				}
				w.verify("snapshot", snap.Layer)
				states, seen = append(states, one), append(seen, now)
			}
			for i := range states {
				w.verify("state", states[i].Layer)
				sameItems(w.t, "state", seen[i], w.areaSeen(states[i].Layer))
				for j := range states {
					w.areaDiff(states[i], states[j], seen[i], seen[j])
				}
			}
			last := len(states) - 1
			sq, err := w.s.Squash(t.Context(), w.c, states[last].Layer, w.op())
			w.must(err)
			w.verify("squash", sq.Layer)
			sameItems(w.t, "squash", seen[last], w.areaSeen(sq.Layer))
			sameItems(w.t, "host", seen[0], see(w.t, host))
		})
	})
}

// areaDiff compares the diff of an area's changes with what was seen.
func (w *world) areaDiff(from, to Sealed, was, is []item) {
	w.t.Helper()
	if w.c.Backend != BackendOverlay {
		return
	}
	var trees [2]*tree.Tree
	for i, s := range []Sealed{from, to} {
		m, err := w.s.Manifest(s.Layer)
		w.must(err)
		trees[i], _ = m.Area(dataArea)
	}
	changes, err := tree.Diff(trees[0], trees[1], tree.DiffOptions{})
	w.must(err)
	old, now := byPath(was), byPath(is)
	listed := map[string]tree.Change{}
	for _, c := range changes {
		listed[c.Path] = c
		_, a := old[c.Path]
		_, b := now[c.Path]
		switch {
		case (c.Kind == tree.Added) != (!a && b), (c.Kind == tree.Deleted) != (a && !b), !a && !b:
			w.t.Errorf("%q is said to be %s: %q, %q", c.Path, c.Kind, old[c.Path], now[c.Path])
		case a && b && old[c.Path] == now[c.Path] && !(c.New.Kind == tree.KindDir && c.New.Opaque != c.Old.Opaque):
			w.t.Errorf("%q is said to be %s, but is as it was: %q", c.Path, c.Kind, now[c.Path])
		}
	}
	for _, it := range slices.Concat(was, is) {
		path := string(it.Path)
		if old[path] != now[path] && !isListed(listed, path) {
			w.t.Errorf("%q is not listed: %q, %q", path, old[path], now[path])
		}
	}
}

// isListed reports whether a diff lists a path, or a directory of the host that came
// or went with it.
func isListed(listed map[string]tree.Change, p string) bool {
	if _, ok := listed[p]; ok {
		return true
	}
	for p != "." {
		p = path.Dir(p)
		c, ok := listed[p]
		switch {
		case !ok:
		case c.Kind == tree.Added, c.Kind == tree.Deleted, c.Kind == tree.TypeChanged, c.Old.Opaque, c.New.Opaque:
			return true
		}
	}
	return false
}

// byPath is what is compared without times: contents, mode, owner, attributes.
func byPath(items []item) map[string]string {
	m := map[string]string{}
	for _, it := range items {
		before, after, _ := strings.Cut(it.Text, " mtime=")
		_, after, _ = strings.Cut(after, " ")
		m[string(it.Path)] = before + " " + after + " " + it.Sum
	}
	return m
}
