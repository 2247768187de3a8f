package statements

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// noEvidence lists the columns of the database that no statement determines,
// with the reason. Every other column of a row must be as the log, replayed,
// gives it. TestEveryColumnIsEvidence changes each column in turn.
var noEvidence = map[string]string{
	"cells.doc.created_at":             "shown, and where a ttl begins; the statement has its own time",
	"cells.doc.policy_bytes":           "for quotas; a size on disk",
	"checkpoints.doc.created_at":       "shown only; the statement has its own time",
	"checkpoints.doc.own_bytes":        "shown only; a size on disk",
	"checkpoints.freed":                "gc makes no statement; checked against the layers and the heads",
	"runs.doc.accept_on_success":       "used while the run is unfinished; the receipt has the decision",
	"runs.doc.cpu_us":                  "for usage; a database that was rebuilt counts from then on",
	"runs.doc.known":                   "placeholders that a rewound session may still show; with others its requests are denied",
	"runs.doc.event_bytes":             "for quotas; a size on disk",
	"runs.doc.output_bytes":            "for quotas; a size on disk",
	"runs.doc.output_freed":            "gc makes no statement; the digests of the output stay",
	"runs.doc.policy_bytes":            "for quotas; a size on disk",
	"runs.doc.restore_on_fail":         "used while the run is unfinished; the receipt has the decision",
	"statements.id of a cell's change": "the id of an index entry; the digest names the statement",
}

// ColumnsWithoutEvidence lists the columns of the database that a verification does
// not compare, with the reason.
func ColumnsWithoutEvidence() map[string]string { return maps.Clone(noEvidence) }

// evidenceColumn reports whether statements determine a column of a row.
func evidenceColumn(row store.Row, column string) bool {
	name := row.Table + "." + column
	if name == "statements.id" && row.Columns["kind"] == KindCell {
		name += " of a cell's change"
	}
	if _, exempt := noEvidence[name]; exempt || name == "runs.doc.kinds" { // those of the journal, to which they are compared
		return false
	}
	// The figures of an area are those of its layer, which gc may have removed.
	if row.Table == "checkpoints" && row.Columns["freed"] == "1" {
		for _, figure := range []string{".files", ".dirs", ".bytes"} {
			if strings.HasPrefix(column, "doc.areas.") && strings.HasSuffix(column, figure) {
				return false
			}
		}
	}
	return true
}

// rowsByKey holds the rows of a database that statements determine.
type rowsByKey map[string]store.Row

// snapshot reads the rows. A run without a receipt is not finished, and no
// statement is about it yet.
func snapshot(tx *store.Tx) (rowsByKey, error) {
	list, err := tx.Rows()
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(r store.Row) bool { return r.Table == "runs" && r.Columns["state"] == "running" })
	rank(list)
	rows := rowsByKey{}
	for _, r := range list {
		rows[r.Table+" "+r.Key] = r
	}
	return rows, nil
}

// rank replaces the order of rows by their place among those of the same cell:
// the numbers themselves depend on what other cells did at the same time.
func rank(rows []store.Row) {
	type group struct{ table, cell string }
	groups := map[group][]store.Row{}
	for _, r := range rows {
		if _, ordered := r.Columns["ord"]; ordered {
			g := group{r.Table, r.Columns["cell_id"]}
			groups[g] = append(groups[g], r)
		}
	}
	for _, list := range groups {
		slices.SortStableFunc(list, func(a, b store.Row) int { return number(a) - number(b) })
		for i, r := range list {
			r.Columns["ord"] = strconv.Itoa(i + 1)
		}
	}
}

func number(r store.Row) int {
	n, err := strconv.Atoi(r.Columns["ord"])
	if err != nil {
		return -1
	}
	return n
}

// replay is a log that was replayed into a database in memory.
type replay struct {
	rows rowsByKey
	// sound reports that every statement was there, is verified and has its place in
	// the chain.
	sound bool
}

