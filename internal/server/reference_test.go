package server

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/caller"
)

// TestOpenAPIPage compares the table of routes in the documentation with the routes.
func TestOpenAPIPage(t *testing.T) {
	t.Parallel()
	const (
		page  = "../../docs/reference/api.md"
		begin = "<!-- The table of routes, written by the tests of internal/server. -->\n"
		end   = "<!-- The end of the table of routes. -->\n"
	)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the marks of the table are missing")
	}
	want := before + begin + routeTable() + end + after
	if want == string(text) {
		return
	}
	if flag.Lookup("update").Value.String() != "true" { // openapi_test.go declares it
		t.Fatalf("%s is out of date; run go test ./internal/server -run TestOpenAPI -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// routeTable returns a table of the routes for each tag.
func routeTable() string {
	var b strings.Builder
	s := New(Config{Engine: func(caller.Caller) Engine { return nil }})
	for _, tag := range docsTags(s.api.OpenAPI().Paths) {
		fmt.Fprintf(&b, "\n### %s\n\n| request | what it does | needs |\n|---|---|---|\n", strings.ToUpper(tag.Name[:1])+tag.Name[1:])
		for _, row := range routeRows(tag.Operations) {
			b.WriteString(row)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// routeRows returns a row for each operation; those that differ in the method only
// share one.
func routeRows(operations []docsOperation) (rows []string) {
	for i := 0; i < len(operations); i++ {
		op, methods := operations[i], operations[i].Method
		for i+1 < len(operations) && operations[i+1].Path == op.Path && operations[i+1].Summary == op.Summary {
			i++
			methods += ", " + operations[i].Method
		}
		needs := "-"
		for j, scope := range op.Needs {
			if needs = fmt.Sprintf("%s, `%v`", needs, scope); j == 0 {
				needs = fmt.Sprintf("`%v`", scope)
			}
		}
		rows = append(rows, fmt.Sprintf("| `%s %s` | %s | %s |\n", methods, op.Path, op.Summary, needs))
	}
	return rows
}
