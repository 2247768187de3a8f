package rest

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/testkit/golden"
)

// TestOpenAPIPage compares the table of routes in the documentation with the routes.
func TestOpenAPIPage(t *testing.T) {
	t.Parallel()
	update := flag.Lookup("update").Value.String() == "true" // openapi_test.go declares it
	golden.Part(t, update, "../../../docs/reference/api.md", "table of routes", routeTable())
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
