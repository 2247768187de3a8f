package store

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// The queries of every run, and those of pages, must not take longer after a thousand
// runs.
func TestNothingIsScanned(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, query := range map[string]string{
		"PutCheckpoint": putCheckpoint, "PutRun": putRun, "Unfinished": unfinished, "UnfinishedRuns": unfinishedRuns,
		"Checkpoints": cellCheckpoints, "Names": cellNames, "Statements": cellStatements, "MaskingRuns": maskingRuns, "SettledUpTo": settledUpTo,
		"RunsAfter of a cell": cellRunsAfter, "RunsBefore of a cell": cellRunsBefore, "RunsAfter": runsAfter, "RunsBefore": runsBefore, "rowOfRun": lastRunUpTo,
	} {
		err := s.View(func(tx *Tx) error {
			return tx.query(func(r *sqlite.Stmt) error {
				// SQLite's query plan calls max() without an index a search, though it reads
				// every row. Its byte code shows that.
				if r.ColumnText(1) == "Rewind" {
					t.Errorf("%s goes through all rows", name)
				}
				return nil
			}, "EXPLAIN "+query, make([]any, parameters(query))...)
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// parameters counts the parameters of a query: those without a number, or one.
func parameters(query string) int {
	return max(strings.Count(query, "?")-strings.Count(query, "?1"), 1)
}

// Pages of runs have every run once, from either end, whatever numbers are missing.
func TestPagesOfRuns(t *testing.T) {
	t.Parallel()
	s := open(t)
	var want []int64
	err := s.Update(func(tx *Tx) error {
		if err := tx.PutCell(Cell{ID: "c", Name: "c"}); err != nil {
			return err
		}
		for i := range 40 {
			id := fmt.Sprintf("%02d", i)
			if err := tx.PutRun(Run{ID: id, CellID: "c", State: "done"}); err != nil {
				return err
			}
			if i%3 == 1 || i > 30 && i < 36 {
				if err := tx.DropRun(id); err != nil {
					return err
				}
				continue
			}
			want = append(want, int64(i+1))
		}
		// SQLite's documentation says that a vacuum may number rows anew.
		return tx.exec("UPDATE runs SET rowid=rowid+1000 WHERE ord>20")
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range []string{"", "c"} {
		for size := 1; size < 9; size++ {
			if got := pagesOfRuns(t, s, 0, func(tx *Tx, at int64) ([]Run, error) { return tx.RunsAfter(cell, at, size) }); !slices.Equal(got, want) {
				t.Errorf("pages of %d forwards: %v", size, got)
			}
			got := pagesOfRuns(t, s, math.MaxInt64, func(tx *Tx, at int64) ([]Run, error) { return tx.RunsBefore(cell, at, size) })
			if slices.Reverse(got); !slices.Equal(got, want) {
				t.Errorf("pages of %d backwards: %v", size, got)
			}
		}
	}
}

func pagesOfRuns(t *testing.T, s *Store, at int64, page func(tx *Tx, at int64) ([]Run, error)) (numbers []int64) {
	t.Helper()
	err := s.View(func(tx *Tx) error {
		for {
			runs, err := page(tx, at)
			if err != nil || len(runs) == 0 {
				return err
			}
			for _, r := range runs {
				at = r.Ord
				numbers = append(numbers, at)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
	return numbers
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
