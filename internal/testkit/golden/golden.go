// Package golden compares what tests compute with what is kept in files: generated parts
// of the documentation, and archives of inputs with their results. It knows nothing of
// what is tested.
package golden

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// Part compares the part of a page that is called name with want. With update it writes
// the part anew instead. Two comments enclose the part, which begins and ends with a
// newline.
func Part(t *testing.T, update bool, page, name, want string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- The "+name+", written by ")
	by, rest, ok2 := strings.Cut(rest, " -->\n")
	have, after, ok3 := strings.Cut(rest, "<!-- The end of the "+name+". -->\n")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has no place for the %s", page, name)
	}
	// A comment of the file's own language can stand before the last one.
	begin := strings.LastIndex(have, "\n") + 1
	lead := have[begin:]
	have = have[:begin]
	if have == want {
		return
	}
	if !update {
		t.Fatalf("the %s in %s is out of date; run this test with -update (-want +have):\n%s", name, page, cmp.Diff(want, have))
	}
	all := before + "<!-- The " + name + ", written by " + by + " -->\n" + want + lead + "<!-- The end of the " + name + ". -->\n" + after
	if err := os.WriteFile(page, []byte(all), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Archive runs f over the inputs of an archive in testdata, each as a subtest. The
// expected result of an input follows it, under its name with ".want". With update the
// results are written anew.
func Archive(t *testing.T, update bool, name string, f func(t *testing.T, data []byte) []byte) {
	t.Helper()
	file := "testdata/" + name + ".txtar"
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range a.Files {
		want[f.Name] = string(f.Data)
	}
	out := &txtar.Archive{Comment: a.Comment}
	for _, in := range a.Files {
		if strings.HasSuffix(in.Name, ".want") {
			continue
		}
		t.Run(in.Name, func(t *testing.T) {
			got := f(t, in.Data)
			out.Files = append(out.Files, in, txtar.File{Name: in.Name + ".want", Data: got})
			if d := cmp.Diff(want[in.Name+".want"], string(got)); d != "" && !update {
				t.Error(d)
			}
		})
	}
	if update && !t.Failed() {
		if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
