package repo

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSDKs compares the classes and methods of the three SDKs, by their generated reference
// pages: they have one shape. That each has every operation of the API is tested beside a
// daemon, in client and in sdk.
func TestSDKs(t *testing.T) {
	t.Parallel()
	python := methods(t, "sdk-python.md")
	// What one language has in another form: properties are no methods, Go has no
	// constructors and no default arguments.
	typescript := methods(t, "sdk-typescript.md")
	add(typescript, "Attempt.diff", "Forkcell.__init__")
	remove(t, typescript, "ExecSocket.open")
	golang := methods(t, "sdk-go.md")
	add(golang, "Files.stream", "Forkcell.__init__")
	remove(t, golang, "Forkcell.new", "Forkcell.local", "Forkcell.do", "Cells.create_from", "Cell.files", "Files.open", "Branch.cells", "Race.best", "Session.cell")
	classes := map[string]bool{}
	for name := range python {
		class, _, _ := strings.Cut(name, ".")
		classes[class] = true
	}
	maps.DeleteFunc(golang, func(name string, _ bool) bool { // options and documents are classes there
		class, _, _ := strings.Cut(name, ".")
		return !classes[class]
	})
	want := slices.Sorted(maps.Keys(python))
	if len(want) < 100 {
		t.Fatalf("%d methods only", len(want))
	}
	for language, have := range map[string]map[string]bool{"TypeScript": typescript, "Go": golang} {
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(have))); diff != "" {
			t.Errorf("Python and %s differ:\n%s", language, diff)
		}
	}
}

// methods returns the methods that a reference page lists, as Class.method_name.
func methods(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../docs/reference", page))
	if err != nil {
		t.Fatal(err)
	}
	inGo := map[string]string{"Client": "Forkcell", "BranchAnswer": "Branch", "RaceAnswer": "Race"}
	humps := regexp.MustCompile(`([a-z0-9])([A-Z])`)
	found, class := map[string]bool{}, ""
	for _, m := range regexp.MustCompile("(?m)^(?:## (\\w+)|\\| `(\\w+)\\()").FindAllStringSubmatch(string(text), -1) {
		if m[1] != "" {
			class = m[1]
			if other, ok := inGo[class]; ok {
				class = other
			}
			continue
		}
		found[class+"."+strings.ToLower(humps.ReplaceAllString(m[2], "${1}_$2"))] = true
	}
	return found
}

func add(to map[string]bool, names ...string) {
	for _, n := range names {
		to[n] = true
	}
}

// remove removes names, which must be there.
func remove(t *testing.T, from map[string]bool, names ...string) {
	t.Helper()
	for _, n := range names {
		if !from[n] {
			t.Errorf("%s is not there any more", n)
		}
		delete(from, n)
	}
}
