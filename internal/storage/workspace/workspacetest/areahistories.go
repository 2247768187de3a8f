package workspacetest

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// testAreaHistories plays random generations on an area.
func testAreaHistories(t *testing.T, w *World) {
	rapid.Check(t, func(rt *rapid.T) {
		w := w.another(drawn{t, rt})
		host := w.AddArea(rapid.SliceOfN(rapid.Custom(drawAct), 5, 25).Draw(rt, "host")...)
		base, _ := w.Import()
		states, seen := []workspace.Sealed{base}, [][]Item{See(w.T, host)}
		for range rapid.IntRange(1, 3).Draw(rt, "generations") {
			at := rapid.IntRange(0, len(states)-1).Draw(rt, "on")
			work := w.Begin(w.Cell, states[at].Layer)
			job := w.job(work, "/data", rapid.SliceOfN(rapid.Custom(drawAct), 0, 12).Draw(rt, "acts"))
			job.Loose = true
			now := w.dropUnreliable(Play(w.T, job))
			snap, err := work.Snapshot(t.Context(), w.Op())
			w.Must(err)
			one := w.Seal(work)
			if d := cmp.Diff(one.Areas, snap.Areas); d != "" || snap.Unchanged != one.Unchanged {
				w.T.Errorf("the snapshot is another state: %s", d)
			}
			w.Verify("snapshot", snap.Layer)
			states, seen = append(states, one), append(seen, now)
		}
		for i := range states {
			w.Verify("state", states[i].Layer)
			SameItems(w.T, "state", seen[i], w.AreaSeen(states[i].Layer))
			for j := range states {
				w.areaDiff(states[i], states[j], seen[i], seen[j])
			}
		}
		last := len(states) - 1
		sq, err := w.Store.Squash(t.Context(), w.Cell, states[last].Layer, w.Op())
		w.Must(err)
		w.Verify("squash", sq.Layer)
		SameItems(w.T, "squash", seen[last], w.AreaSeen(sq.Layer))
		SameItems(w.T, "host", seen[0], See(w.T, host))
	})
}

// areaDiff compares the diff of an area's changes with what was seen.
func (w *World) areaDiff(from, to workspace.Sealed, was, is []Item) {
	w.T.Helper()
	if w.Cell.Backend != workspace.BackendOverlay {
		return
	}
	var trees [2]*tree.Tree
	for i, s := range []workspace.Sealed{from, to} {
		m, err := w.Store.Manifest(s.Layer)
		w.Must(err)
		trees[i], _ = m.Area(DataArea)
	}
	changes, err := tree.Diff(trees[0], trees[1], tree.DiffOptions{})
	w.Must(err)
	old, now := byPath(was), byPath(is)
	listed := map[string]tree.Change{}
	for _, c := range changes {
		listed[c.Path] = c
		_, a := old[c.Path]
		_, b := now[c.Path]
		switch {
		case (c.Kind == tree.Added) != (!a && b), (c.Kind == tree.Deleted) != (a && !b), !a && !b:
			w.T.Errorf("%q is said to be %s: %q, %q", c.Path, c.Kind, old[c.Path], now[c.Path])
		case a && b && old[c.Path] == now[c.Path] && !(c.New.Kind == tree.KindDir && c.New.Opaque != c.Old.Opaque):
			w.T.Errorf("%q is said to be %s, but is as it was: %q", c.Path, c.Kind, now[c.Path])
		}
	}
	for _, it := range slices.Concat(was, is) {
		path := string(it.Path)
		if old[path] != now[path] && !isListed(listed, path) {
			w.T.Errorf("%q is not listed: %q, %q", path, old[path], now[path])
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
func byPath(items []Item) map[string]string {
	m := map[string]string{}
	for _, it := range items {
		before, after, _ := strings.Cut(it.Text, " mtime=")
		_, after, _ = strings.Cut(after, " ")
		m[string(it.Path)] = before + " " + after + " " + it.Sum
	}
	return m
}
