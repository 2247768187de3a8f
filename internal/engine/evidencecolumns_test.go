package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/statements"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/forkcell/forkcell/internal/front/local"
)

// evidenceTables are the tables whose rows repeat statements, with their
// primary keys.
var evidenceTables = map[string]string{
	"cells": "id", "settings": "cell_id", "checkpoints": "id", "names": "name", "runs": "id", "applies": "id", "statements": "seq",
}

// richPast is a home with every kind of row in it.
func richPast(t *testing.T) *past {
	t.Helper()
	p := newPast(t, "overlay")
	_, err := p.e.Accept(p.ctx, api.AcceptRequest{Cell: "demo", Reason: "fine", Apply: true})
	p.ok(err)
	_, err = p.e.Undo(p.ctx, api.UndoRequest{Cell: "demo"})
	p.ok(err)
	_, err = p.e.Apply(p.ctx, api.ApplyRequest{Cell: "demo", Only: []string{"hello.txt"}})
	p.ok(err)
	p.write("new.txt", "new\n")
	_, err = p.e.Refresh(p.ctx, api.RefreshRequest{Cell: "demo"})
	p.ok(err)
	_, err = p.e.Fork(p.ctx, api.ForkRequest{Cell: "demo", Name: "side"})
	p.ok(err)
	p.sh("side", "echo 1 > one; echo 2 > two", func(r *api.RunRequest) {
		r.Timeout, r.Env, r.ReadOnly, r.Workdir = time.Minute, []string{"A=b"}, []string{"/usr/share"}, "docs"
	})
	_, err = p.e.Accept(p.ctx, api.AcceptRequest{Cell: "side", Only: []string{"docs/one"}})
	p.ok(err)
	p.sh("side", "mkdir -p /cache/go/build; echo x > /cache/go/build/x", cachedFile, acceptOnSuccess)
	_, err = p.e.Promote(p.ctx, api.PromoteRequest{Cell: "side"})
	p.ok(err)
	p.from("apart", "")
	p.ok(p.e.Rename(p.ctx, "side", "aside"))
	_, err = p.e.Update(p.ctx, api.UpdateRequest{
		Cell: "aside", Labels: map[string]*string{"team": ptr("web")}, TTL: ptr(api.Duration(time.Hour)),
		IdleTimeout: ptr(api.Duration(time.Minute)), OnTimeout: ptr(api.OnTimeoutPause),
	})
	p.ok(err)
	_, err = p.e.Fork(p.ctx, api.ForkRequest{Cell: "demo", Name: "gone"})
	p.ok(err)
	p.ok(p.e.Remove(p.ctx, "gone", false))
	_, err = p.e.KeyRotate(p.ctx)
	p.ok(err)
	// Not every host counts the processor time of a run, only sessions have placeholders,
	// no output is old, and no cell has brought a policy that was not stored before.
	p.sql("UPDATE runs SET doc=json_set(doc, '$.cpu_us', 1234, '$.known', 'placeholders', '$.output_freed', json('true'), '$.output_bytes', 7)")
	p.sql("UPDATE cells SET doc=json_set(doc, '$.policy_bytes', 5)")
	p.sound("demo", "aside")
	return p
}

