package mcp

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/testkit/golden"
)

var update = flag.Bool("update", false, "rewrite the table of tools in docs/reference/mcp.md")

// TestReference compares the table of tools in the documentation with the tools.
func TestReference(t *testing.T) {
	t.Parallel()
	golden.Part(t, *update, "../../../docs/reference/mcp.md", "table of tools", table())
}

// table returns the tools as a caller with every right sees them.
func table() string {
	var b strings.Builder
	b.WriteString("\n| tool | what it does | arguments | needs |\n|---|---|---|---|\n")
	all := Rights{Run: true, Decide: true, Operator: true, Credentials: true, Sessions: true}
	for _, s := range NewCatalog("").visible(all) {
		schema := fit(s.tool.schema, s.tool.words, all, s.tool.needsCell)
		var args []string
		for _, name := range schema.PropertyOrder {
			if slices.Contains(schema.Required, name) {
				args = append(args, "**`"+name+"`**")
			} else {
				args = append(args, "`"+name+"`")
			}
		}
		var needs []string
		for _, scope := range s.tool.op.Needs {
			needs = append(needs, "`"+string(scope)+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.tool.name, s.tool.about, strings.Join(args, ", "), strings.Join(needs, ", "))
	}
	b.WriteString("\n")
	return b.String()
}
