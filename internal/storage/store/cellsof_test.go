package store

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

// TestCellsOf compares what the database finds with a search among all cells: names of
// directories with any characters, forks, archives, cells that were renamed and removed.
func TestCellsOf(t *testing.T) {
	t.Parallel()
	s := open(t)
	parts := []string{"a", "b c", `q"u'o`, `back\slash`, "<&>", "%_*?", "ü\u2028", "\x01\n", "no-utf8-\xff", "null", "[1]", "😀"}
	r := rand.New(rand.NewPCG(1, 2))
	dir := func() string {
		at := "/"
		for range r.IntN(4) {
			at = filepath.Join(at, parts[r.IntN(len(parts))])
		}
		return at
	}
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for i := range 400 {
		c := Cell{ID: fmt.Sprintf("cell_%d", i), Name: fmt.Sprintf("c%03d", i), Head: "h", Applied: "h", Source: dir()}
		c.SourceKind, c.ForkedCell = pick("dir", "dir", "archive", "cache", "lost", ""), pick("", "", "cell_x")
		if r.IntN(5) == 0 {
			c.Name = "" // removed
		}
		if err := s.Note(func(tx *Tx) error { return tx.PutCell(c) }); err != nil {
			t.Fatal(err)
		}
	}
	names := func(cells []Cell) (out []string) {
		for _, c := range cells {
			out = append(out, c.Name)
		}
		return out
	}
	found := 0
	for range 100 {
		dirs := []string{dir(), dir(), dir()}
		var got, want []Cell
		err := s.View(func(tx *Tx) (err error) {
			if got, err = tx.CellsOf(dirs); err == nil {
				want, err = tx.Cells(false)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		// As text, a name that is no valid text equals others: who looks up compares again.
		got = slices.DeleteFunc(got, func(c Cell) bool { return !slices.Contains(dirs, c.Source) })
		want = slices.DeleteFunc(want, func(c Cell) bool {
			return c.SourceKind != "dir" || c.ForkedCell != "" || !slices.Contains(dirs, c.Source)
		})
		if !slices.Equal(names(got), names(want)) {
			t.Errorf("%q: %q, want %q", dirs, names(got), names(want))
		}
		found += len(got)
	}
	if found < 100 {
		t.Errorf("only %d cells were found", found)
	}
}
