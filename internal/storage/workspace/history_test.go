package workspace

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// drawn sends failures to rapid, which then looks for a shorter history.
type drawn struct {
	testing.TB
	rt *rapid.T
}

func (d drawn) Helper()                           {}
func (d drawn) Errorf(format string, args ...any) { d.rt.Errorf(format, args...) }
func (d drawn) Error(args ...any)                 { d.rt.Error(args...) }
func (d drawn) Fatalf(format string, args ...any) { d.rt.Fatalf(format, args...) }
func (d drawn) Fatal(args ...any)                 { d.rt.Fatal(args...) }

func drawPath(rt *rapid.T, label string) []byte {
	names := []string{"a", "b", ".wh.a", "\xff"}
	depth := rapid.IntRange(1, 3).Draw(rt, label+" depth")
	path := ""
	for i := range depth {
		path = join(path, rapid.SampledFrom(names).Draw(rt, fmt.Sprintf("%s %d", label, i)))
	}
	return []byte(path)
}

func drawAct(rt *rapid.T) act {
	a := act{
		Do: rapid.SampledFrom([]string{
			"write", "write", "append", "mkdir", "mkdir", "rm", "symlink", "link", "link", "mv", "mv", "fifo", "chmod", "mtime", "xattr", "sparse",
		}).Draw(rt, "do"),
		Path: drawPath(rt, "path"),
	}
	switch a.Do {
	case "write", "append":
		a.Data = p("%d", rapid.IntRange(0, 3).Draw(rt, "data"))
	case "sparse":
		a.N, a.Data = 1<<16, p("end")
	case "symlink", "link", "mv":
		a.To = drawPath(rt, "to")
	case "chmod":
		a.N = rapid.SampledFrom([]int64{0, 0o400, 0o644, 0o700, 0o755, 0o4711}).Draw(rt, "mode")
	case "mtime":
		a.N = int64(rapid.IntRange(1, 3).Draw(rt, "time"))
	case "xattr":
		a.To, a.Data = p("user.x"), p("%d", rapid.IntRange(0, 1).Draw(rt, "value"))
	}
	return a
}

// TestHistories plays random generations, also on older states. A state that
// was sealed step by step equals one that is computed from the bytes, and what
// the cell saw.
func TestHistories(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		b := w.c.Backend
		rapid.Check(t, func(rt *rapid.T) {
			w := newWorld(drawn{t, rt}, b)
			play(w.t, actorJob{Dir: w.src, Loose: true, Acts: rapid.SliceOfN(rapid.Custom(drawAct), 5, 25).Draw(rt, "source")})
			base, _ := w.imports()
			states := []Sealed{base}
			seen := [][]item{see(w.t, w.src)}
			for range rapid.IntRange(1, 4).Draw(rt, "generations") {
				at := len(states) - 1
				if b != BackendDelta {
					at = rapid.IntRange(0, at).Draw(rt, "on")
				}
				work := w.begin(w.c, states[at].Layer)
				now := w.loose(work, rapid.SliceOfN(rapid.Custom(drawAct), 0, 12).Draw(rt, "acts"))
				one := w.seal(work)
				same := len(diffItems(seen[at], now)) == 0
				if one.Unchanged && !same || !one.Unchanged && same && b != BackendOverlay {
					w.t.Errorf("unchanged: %v, but %q", one.Unchanged, diffItems(seen[at], now))
				}
				states, seen = append(states, one), append(seen, now)
			}
			for i := range states {
				w.check(fmt.Sprintf("state %d", i), states[i].Layer, seen[i])
			}
			last := len(states) - 1
			sq, err := w.s.Squash(t.Context(), w.c, states[last].Layer, w.op())
			w.must(err)
			if sq.Areas[AreaWorkspace] != states[last].Areas[AreaWorkspace] {
				w.t.Errorf("squash changed the roots")
			}
			w.check("squash", sq.Layer, seen[last])
			if b == BackendDelta {
				w.must(w.s.Switch(t.Context(), w.c, states[last].Layer, base.Layer, w.op()))
				sameItems(w.t, "switched", seen[0], see(w.t, w.src))
			}
		})
	})
}

// loose does what can be done.
func (w *world) loose(work *Work, acts []act) []item {
	w.t.Helper()
	job := w.job(work, "/w", acts)
	job.Loose = true
	return w.dropUnreliable(play(w.t, job))
}
