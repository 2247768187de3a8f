package workspacetest

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// drawn sends failures to rapid, which then looks for a shorter history.
type drawn struct {
	testing.TB
	rt *rapid.T
}

func (d drawn) Helper() {}

func (d drawn) Errorf(format string, args ...any) { d.rt.Errorf(format, args...) }

func (d drawn) Error(args ...any) { d.rt.Error(args...) }

func (d drawn) Fatalf(format string, args ...any) { d.rt.Fatalf(format, args...) }

func (d drawn) Fatal(args ...any) { d.rt.Fatal(args...) }

func drawPath(rt *rapid.T, label string) []byte {
	names := []string{"a", "b", ".wh.a", "\xff"}
	depth := rapid.IntRange(1, 3).Draw(rt, label+" depth")
	path := ""
	for i := range depth {
		path = strings.TrimPrefix(path+"/"+rapid.SampledFrom(names).Draw(rt, fmt.Sprintf("%s %d", label, i)), "/")
	}
	return []byte(path)
}

func drawAct(rt *rapid.T) Act {
	a := Act{
		Do: rapid.SampledFrom([]string{
			"write", "write", "append", "mkdir", "mkdir", "rm", "symlink", "link", "link", "mv", "mv", "fifo", "chmod", "mtime", "xattr", "sparse",
		}).Draw(rt, "do"),
		Path: drawPath(rt, "path"),
	}
	switch a.Do {
	case "write", "append":
		a.Data = Bytes("%d", rapid.IntRange(0, 3).Draw(rt, "data"))
	case "sparse":
		a.N, a.Data = 1<<16, Bytes("end")
	case "symlink", "link", "mv":
		a.To = drawPath(rt, "to")
	case "chmod":
		a.N = rapid.SampledFrom([]int64{0, 0o400, 0o644, 0o700, 0o755, 0o4711}).Draw(rt, "mode")
	case "mtime":
		a.N = int64(rapid.IntRange(1, 3).Draw(rt, "time"))
	case "xattr":
		a.To, a.Data = Bytes("user.x"), Bytes("%d", rapid.IntRange(0, 1).Draw(rt, "value"))
	}
	return a
}

// testHistories plays random generations, also on older states. A state that
// was sealed step by step equals one that is computed from the bytes, and what
// the cell saw.
func testHistories(t *testing.T, w *World) {
	b := w.Cell.Backend
	rapid.Check(t, func(rt *rapid.T) {
		w := w.another(drawn{t, rt})
		Play(w.T, Job{Dir: w.Source, Loose: true, Acts: rapid.SliceOfN(rapid.Custom(drawAct), 5, 25).Draw(rt, "source")})
		base, _ := w.Import()
		states := []workspace.Sealed{base}
		seen := [][]Item{See(w.T, w.Source)}
		for range rapid.IntRange(1, 4).Draw(rt, "generations") {
			at := len(states) - 1
			if b != workspace.BackendDelta {
				at = rapid.IntRange(0, at).Draw(rt, "on")
			}
			work := w.Begin(w.Cell, states[at].Layer)
			now := w.doLoosely(work, rapid.SliceOfN(rapid.Custom(drawAct), 0, 12).Draw(rt, "acts"))
			one := w.Seal(work)
			same := len(diffItems(seen[at], now)) == 0
			if one.Unchanged && !same || !one.Unchanged && same && b != workspace.BackendOverlay {
				w.T.Errorf("unchanged: %v, but %q", one.Unchanged, diffItems(seen[at], now))
			}
			states, seen = append(states, one), append(seen, now)
		}
		for i := range states {
			w.Check(fmt.Sprintf("state %d", i), states[i].Layer, seen[i])
		}
		last := len(states) - 1
		sq, err := w.Store.Squash(t.Context(), w.Cell, states[last].Layer, w.Op())
		w.Must(err)
		if sq.Areas[workspace.AreaWorkspace] != states[last].Areas[workspace.AreaWorkspace] {
			w.T.Errorf("squash changed the roots")
		}
		w.Check("squash", sq.Layer, seen[last])
		if b == workspace.BackendDelta {
			w.Must(w.Store.Switch(t.Context(), w.Cell, states[last].Layer, base.Layer, w.Op()))
			SameItems(w.T, "switched", seen[0], See(w.T, w.Source))
		}
	})
}

// doLoosely does what can be done.
func (w *World) doLoosely(work *workspace.Work, acts []Act) []Item {
	w.T.Helper()
	job := w.job(work, "/w", acts)
	job.Loose = true
	return w.dropUnreliable(Play(w.T, job))
}
