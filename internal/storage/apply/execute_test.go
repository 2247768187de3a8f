package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// start is a tree with every kind of entry.
func start() model {
	return model{
		"keep":          file("untouched").at(11),
		"edit":          file("one").at(12),
		"chmod":         file("same").at(13),
		"gone":          file("deleted").at(14).mode(0o600),
		"link":          link("keep"),
		"fifo":          special(tree.KindFifo),
		"sock":          special(tree.KindSocket),
		"d":             dir(),
		"d/x":           file("x").at(15).attr("on x"),
		"d/sub":         dir().mode(0o700),
		"d/sub/y":       file("y").at(16),
		"filetodir":     file("was a file").at(17),
		"dirtofile":     dir(),
		"dirtofile/a":   file("a").at(18),
		"dirtofile/b":   dir(),
		"dirtofile/b/c": link("../../keep"),
		"linktodir":     link("d"),
		"meta":          dir().mode(0o755),
		"meta/in":       file("in").at(19),
		"h1":            file("linked").at(20).group("h"),
		"h2":            file("linked").at(20).group("h"),
		"p1":            special(tree.KindFifo).group("p"),
		"p2":            special(tree.KindFifo).group("p"),
		"ro":            dir().mode(0o555),
		"ro/f":          file("f").at(21).mode(0o444),
		"rodir":         dir().mode(0o555),
		"rodir/f":       file("f").at(22),
		"n\xffme\n":     file("odd").at(23),
	}
}

// finish is the tree that start is changed to.
func finished() model {
	return start().without("gone", "d", "dirtofile", "fifo", "rodir", "n\xffme\n", "filetodir", "linktodir").with(model{
		"edit":          file("two").at(31).attr("new"),
		"chmod":         file("same").at(13).mode(0o755),
		"link":          link("/etc/../nowhere"),
		"fifo":          special(tree.KindSocket),
		"newfifo":       special(tree.KindFifo).mode(0o666),
		"dirtofile":     file("now a file").at(32),
		"filetodir":     dir().mode(0o555),
		"filetodir/p":   dir().mode(0),
		"filetodir/p/q": file("q").at(33).mode(0),
		"linktodir":     dir(),
		"linktodir/z":   link("z"),
		"meta":          dir().mode(0o711).attr("noted"),
		"new":           dir().mode(0o750),
		"new/\xfe":      file("").at(34),
		"h1":            file("relinked").at(35).group("h"),
		"h2":            file("relinked").at(35).group("h"),
		"h3":            file("relinked").at(35).group("h"),
		"p2":            special(tree.KindFifo).mode(0o640).group("p"),
		"p1":            special(tree.KindFifo).mode(0o640).group("p"),
		"s1":            special(tree.KindSocket).group("s"),
		"s2":            special(tree.KindSocket).group("s"),
		"ro/f":          file("g").at(36).mode(0o444),
		"ro/new":        dir(),
	})
}

func execute(t tb, p *place, from, to model, opt Options) (Report, error) {
	t.Helper()
	j, id := p.next(t)
	defer func() { _ = j.Close() }()
	return Execute(context.Background(), Plan{
		ID: id, Target: p.target, Ops: ops(from, to), Links: to.links(), Owners: os.Geteuid() == 0,
	}, to, j, opt)
}

func undo(t tb, p *place, of string, opt Options) (Report, error) {
	t.Helper()
	old := p.open(t, of)
	defer func() { _ = old.Close() }()
	plan, src, err := Inverse(old)
	check(t, err)
	j, id := p.next(t)
	defer func() { _ = j.Close() }()
	plan.ID = id
	return Execute(context.Background(), plan, src, j, opt)
}

func TestEveryKindOfChangeAndBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t, start())
	report, err := execute(t, p, start(), finished(), Options{})
	check(t, err)
	if !report.Committed || report.Applied == 0 || len(report.Kept) != 0 {
		t.Errorf("report: %+v", report)
	}
	same(t, "after the apply", p.target, finished())
	_, err = undo(t, p, "a1", Options{})
	check(t, err)
	same(t, "after the undo", p.target, start())
	_, err = undo(t, p, "a2", Options{})
	check(t, err)
	same(t, "after undoing the undo", p.target, finished())
}

func TestReadOnlyRoot(t *testing.T) {
	t.Parallel()
	p := newPlace(t, start())
	check(t, os.Chmod(p.target, 0o555))
	_, err := execute(t, p, start(), finished(), Options{})
	check(t, err)
	info, err := os.Stat(p.target)
	check(t, err)
	if info.Mode().Perm() != 0o555 {
		t.Errorf("mode %v", info.Mode())
	}
	same(t, "after the apply", p.target, finished())
}

