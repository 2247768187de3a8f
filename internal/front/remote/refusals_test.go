package remote

import (
	"flag"
	"fmt"
	"testing"

	"github.com/forkcell/forkcell/internal/testkit/golden"
)

var update = flag.Bool("update", false, "write the table of refused options anew")

// TestRefusalsPage compares the table of refused options in the documentation with the
// refusals.
func TestRefusalsPage(t *testing.T) {
	t.Parallel()
	table := "\n| option | why not | instead |\n|---|---|---|\n"
	for _, r := range refusals() {
		table += fmt.Sprintf("| `%s` | it %s | %s |\n", r.what, r.why, r.instead)
	}
	golden.Part(t, *update, "../../../docs/reference/api.md", "table of refused options", table+"\n")
}
