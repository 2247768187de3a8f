package apply

import (
	_ "embed"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

//go:embed testdata/order.golden
var goldenOrder string

var update = flag.Bool("update", false, "rewrite the golden files")

// The order of effects is what makes a crash harmless: it is kept in a golden
// file so that nobody changes it by accident.
func TestOrderOfEffects(t *testing.T) {
	t.Parallel()
	from := model{"edit": file("1"), "gone": file("2"), "meta": dir()}
	to := model{"edit": file("3"), "meta": dir().mode(0o700), "new": dir(), "new/f": special(tree.KindFifo)}
	p := newPlace(t, from)
	var b strings.Builder
	_, err := execute(t, p, from, to, Options{Hook: func(step string) error {
		b.WriteString(step + ": " + listing(t, p.target) + " | " + listing(t, p.journal+"/a1") + "\n")
		return nil
	}})
	check(t, err)
	b.WriteString("done: " + listing(t, p.target) + " | " + listing(t, p.journal+"/a1") + "\n")
	if *update {
		check(t, os.WriteFile("testdata/order.golden", []byte(b.String()), 0o644))
		return
	}
	if b.String() != goldenOrder {
		t.Errorf("order of effects:\n%swant:\n%s", b.String(), goldenOrder)
	}
}

func listing(t tb, dir string) string {
	names, err := os.ReadDir(dir)
	check(t, err)
	var out []string
	for _, n := range names {
		out = append(out, n.Name())
	}
	return strings.Join(out, " ")
}
