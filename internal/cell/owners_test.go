package cell_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestStoredBytesHaveOwners: whatever a home keeps stands in the description of homes, with
// an owner for whom it counts and a bound. A new kind of stored bytes needs both.
func TestStoredBytesHaveOwners(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/formats/store.md")
	if err != nil {
		t.Fatal(err)
	}
	owned := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z.-]+)` \\| ([^|]+) \\| ([^|]+) \\|$").FindAllStringSubmatch(string(page), -1) {
		owned[row[1]] = strings.TrimSpace(row[2]) != "" && strings.TrimSpace(row[3]) != ""
	}
	tree, _, _ := strings.Cut(string(page[strings.Index(string(page), "HOME/"):]), "```")
	var names []string
	for _, line := range regexp.MustCompile(`(?m)^  ([a-z.-]+)`).FindAllStringSubmatch(tree, -1) {
		names = append(names, line[1])
	}
	if len(names) < 15 || !slices.Contains(names, "layers") {
		t.Fatalf("the description of a home was not read: %q", names)
	}
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		w.sh("demo", "echo out; echo on > hello.txt", acceptOnSuccess)
		w.sh("demo", "echo more > hello.txt")
		_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "other"})
		w.ok(err)
		_, err = w.e.Upload(w.ctx, strings.NewReader("an archive"))
		w.ok(err)
		_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
		w.ok(err)
		entries, err := os.ReadDir(w.home)
		w.ok(err)
		found := slices.Clone(names)
		for _, e := range entries {
			found = append(found, strings.TrimSuffix(strings.TrimSuffix(e.Name(), "-wal"), "-shm"))
		}
		for _, name := range found {
			if !owned[name] {
				w.Errorf("%s has no owner and bound in docs/formats/store.md", name)
			}
		}
	})
}
