package op_test

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/testkit/golden"
)

var update = flag.Bool("update", false, "write the table of rights")

// TestRightsPage compares the table of rights in the documentation with the operations.
func TestRightsPage(t *testing.T) {
	t.Parallel()
	rows := map[string]map[op.Effect][]string{}
	for _, a := range op.All() {
		o := a.Head()
		if o.Kind == op.KindMounted {
			continue // the requests that come by it have needs and effects of their own
		}
		var needs []string
		for _, s := range o.Needs {
			needs = append(needs, "`"+string(s)+"`")
		}
		key := strings.Join(needs, ", ")
		if rows[key] == nil {
			rows[key] = map[op.Effect][]string{}
		}
		rows[key][o.Effect] = append(rows[key][o.Effect], "`"+o.ID+"`")
	}
	var b strings.Builder
	b.WriteString("\n| needs | reads | adds or moves, and loses nothing | removes or overwrites |\n|---|---|---|---|\n")
	for _, key := range []string{"", "`read`", "`run`", "`run`, `decide`", "`admin`", "`admin`, `unbounded`"} {
		fmt.Fprintf(&b, "| %s |", cmp.Or(key, "-"))
		for _, e := range []op.Effect{op.Reads, op.Adds, op.Destroys} {
			slices.Sort(rows[key][e])
			fmt.Fprintf(&b, " %s |", strings.Join(rows[key][e], ", "))
		}
		b.WriteString("\n")
		delete(rows, key)
	}
	b.WriteString("\n")
	for key := range rows {
		t.Errorf("no row for operations that need %s", key)
	}
	golden.Part(t, *update, "../../../docs/reference/tokens.md", "table of rights", b.String())
}
