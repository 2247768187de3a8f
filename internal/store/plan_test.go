package store

import (
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
)

// What every run asks must not take longer after a thousand of them.
func TestNothingIsScanned(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, query := range map[string]string{
		"PutCheckpoint": putCheckpoint, "PutRun": putRun, "Unfinished": unfinished, "UnfinishedRuns": unfinishedRuns,
	} {
		err := s.View(func(tx *Tx) error {
			return tx.query(func(r *sqlite.Stmt) error {
				// SQLite's query plan calls a search what is none: max() without an
				// index. Its program is honest.
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
