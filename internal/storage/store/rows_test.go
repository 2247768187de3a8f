package store

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
)

// TestRowsHaveOwners: each table of the database stands in the description of homes, with
// an owner and a bound.
func TestRowsHaveOwners(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/formats/store.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "The rows of the database have owners and bounds, too:")
	if !found {
		t.Fatal("the tables are not described")
	}
	tables := 0
	err = open(t).View(func(tx *Tx) error {
		return tx.query(func(r *sqlite.Stmt) error {
			tables++
			name := r.ColumnText(0)
			if !regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`[^|]* \\| [^|]+ \\| [^|]+ \\|$").MatchString(section) {
				t.Errorf("the table %s has no owner and bound", name)
			}
			return nil
		}, "SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%'")
	})
	if err != nil {
		t.Fatal(err)
	}
	if tables < 10 {
		t.Errorf("%d tables", tables)
	}
}
