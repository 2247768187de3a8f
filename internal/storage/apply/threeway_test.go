package apply

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// sides is one merge of models.
type sides struct{ base, theirs, ours model }

func (s sides) merge(t tb, opt ThreeWayOptions) ([]Op, []string, []Conflict, []Choice) {
	t.Helper()
	opt.Names = func(path string) ([]string, error) {
		var names []string
		for _, p := range s.ours.paths() {
			if parentOf(p) == path {
				names = append(names, baseOf(p))
			}
		}
		return names, nil
	}
	ours := func(path string) (*tree.Entry, error) {
		if path == "." {
			e := dir().entry("")
			return &e, nil
		}
		return s.ours.entry(path), nil
	}
	ops, already, conflicts, chosen, err := ThreeWay(context.Background(), s.base.tree(t), s.theirs.tree(t), ours, opt)
	check(t, err)
	return ops, already, conflicts, chosen
}

func describe(ops []Op, already []string, conflicts []Conflict, chosen []Choice) string {
	var out []string
	for _, op := range ops {
		sign := "~"
		switch {
		case op.Old == nil:
			sign = "+"
		case op.New == nil:
			sign = "-"
		}
		out = append(out, sign+op.Path)
	}
	for _, p := range already {
		out = append(out, "="+p)
	}
	for _, c := range conflicts {
		out = append(out, "!"+c.Path)
	}
	for _, c := range chosen {
		out = append(out, string(c.Took)+":"+c.Path)
	}
	return strings.Join(out, " ")
}

