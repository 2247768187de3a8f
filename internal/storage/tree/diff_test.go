package tree

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func trees(t *testing.T, was, is model, lw, li Links) (*Tree, *Tree) {
	t.Helper()
	s := store{}
	w := s.writer(t, "was")
	a := s.finish(t, w, was.build(t, w), lw)
	w = s.writer(t, "is")
	return a, s.finish(t, w, is.build(t, w), li)
}

func TestDiff(t *testing.T) {
	t.Parallel()
	was, is := newModel(), newModel()
	dir := Entry{Kind: KindDir, Mode: 0o755}
	for _, m := range []model{was, is} {
		m.put("same", file("same"))
		m.put("d", dir)
		m.put("d/same", file("same"))
	}
	root := is["."]
	root.Mode = 0o700
	is["."] = root
	was.put("gone", dir)
	was.put("gone/sub", dir)
	was.put("gone/sub/f", file("unique"))
	is.put("new", dir)
	is.put("new/f", file(""))
	was.put("content", file("1"))
	both := file("2")
	both.Mode, both.UID = 0o600, 7
	is.put("content", both)
	was.put("turned", dir)
	was.put("turned/below", file("b"))
	is.put("turned", file("f"))
	was.put("time", file("t"))
	later := file("t")
	later.MTime.Sec++
	is.put("time", later)
	a, b := trees(t, was, is, Links{}, Links{})

	list := func(opt DiffOptions) (got []string) {
		changes, err := Diff(a, b, opt)
		for _, c := range must(t, changes, err) {
			got = append(got, fmt.Sprint(c.Path, " ", c.Kind, " ", c.Also, " ", c.MetaOnly))
		}
		return got
	}
	want := []string{
		". mode [] true",
		"content modified [mode owner] false",
		"gone deleted [] false",
		"gone/sub deleted [] false",
		"gone/sub/f deleted [] false",
		"new added [] false",
		"new/f added [] false",
		"turned type [mode] false",
		"turned/below deleted [] false",
	}
	if d := cmp.Diff(want, list(DiffOptions{})); d != "" {
		t.Error(d)
	}
	timed := append([]string{}, want[:5]...)
	timed = append(timed, want[5], want[6], "time mtime [] true", "turned type [mode mtime] false", want[8])
	if d := cmp.Diff(timed, list(DiffOptions{MTimes: true})); d != "" {
		t.Error(d)
	}
}

func TestRenames(t *testing.T) {
	t.Parallel()
	was, is := newModel(), newModel()
	dir := Entry{Kind: KindDir, Mode: 0o755}
	for _, m := range []model{was, is} {
		m.put("x", dir)
		m.put("y", dir)
		m.put("kept", file("one"))
	}
	was.put("a", file("one"))
	was.put("x/name", file("one"))
	was.put("empty", file(""))
	was.put("lonely", file("two"))
	was.put("link", Entry{Kind: KindSymlink, Target: "t"})
	is.put("aa", file("one"))
	moved := file("one")
	moved.Mode = 0o755
	is.put("y/name", moved)
	is.put("z", file("one"))
	is.put("empty2", file(""))
	is.put("link2", Entry{Kind: KindSymlink, Target: "t"})
	a, b := trees(t, was, is, Links{}, Links{})
	changes, err := Diff(a, b, DiffOptions{Renames: true})
	var got []string
	for _, c := range must(t, changes, err) {
		got = append(got, fmt.Sprint(c.OldPath, ">", c.Path, " ", c.Kind, " ", c.Also))
		if c.Kind == Renamed && (c.Old == nil || c.New == nil || c.MetaOnly) {
			t.Errorf("%+v", c)
		}
	}
	want := []string{
		"a>aa renamed []",
		">empty deleted []",
		">empty2 added []",
		">link deleted []",
		">link2 added []",
		">lonely deleted []",
		"x/name>y/name renamed [mode]",
		">z added []",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	was, is := small(), small()
	is.remove("empty")
	is.put("extra", file("x"))
	is.put("a", file("other"))
	e := is["dir/link"]
	e.Target = "elsewhere"
	is.put("dir/link", e)
	e = is["dir/\xff\n"]
	e.Xattrs, e.MTime.Sec, e.GID, e.Mode = nil, 1, 5, 0
	is.put("dir/\xff\n", e)
	is.put("dir/fifo", file("1"))
	a, b := trees(t, was, is, smallLinks(), Links{Groups: [][]string{{"dir/fifo", "extra"}}})
	all, err := Compare(a, b)
	got := map[string][]string{}
	for _, d := range must(t, all, err) {
		got[d.Path] = d.What
		if (d.Want == nil) != (d.What[0] == "unexpected") || (d.Got == nil) != (d.What[0] == "missing") {
			t.Errorf("%+v", d)
		}
	}
	want := map[string][]string{
		"a":          {"content", "hard links"},
		"dir/fifo":   {"type", "mode", "mtime", "hard links"},
		"dir/link":   {"target"},
		"dir/\xff\n": {"mode", "owner", "xattrs", "mtime"},
		"empty":      {"missing"},
		"extra":      {"unexpected"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	a, b = trees(t, was, was, smallLinks(), Links{})
	all, err = Compare(a, b)
	if must(t, all, err); len(all) != 1 || all[0].Path != "a" || all[0].Want == nil || all[0].Got == nil {
		t.Errorf("%+v", all)
	}
}

// TestDiffWideMemory: to compare a wide directory takes memory for each of its names
// once. Other tests would count, so it does not run beside them.
func TestDiffWideMemory(t *testing.T) {
	const names = 20_000
	s := store{}
	w := s.writer(t, "one")
	tr := s.finish(t, w, wide(names).build(t, w), Links{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	err := DiffFunc(nil, tr, DiffOptions{}, func(Change) error { n++; return nil })
	runtime.ReadMemStats(&after)
	if err != nil || n < names {
		t.Fatal(n, err)
	}
	// An entry has 320 bytes; the rest is what it is read from, and its path.
	if each := (after.TotalAlloc - before.TotalAlloc) / names; each > 1500 {
		t.Errorf("%d bytes for each name", each)
	}
}
