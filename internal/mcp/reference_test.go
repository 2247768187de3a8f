package mcp

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of tools in docs/reference/mcp.md")

// TestReference compares the table of tools in the documentation with the tools.
func TestReference(t *testing.T) {
	t.Parallel()
	const (
		page  = "../../docs/reference/mcp.md"
		begin = "<!-- The table of tools, written by the tests of internal/mcp. -->\n"
		end   = "<!-- The end of the table of tools. -->\n"
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
	want := before + begin + table() + end + after
	if *update && want != string(text) {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("%s is out of date; run go test ./internal/mcp -run TestReference -update", page)
	}
}

// table returns the tools as a caller with every right sees them.
func table() string {
	var b strings.Builder
	b.WriteString("\n| tool | what it does | arguments | needs |\n|---|---|---|---|\n")
	all := Rights{Run: true, Decide: true, Admin: true, Credentials: true, Sessions: true}
	for _, s := range NewCatalog("").visible(all) {
		schema := fit(s.tool.schema, all, s.tool.needsCell)
		var args []string
		for _, name := range schema.PropertyOrder {
			if slices.Contains(schema.Required, name) {
				args = append(args, "**`"+name+"`**")
			} else {
				args = append(args, "`"+name+"`")
			}
		}
		needs := map[right]string{mayRead: "`read`", mayRun: "`run`", mayDecide: "`run`, `decide`"}[s.tool.needs]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.tool.name, s.tool.about, strings.Join(args, ", "), needs)
	}
	b.WriteString("\n")
	return b.String()
}