// Every change between the check and the exchange is noticed, and nothing is
// lost.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meddle func(root string) error
		want   model
		path   string
	}{
		"edited, same size": {
			func(r string) error { return os.WriteFile(r+"/edit", []byte("ONE"), 0o644) },
			start().with(model{"edit": file("ONE")}), "edit",
		},
		"deleted": {
			func(r string) error { return os.Remove(r + "/edit") },
			start().without("edit"), "edit",
		},
		"appeared": {
			func(r string) error { return os.WriteFile(r+"/new", []byte("mine"), 0o640) },
			start().with(model{"new": file("mine").mode(0o640)}), "new",
		},
		"foreign file in a removed directory": {
			func(r string) error { return os.WriteFile(r+"/d/sub/mine", []byte("mine"), 0o640) },
			start().with(model{"d/sub/mine": file("mine").mode(0o640)}), "d/sub/mine",
		},
		"lost from a removed directory": {
			func(r string) error { return os.Remove(r + "/d/sub/y") },
			start().without("d/sub/y"), "d/sub",
		},
		"mode": {
			func(r string) error { return os.Chmod(r+"/gone", 0o640) },
			start().with(model{"gone": file("deleted").at(14).mode(0o640)}), "gone",
		},
		"link retargeted": {
			func(r string) error { return errors.Join(os.Remove(r+"/link"), os.Symlink("elsewhere", r+"/link")) },
			start().with(model{"link": link("elsewhere")}), "link",
		},
		"metadata of a directory": {
			func(r string) error { return os.Chmod(r+"/meta", 0o700) },
			start().with(model{"meta": dir().mode(0o700)}), "meta",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, start())
			_, err := execute(t, p, start(), finished(), Options{Hook: func(step string) error {
				if step == "apply.journalled" {
					return c.meddle(p.target)
				}
				return nil
			}})
			var conflicts *ConflictError
			if !errors.As(err, &conflicts) || conflicts.Conflicts[0].Path != c.path {
				t.Errorf("got %v", err)
			}
			want, got := c.want.plain(), read(t, p.target).plain()
			forgetTime(want, c.path)
			forgetTime(got, c.path)
			if len(want) != len(got) || want[c.path] != got[c.path] {
				t.Errorf("the other program's work: want %+v, got %+v", want[c.path], got[c.path])
			}
			delete(want, c.path)
			delete(got, c.path)
			for path := range want {
				if want[path] != got[path] {
					t.Errorf("%q: want %+v, got %+v", path, want[path], got[path])
				}
			}
			noStaging(t, p.target)
		})
	}
}

func forgetTime(m model, path string) {
	if x, ok := m[path]; ok {
		x.MTime = 0
		m[path] = x
	}
}

func noStaging(t tb, root string) {
	t.Helper()
	names, err := os.ReadDir(root)
	check(t, err)
	for _, n := range names {
		if strings.HasPrefix(n.Name(), stagingPrefix) {
			t.Errorf("%s is left", n.Name())
		}
	}
}

// Conflicts that are found in the first check leave no trace.
func TestRefusedBeforeAnything(t *testing.T) {
	t.Parallel()
	p := newPlace(t, start())
	check(t, os.WriteFile(filepath.Join(p.target, "edit"), []byte("other size"), 0o644))
	before, err := os.Stat(p.target)
	check(t, err)
	_, err = execute(t, p, start(), finished(), Options{})
	var conflicts *ConflictError
	if !errors.As(err, &conflicts) || conflicts.Conflicts[0].Path != "edit" {
		t.Errorf("got %v", err)
	}
	after, err := os.Stat(p.target)
	check(t, err)
	if !before.ModTime().Equal(after.ModTime()) {
		t.Error("the directory was touched")
	}
	left, err := os.ReadDir(filepath.Join(p.journal, "a1"))
	check(t, err)
	if len(left) != 0 {
		t.Errorf("the journal has %v", left)
	}
}