// TestEveryColumnIsEvidence: receipt verify finds every changed value, copied
// row and removed row. The program lists the exceptions with their reasons.
func TestEveryColumnIsEvidence(t *testing.T) {
	t.Parallel()
	p := richPast(t)
	e, release, err := local.Open(p.home, local.Read, tester())
	p.ok(err)
	defer func() { _ = release() }()
	conn, err := sqlite.OpenConn(filepath.Join(p.home, "forkcell.db"), sqlite.OpenReadWrite)
	p.ok(err)
	defer func() { p.ok(conn.Close()) }()
	exempt, used := statements.ColumnsWithoutEvidence(), map[string]bool{}
	notices := func(what, column string) {
		t.Helper()
		_, err := e.ReceiptVerify(p.ctx, "", "", true, "")
		reason, free := exempt[column]
		switch {
		case err == nil && !free:
			t.Errorf("%s: nothing is noticed", what)
		case err != nil && api.KindOf(err) != api.Refused:
			t.Errorf("%s: %v", what, err)
		case err == nil:
			used[column] = true
			if reason == "" {
				t.Errorf("%s carries no evidence, and no reason is given", column)
			}
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	for _, table := range slices.Sorted(maps.Keys(evidenceTables)) {
		list, tried := mutations(p, conn, table), map[string]int{}
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, m := range list {
			if tried[m.column]++; tried[m.column] > 2 && m.column != "" {
				continue // of each column two rows, of rows all
			}
			m.do()
			notices(m.what, m.column)
			m.undo()
		}
	}
	if _, err := e.ReceiptVerify(p.ctx, "", "", true, ""); err != nil {
		t.Fatalf("after everything was put back: %v %v", err, details(err))
	}
	for column := range exempt {
		if !used[column] && column != "checkpoints.freed" {
			t.Errorf("%s is listed as without evidence, and a change of it is noticed", column)
		}
	}
}

func details(err error) []string {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Details
	}
	return nil
}

type mutation struct {
	what, column string
	do, undo     func()
}

// mutations changes each value of each row of a table, copies each row, and
// removes each row.
func mutations(p *past, conn *sqlite.Conn, table string) []mutation {
	p.Helper()
	exec := func(query string, args ...any) {
		p.Helper()
		p.ok(sqlitex.Execute(conn, query, &sqlitex.ExecOptions{Args: args}))
	}
	exec("PRAGMA foreign_keys=OFF")
	exec("PRAGMA synchronous=OFF")
	var list []mutation
	rows := tableRows(p, conn, table)
	for _, row := range rows {
		id := row["rowid"]
		delete(row, "rowid")
		what := fmt.Sprintf("%s %v", table, row[evidenceTables[table]])
		back := func() { replaceRow(exec, table, id, row) }
		for _, column := range slices.Sorted(maps.Keys(row)) {
			if column != "doc" {
				value := other(row[column])
				if column == "ord" {
					if value = otherPosition(rows, row); value == nil {
						continue // it is its cell's only one
					}
				}
				list = append(list, mutation{what + ": " + column, label(table, column, row), func() {
					exec("UPDATE "+table+" SET "+column+"=? WHERE rowid=?", value, id)
				}, back})
				continue
			}
			for path, value := range leaves("$", []byte(row["doc"].(string))) {
				name := table + ".doc" + strings.TrimPrefix(strings.ReplaceAll(path, `"`, ""), "$")
				list = append(list, mutation{what + ": " + name, name, func() {
					exec("UPDATE "+table+" SET doc=json_set(doc,?,json(?)) WHERE rowid=?", path, value, id)
				}, back})
			}
		}
		list = append(list, mutation{what + " removed", "", func() { exec("DELETE FROM "+table+" WHERE rowid=?", id) }, back})
		if table != "statements" { // a copy of one has another digest than its file
			list = append(list, copied(exec, table, what, row))
		}
	}
	return list
}

// copied inserts a row like another, under another key.
func copied(exec func(string, ...any), table, what string, row map[string]any) mutation {
	twin := maps.Clone(row)
	for _, key := range []string{evidenceTables[table], "name"} {
		if v, ok := twin[key]; ok {
			twin[key] = other(v)
		}
	}
	return mutation{what + " copied", "", func() { replaceRow(exec, table, nil, twin) }, func() {
		exec("DELETE FROM "+table+" WHERE "+evidenceTables[table]+"=?", twin[evidenceTables[table]])
	}}
}

func replaceRow(exec func(string, ...any), table string, rowid any, row map[string]any) {
	names, marks, args := []string{}, []string{}, []any{}
	if rowid != nil && table != "statements" {
		exec("DELETE FROM "+table+" WHERE rowid=?", rowid)
		names, marks, args = append(names, "rowid"), append(marks, "?"), append(args, rowid)
	}
	if table == "statements" {
		exec("DELETE FROM statements WHERE rowid=? OR seq=? OR id=?", rowid, row["seq"], row["id"])
		exec("DELETE FROM statements WHERE seq=?", other(row["seq"]))
	}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		names, marks, args = append(names, name), append(marks, "?"), append(args, row[name])
	}
	exec("INSERT INTO "+table+"("+strings.Join(names, ",")+") VALUES("+strings.Join(marks, ",")+")", args...)
}

