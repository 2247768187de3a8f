package remote

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of refused options anew")

// TestRefusalsPage compares the table of refused options in the documentation with the
// refusals.
func TestRefusalsPage(t *testing.T) {
	t.Parallel()
	const (
		page  = "../../docs/reference/api.md"
		begin = "<!-- The table of refused options, written by the tests of internal/remote. -->\n"
		end   = "<!-- The end of the table of refused options. -->\n"
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
	table := "\n| option | why not | instead |\n|---|---|---|\n"
	for _, r := range refusals() {
		table += fmt.Sprintf("| `%s` | it %s | %s |\n", r.what, r.why, r.instead)
	}
	want := before + begin + table + "\n" + end + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date; run go test ./internal/remote -run TestRefusals -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
