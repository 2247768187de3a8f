package store

import (
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// The queries of every run must not take longer after a thousand runs.
func TestNothingIsScanned(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, query := range map[string]string{
		"PutCheckpoint": putCheckpoint, "PutRun": putRun, "Unfinished": unfinished, "UnfinishedRuns": unfinishedRuns,
	} {
		err := s.View(func(tx *Tx) error {
			return tx.query(func(r *sqlite.Stmt) error {
				// SQLite's query plan calls max() without an index a search, though it reads
				// every row. Its byte code shows that.
				if r.ColumnText(1) == "Rewind" {
					t.Errorf("%s goes through all rows", name)
				}
				return nil
			}, "EXPLAIN "+query, make([]any, max(strings.Count(query, "?,")+strings.Count(query, "?)"), 1))...)
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Runs stay in the order in which they were made, whatever was removed and however
// the rows are numbered.
func TestOrderOutlastsNewNumbers(t *testing.T) {
	t.Parallel()
	s := open(t)
	put := func(ids ...string) {
		t.Helper()
		err := s.Update(func(tx *Tx) error {
			for _, id := range ids {
				if err := tx.PutRun(Run{ID: id, CellID: "c", State: "done"}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Update(func(tx *Tx) error { return tx.PutCell(Cell{ID: "c", Name: "c"}) }); err != nil {
		t.Fatal(err)
	}
	put("1", "2", "3")
	if err := s.Update(func(tx *Tx) error { return tx.DropRun("1") }); err != nil {
		t.Fatal(err)
	}
	// SQLite's documentation says that a vacuum may do this.
	if err := sqlitex.ExecuteTransient(s.conn, "UPDATE runs SET rowid=rowid-1", nil); err != nil {
		t.Fatal(err)
	}
	put("4")
	err := s.View(func(tx *Tx) error {
		runs, err := tx.Runs("c")
		var last int64
		for i, r := range runs {
			if want := string(rune('2' + i)); r.ID != want || r.Ord <= last {
				t.Errorf("run %s with number %d, want %s after %d", r.ID, r.Ord, want, last)
			}
			last = r.Ord
		}
		if len(runs) != 3 {
			t.Errorf("%d runs", len(runs))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
