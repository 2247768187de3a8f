package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"
)

// Row is one row of a table, with every value as text. The fields of its
// document are columns like the others, called doc.FIELD; those of a field that
// is an object are called doc.FIELD.NAME, and so on.
type Row struct {
	Table   string
	Key     string // of the primary key
	Columns map[string]string
}

// evidence lists the tables whose contents are also in statements, each with its
// primary key. The table of intents lists unfinished work, which no statement has.
var evidence = []struct{ table, key string }{
	{"cells", "id"},
	{"settings", "cell_id"},
	{"checkpoints", "id"},
	{"names", "cell_id || ' ' || name"},
	{"runs", "id"},
	{"applies", "id"},
	{"statements", "seq"},
}

// Rows lists every row of the tables whose contents are also in statements.
func (tx *Tx) Rows() ([]Row, error) {
	var rows []Row
	for _, t := range evidence {
		found, err := all(tx, func(r *sqlite.Stmt) (Row, error) {
			row := Row{Table: t.table, Key: r.ColumnText(0), Columns: map[string]string{}}
			return row, row.fill(r)
		}, "SELECT "+t.key+", * FROM "+t.table)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

func (row *Row) fill(r *sqlite.Stmt) error {
	for i := 1; i < r.ColumnCount(); i++ {
		name := r.ColumnName(i)
		switch {
		case name == "doc":
			if err := row.addColumns(name, []byte(r.ColumnText(i))); err != nil {
				return fmt.Errorf("%w: row %s of %s is damaged: %w", ErrDatabase, row.Key, row.Table, err)
			}
		case r.ColumnType(i) == sqlite.TypeNull:
			row.Columns[name] = "NULL"
		default:
			row.Columns[name] = r.ColumnText(i)
		}
	}
	return nil
}

// addColumns adds the columns of a JSON value.
func (row *Row) addColumns(name string, value []byte) error {
	if value = bytes.TrimSpace(value); len(value) > 0 && value[0] == '{' {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(value, &fields); err != nil {
			return err
		}
		for field, v := range fields {
			if err := row.addColumns(name+"."+field, v); err != nil {
				return err
			}
		}
		return nil
	}
	var text bytes.Buffer
	if err := json.Compact(&text, value); err != nil {
		return err
	}
	row.Columns[name] = text.String()
	return nil
}