func TestThreeWay(t *testing.T) {
	t.Parallel()
	base := model{
		"a": file("a"), "b": file("b"), "d": dir(), "d/x": file("x"), "d/s": dir(), "d/s/y": file("y"), "l": link("a"),
	}
	env := func(path string, _ bool) bool { return baseOf(path) == ".env" || baseOf(path) == ".ssh" }
	only := func(prefixes ...string) func(string, bool) bool {
		return func(path string, _ bool) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
		}
	}
	but := func(no string) func(string, bool) bool {
		return func(path string, _ bool) bool { return path != no }
	}
	for name, c := range map[string]struct {
		theirs, ours      model
		opt               ThreeWayOptions
		fail, mine, yours string // wanted with each OnConflict; empty: as with fail
	}{
		"nothing":                  {theirs: base, ours: base, fail: ""},
		"their edit":               {theirs: base.with(model{"a": file("A")}), ours: base, fail: "~a"},
		"our edit":                 {theirs: base, ours: base.with(model{"a": file("A")}), fail: ""},
		"same edit":                {theirs: base.with(model{"a": file("A")}), ours: base.with(model{"a": file("A").at(9)}), fail: "=a"},
		"both edit":                {theirs: base.with(model{"a": file("A")}), ours: base.with(model{"a": file("B")}), fail: "!a", mine: "ours:a", yours: "~a theirs:a"},
		"mode on one side":         {theirs: base.with(model{"a": file("a").mode(0o755)}), ours: base, fail: "~a"},
		"mode against edit":        {theirs: base.with(model{"a": file("a").mode(0o755)}), ours: base.with(model{"a": file("B")}), fail: "!a", mine: "ours:a", yours: "~a theirs:a"},
		"both add the same":        {theirs: base.with(model{"n": file("n")}), ours: base.with(model{"n": file("n")}), fail: "=n"},
		"both add":                 {theirs: base.with(model{"n": file("n")}), ours: base.with(model{"n": file("m")}), fail: "!n", mine: "ours:n", yours: "~n theirs:n"},
		"delete":                   {theirs: base.without("a"), ours: base, fail: "-a"},
		"both delete":              {theirs: base.without("a"), ours: base.without("a"), fail: "=a"},
		"delete against edit":      {theirs: base.without("a"), ours: base.with(model{"a": file("B")}), fail: "!a", mine: "ours:a", yours: "-a theirs:a"},
		"edit against delete":      {theirs: base.with(model{"a": file("A")}), ours: base.without("a"), fail: "!a", mine: "ours:a", yours: "+a theirs:a"},
		"delete a directory":       {theirs: base.without("d"), ours: base, fail: "-d -d/s -d/s/y -d/x"},
		"foreign in it":            {theirs: base.without("d"), ours: base.with(model{"d/s/f": file("f")}), fail: "-d/s/y -d/x !d/s", mine: "-d/s/y -d/x ours:d/s", yours: "-d -d/s -d/s/f -d/s/y -d/x theirs:d/s"},
		"foreign directory in it":  {theirs: base.without("d"), ours: base.with(model{"d/g": dir(), "d/g/h": file("h")}), fail: "-d/s -d/s/y -d/x !d", mine: "-d/s -d/s/y -d/x ours:d", yours: "-d -d/g -d/g/h -d/s -d/s/y -d/x theirs:d"},
		"edited in it":             {theirs: base.without("d"), ours: base.with(model{"d/x": file("X")}), fail: "-d/s -d/s/y !d/x", mine: "-d/s -d/s/y ours:d/x", yours: "-d -d/s -d/s/y -d/x theirs:d/x"},
		"left out in it":           {theirs: base.without("d"), ours: base.with(model{"d/.env": file("k")}), opt: ThreeWayOptions{LeftOut: env}, fail: "-d -d/s -d/s/y -d/x"},
		"file in its place":        {theirs: base.without("d").with(model{"d": file("D")}), ours: base, fail: "~d -d/s -d/s/y -d/x"},
		"file over left out":       {theirs: base.without("d").with(model{"d": file("D")}), ours: base.with(model{"d/.env": file("k")}), opt: ThreeWayOptions{LeftOut: env}, fail: "-d/s -d/s/y -d/x !d", mine: "-d/s -d/s/y -d/x ours:d", yours: "-d/s -d/s/y -d/x !d"},
		"file over foreign":        {theirs: base.without("d").with(model{"d": file("D")}), ours: base.with(model{"d/f": file("f")}), fail: "-d/s -d/s/y -d/x !d", mine: "-d/s -d/s/y -d/x ours:d", yours: "~d -d/f -d/s -d/s/y -d/x theirs:d"},
		"new in a lost directory":  {theirs: base.with(model{"d/s/n": file("n")}), ours: base.without("d"), fail: "!d/s/n", mine: "ours:d/s/n", yours: "+d +d/s +d/s/n theirs:d/s/n"},
		"new below a file":         {theirs: base.with(model{"d/n": file("n")}), ours: base.without("d").with(model{"d": file("D")}), fail: "!d/n", mine: "ours:d/n", yours: "~d +d/n theirs:d/n"},
		"new below a link":         {theirs: base.with(model{"d/n": file("n")}), ours: base.without("d").with(model{"d": link("/etc")}), fail: "!d/n", mine: "ours:d/n", yours: "~d +d/n theirs:d/n"},
		"new directory":            {theirs: base.with(model{"n": dir(), "n/m": dir(), "n/m/f": file("f")}), ours: base, fail: "+n +n/m +n/m/f"},
		"new directory over ours":  {theirs: base.with(model{"n": dir(), "n/f": file("f")}), ours: base.with(model{"n": file("n")}), fail: "!n", mine: "ours:n", yours: "~n +n/f theirs:n"},
		"directories merge":        {theirs: base.with(model{"n": dir(), "n/f": file("f")}), ours: base.with(model{"n": dir(), "n/g": file("g")}), fail: "+n/f =n"},
		"their file, our dir":      {theirs: base.with(model{"n": file("n")}), ours: base.with(model{"n": dir(), "n/g": file("g")}), fail: "!n", mine: "ours:n", yours: "~n -n/g theirs:n"},
		"mode of a directory":      {theirs: base.with(model{"d": dir().mode(0o700)}), ours: base.with(model{"d/n": file("n")}), fail: "~d"},
		"modes of a directory":     {theirs: base.with(model{"d": dir().mode(0o700), "d/x": file("X")}), ours: base.with(model{"d": dir().mode(0o711)}), fail: "~d/x !d", mine: "~d/x ours:d", yours: "~d ~d/x theirs:d"},
		"link retargeted":          {theirs: base.with(model{"l": link("b")}), ours: base, fail: "~l"},
		"kinds against each other": {theirs: base.with(model{"a": link("b")}), ours: base.with(model{"a": special(tree.KindFifo)}), fail: "!a", mine: "ours:a", yours: "~a theirs:a"},
		"new where left out":       {theirs: base.with(model{".env": file("new")}), ours: base.with(model{".env": file("key")}), opt: ThreeWayOptions{LeftOut: env}, fail: "!.env", mine: "ours:.env", yours: "!.env"},
		"directory where left out": {theirs: base.with(model{".ssh": dir(), ".ssh/config": file("c")}), ours: base.with(model{".ssh": dir(), ".ssh/id": file("k")}), opt: ThreeWayOptions{LeftOut: env}, fail: "!.ssh", mine: "ours:.ssh", yours: "!.ssh"},
		"only some":                {theirs: base.without("b", "d/s").with(model{"a": file("A"), "d/x": file("X")}), ours: base, opt: ThreeWayOptions{Only: only("d")}, fail: "-d/s -d/s/y ~d/x"},
		"only below a new one":     {theirs: base.with(model{"n": dir(), "n/m": dir(), "n/m/f": file("f"), "n/g": file("g")}), ours: base, opt: ThreeWayOptions{Only: only("n/m/f")}, fail: "+n +n/m +n/m/f"},
		"all but one in a dir":     {theirs: base.without("d"), ours: base, opt: ThreeWayOptions{Only: but("d/x")}, fail: "-d/s -d/s/y"},
		"all but one, replaced":    {theirs: base.without("d").with(model{"d": file("D")}), ours: base, opt: ThreeWayOptions{Only: but("d/x")}, fail: "-d/s -d/s/y !d", mine: "-d/s -d/s/y ours:d", yours: "-d/s -d/s/y !d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, want := range map[OnConflict]string{"": c.fail, Fail: c.fail, Ours: c.mine, Theirs: c.yours} {
				if want == "" {
					want = c.fail
				}
				opt := c.opt
				opt.OnConflict = how
				if got := describe(sides{base, c.theirs, c.ours}.merge(t, opt)); got != want {
					t.Errorf("on conflict %q:\n got %s\nwant %s", how, got, want)
				}
			}
		})
	}
}