// label names a column as the program's list does.
func label(table, column string, row map[string]any) string {
	if table == "statements" && column == "id" && row["kind"] == "cell" {
		return "statements.id of a cell's change"
	}
	return table + "." + column
}

func tableRows(p *past, conn *sqlite.Conn, table string) []map[string]any {
	p.Helper()
	var rows []map[string]any
	p.ok(sqlitex.Execute(conn, "SELECT rowid, * FROM "+table, &sqlitex.ExecOptions{ResultFunc: func(r *sqlite.Stmt) error {
		row := map[string]any{"rowid": r.ColumnInt64(0)}
		for i := 1; i < r.ColumnCount(); i++ {
			switch r.ColumnType(i) {
			case sqlite.TypeInteger:
				row[r.ColumnName(i)] = r.ColumnInt64(i)
			case sqlite.TypeNull:
				row[r.ColumnName(i)] = nil
			default:
				row[r.ColumnName(i)] = r.ColumnText(i)
			}
		}
		rows = append(rows, row)
		return nil
	}}))
	if len(rows) == 0 {
		p.Fatalf("%s has no rows", table)
	}
	return rows
}

// otherPosition returns a number that moves a row to another position among the
// rows of its cell.
func otherPosition(rows []map[string]any, row map[string]any) any {
	before, after := 0, 0
	for _, r := range rows {
		switch {
		case r["cell_id"] != row["cell_id"]:
		case r["ord"].(int64) < row["ord"].(int64):
			before++
		case r["ord"].(int64) > row["ord"].(int64):
			after++
		}
	}
	switch {
	case after > 0:
		return int64(1 << 40)
	case before > 0:
		return int64(-1)
	}
	return nil
}

// other is another value of the same type.
func other(v any) any {
	switch v := v.(type) {
	case int64:
		if v == 0 || v == 1 {
			return 1 - v
		}
		return v + 1000
	case string:
		return v + "x"
	}
	return "x" // where there was none
}

// leaves lists the paths of the values in a JSON document, each with another
// value.
func leaves(at string, doc []byte) map[string]string {
	out := map[string]string{}
	var fields map[string]json.RawMessage
	if json.Unmarshal(doc, &fields) == nil && fields != nil {
		for name, v := range fields {
			maps.Copy(out, leaves(at+`."`+name+`"`, v))
		}
		return out
	}
	switch text := string(doc); {
	case strings.HasPrefix(text, `"20`) && strings.HasSuffix(text, `Z"`): // a time
		out[at] = `"2001-02-03T04:05:06Z"`
	case strings.HasPrefix(text, `"`):
		out[at] = `"x` + text[1:]
	case strings.HasPrefix(text, "["):
		out[at] = strings.Replace(text, "]", "", 1) + `]`
		var list []json.RawMessage
		if json.Unmarshal(doc, &list) == nil {
			list = append(list, json.RawMessage(`"x"`))
			if strings.Contains(text, "{") {
				list = nil
			}
			data, _ := json.Marshal(list)
			out[at] = string(data)
		}
	case text == "true", text == "false":
		out[at] = map[string]string{"true": "false", "false": "true"}[text]
	case text == "null":
		out[at] = `["x"]`
	case text == "0":
		out[at] = "7"
	default:
		out[at] = text + "7"
	}
	return out
}

// TestCopiedStateIsNoState: verify does not accept a state without a signature.
func TestCopiedStateIsNoState(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	p.sql("INSERT INTO checkpoints SELECT 'chk_copied', cell_id, parent, layer, run_id, 99, freed, doc FROM checkpoints WHERE id=?", p.accepted.CheckpointAfter)
	_, err := p.e.Verify(p.ctx, "demo", "chk_copied", false)
	p.refused(err, api.Refused, "1 difference")
	_, err = p.e.Verify(p.ctx, "demo", p.accepted.CheckpointAfter, false)
	p.ok(err)
}