// replay reads statements of the log into a database in memory and takes its
// rows. It calls each, unless that is nil, with every statement that holds.
func (l *Log) replay(seqs []int64, each func(seq int64, raw []byte, s receipt.Statement) error) (r replay, err error) {
	scratch, err := l.store.Scratch()
	if err != nil {
		return r, err
	}
	defer scratch.CloseDatabase() //nolint:errcheck // it is only memory
	b, err := l.newRebuild(&api.RecoverResult{}, seqs)
	if err != nil {
		return r, err
	}
	b.broken = nil // without its layer.json a layer has no figures to compare
	b.each = each
	err = scratch.Update(func(tx *store.Tx) error {
		if err := b.replay(tx); err != nil {
			return err
		}
		r.sound = len(b.found) == 0
		r.rows, err = snapshot(tx)
		return err
	})
	return r, err
}

// Differences lists what the database says and the known statements do not, and the
// reverse.
func (l *Log) Differences(tx *store.Tx, known []store.Statement) ([]Difference, error) {
	signed, err := l.replay(numbers(known), nil)
	if err != nil {
		return nil, err
	}
	now, err := snapshot(tx)
	return differences(signed.rows, now), err
}

func numbers(statements []store.Statement) []int64 {
	seqs := make([]int64, len(statements))
	for i, st := range statements {
		seqs[i] = st.Seq
	}
	return seqs
}

// Difference is something that the log and the database do not agree on.
type Difference struct {
	ID, Cell, Run string // what it is about
	Text          string
}

// differences compares both ways, in a stable order.
func differences(signed, now rowsByKey) []Difference {
	var out []Difference
	for _, key := range slices.Sorted(maps.Keys(signed)) {
		want := signed[key]
		got, ok := now[key]
		if !ok {
			out = append(out, differs(want, "the database has no "+describe(want)))
			continue
		}
		for _, column := range columns(want, got) {
			a, b := want.Columns[column], got.Columns[column]
			if a != b && evidenceColumn(want, column) && evidenceColumn(got, column) {
				out = append(out, differs(got, fmt.Sprintf("the database says %s %q, signed was %q",
					plainColumn(got, column), plainValue(b), plainValue(a))))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, ok := signed[key]; !ok {
			out = append(out, differs(now[key], fmt.Sprintf("the database has a %s that no statement mentions", describe(now[key]))))
		}
	}
	return out
}

func columns(a, b store.Row) []string {
	names := maps.Clone(a.Columns)
	maps.Copy(names, b.Columns)
	return slices.Sorted(maps.Keys(names))
}

func differs(r store.Row, text string) Difference {
	d := Difference{ID: r.Key, Cell: r.Columns["cell_id"], Run: r.Columns["run_id"], Text: text}
	switch r.Table {
	case "cells":
		d.Cell = r.Key
	case "runs":
		d.Run = r.Key
	case "names":
		d.ID = d.Cell
	}
	return d
}

// describe names a row for people.
func describe(r store.Row) string {
	switch r.Table {
	case "names":
		return "checkpoint called " + r.Columns["name"]
	case "applies":
		return "apply " + r.Key
	case "settings":
		return "row of settings of cell " + r.Key
	}
	return strings.TrimSuffix(r.Table, "s") + " " + r.Key
}

// plainColumn names a column for people.
func plainColumn(r store.Row, column string) string {
	switch r.Table + "." + column {
	case "runs.after":
		return "state after"
	case "runs.doc.before":
		return "state before"
	case "cells.applied":
		return "applied state"
	case "names.checkpoint_id":
		return describe(r)
	case "runs.ord", "checkpoints.ord", "applies.ord":
		return "place in the cell's history"
	}
	return strings.ReplaceAll(strings.TrimPrefix(column, "doc."), "_", " ")
}

// plainValue returns a value without the quotes of JSON.
func plainValue(text string) string {
	var s string
	if json.Unmarshal([]byte(text), &s) == nil {
		return s
	}
	return text
}
