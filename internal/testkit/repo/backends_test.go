package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBackendNames holds that code of the workspace asks its backend to do the
// work: only the file that picks the implementation knows a backend by name.
func TestBackendNames(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "storage", "workspace", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	const picker = "backend.go"
	picked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || !slices.Contains([]string{"BackendOverlay", "BackendClone", "BackendDelta"}, id.Name) {
				return true
			}
			if filepath.Base(name) == picker {
				picked++
			} else {
				t.Errorf("%s: %s: let the backend do what differs, see %s", fset.Position(id.Pos()), id.Name, picker)
			}
			return true
		})
	}
	if picked == 0 {
		t.Errorf("%s names no backend: has it moved?", picker)
	}
}