// After a failure at any step the target is as before or, after the commit, as
// planned.
func TestFailureAtEveryStep(t *testing.T) {
	t.Parallel()
	steps := 0
	p := newPlace(t, start())
	_, err := execute(t, p, start(), finished(), Options{Hook: func(string) error { steps++; return nil }})
	check(t, err)
	for n := range steps {
		p := quickPlace(t, start())
		times := dirTimes(t, p.target)
		left, at := n, ""
		report, err := execute(t, p, start(), finished(), Options{Hook: func(step string) error {
			if left--; left == -1 {
				at = step
				return unix.ENOSPC
			}
			return nil
		}})
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("step %d, %s: %v", n, at, err)
		}
		if errors.Is(err, ErrUnfinished) != report.Committed {
			t.Errorf("step %d, %s: committed is %v, and the error %v", n, at, report.Committed, err)
		}
		if report.Committed {
			j := p.open(t, "a1")
			back, err := Recover(context.Background(), p.target, j)
			_ = j.Close()
			if back || err != nil {
				t.Errorf("step %d, %s: recover: %v, %v", n, at, back, err)
			}
			same(t, at, p.target, finished())
			continue
		}
		noStaging(t, p.target)
		if got := dirTimes(t, p.target); got != times {
			t.Errorf("step %d, %s: times of directories:\n%swere:\n%s", n, at, got, times)
		}
		same(t, at, p.target, start())
	}
}

// dirTimes is a list of the directories' modification times.
func dirTimes(t tb, root string) string {
	t.Helper()
	var b strings.Builder
	d, err := fsx.OpenRoot(root)
	check(t, err)
	defer func() { _ = d.Close() }()
	for _, p := range []string{".", "d", "d/sub", "meta", "dirtofile", "ro", "rodir"} {
		info, err := d.Lstat(p)
		check(t, err)
		b.WriteString(p + " " + info.MTime.Time().String() + "\n")
	}
	return b.String()
}

func TestUntouchedDirectoriesKeepTheirTimes(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		m := model{"a": dir(), "a/f": file("1"), "b": dir(), "b/g": file("2")}
		p := newPlace(t, m)
		for _, d := range []string{"a", "b", "."} {
			ts := []unix.Timespec{{Sec: 50}, {Sec: 50, Nsec: 7}}
			check(t, unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(p.target, d), ts, 0))
		}
		to := m.with(model{"a/f": file("3"), "b": dir().at(70).mode(0o700), "a/n": dir().at(60)})
		_, err := execute(t, p, m, to, Options{KeepDirTimes: keep})
		check(t, err)
		d, err := fsx.OpenRoot(p.target)
		check(t, err)
		for path, want := range map[string]int64{".": 50, "b": map[bool]int64{false: 50, true: 70}[keep], "a/n": 60} {
			info, err := d.Lstat(path)
			check(t, err)
			if info.MTime.Sec != want {
				t.Errorf("keep %v: %s has time %d, want %d", keep, path, info.MTime.Sec, want)
			}
		}
		info, err := d.Lstat("a")
		check(t, err)
		if (info.MTime.Sec == 50) != keep {
			t.Errorf("keep %v: a has time %d", keep, info.MTime.Sec)
		}
		_ = d.Close()
	}
}

func TestBadPlans(t *testing.T) {
	t.Parallel()
	f, d := file("x").entry("x"), dir().entry("x")
	for name, bad := range map[string][]Op{
		"dots":     {{Path: "../x", New: &f}},
		"twice":    {{Path: "x", New: &f}, {Path: "x", New: &f}},
		"root":     {{Path: ".", Old: &d}},
		"below":    {{Path: "a", New: &f}, {Path: "a/b", New: &f}},
		"survives": {{Path: "a", Old: &d}, {Path: "a/b", Old: &f, New: &f}},
	} {
		p := newPlace(t, model{"a": dir(), "a/b": file("x")})
		j, id := p.next(t)
		_, err := Execute(context.Background(), Plan{ID: id, Target: p.target, Ops: bad}, model{}, j, Options{})
		_ = j.Close()
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	p := newPlace(t, model{})
	j, id := p.next(t)
	defer func() { _ = j.Close() }()
	_, err := Execute(context.Background(), Plan{ID: id, Target: p.target, Ops: []Op{{Path: "x", New: &f}}}, model{"x": file("other")}, j, Options{})
	if !errors.Is(err, errContents) {
		t.Errorf("wrong contents: %v", err)
	}
	same(t, "after wrong contents", p.target, model{})
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	j2, id := p.next(t)
	defer func() { _ = j2.Close() }()
	_, err = Execute(cancelled, Plan{ID: id, Target: p.target, Ops: []Op{{Path: "x", New: &f}}}, model{"x": file("x")}, j2, Options{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	same(t, "after the cancellation", p.target, model{})
	noStaging(t, p.target)
}
