package store

import (
	"slices"
	"testing"
)

// TestNumbersAreGivenOnce: the number of a dropped run is not given again, and runs
// can be read from the newest on.
func TestNumbersAreGivenOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	err := s.Update(func(tx *Tx) error {
		if err := tx.PutCell(Cell{ID: "c", Name: "c"}); err != nil {
			return err
		}
		for _, id := range []string{"1", "2", "3"} {
			if err := tx.PutRun(Run{ID: id, CellID: "c", State: "running"}); err != nil {
				return err
			}
		}
		for _, id := range []string{"3", "2"} {
			if err := tx.DropRun(id); err != nil {
				return err
			}
		}
		return tx.PutRun(Run{ID: "4", CellID: "c", State: "done"})
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.View(func(tx *Tx) error {
		var got []RunRef
		if err := tx.RunsBackwards(func(r RunRef) bool { got = append(got, r); return true }); err != nil {
			return err
		}
		want := []RunRef{{ID: "4", CellID: "c", Ord: 4, Ended: true}, {ID: "1", CellID: "c", Ord: 1}}
		if !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		calls := 0
		if err := tx.RunsBackwards(func(RunRef) bool { calls++; return false }); err != nil || calls != 1 {
			t.Errorf("%d calls: %v", calls, err)
		}
		one, err := tx.RunRef("1")
		if one != want[1] {
			t.Errorf("%+v", one)
		}
		id, err2 := tx.Identity()
		if err2 != nil || len(id) != 16 {
			t.Errorf("identity %q: %v", id, err2)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
