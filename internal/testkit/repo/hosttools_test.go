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

// ownSearch lists the packages that look for programs of the host themselves, and why.
func ownSearch() map[string]string {
	return map[string]string{
		"internal/storage/hosttool":        "it is the place for it",
		"client":                           "programs of others import it: the caller names forkcell, and it links nothing of the sandbox",
		"internal/testkit/disktest":        "for tests",
		"internal/sandbox/kernel/syscalls": "its generator runs when the program is developed",
	}
}

// TestHostTools looks at every call that starts or finds a program of the host. A search
// along PATH is done by internal/storage/hosttool alone, which leaves out what cells have written.
func TestHostTools(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, p := range packages(t) {
		apart := slices.ContainsFunc(apart(), func(a string) bool { return strings.HasPrefix(p.name()+"/", a+"/") })
		if _, own := ownSearch()[p.name()]; own || apart || strings.HasSuffix(p.name(), "test") {
			continue
		}
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if name, bad := searches(call); name != "" {
					seen++
					if bad {
						t.Errorf("%s: %s searches PATH: use internal/storage/hosttool", fset.Position(call.Pos()), name)
					}
				}
				return true
			})
		}
	}
	if seen < 8 {
		t.Errorf("only %d programs of the host are started", seen)
	}
}

// searches returns the function of os/exec that a call calls, or "", and whether it
// searches PATH: LookPath does, and a start of a program whose name is a plain word.
func searches(call *ast.CallExpr) (name string, bad bool) {
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	if x, ok := fn.X.(*ast.Ident); !ok || x.Name != "exec" {
		return "", false
	}
	at := map[string]int{"Command": 0, "CommandContext": 1}
	switch i, starts := at[fn.Sel.Name]; {
	case fn.Sel.Name == "LookPath":
		return "exec.LookPath", true
	case starts:
		program, literal := call.Args[i].(*ast.BasicLit)
		return "exec." + fn.Sel.Name, literal && !strings.Contains(program.Value, "/")
	}
	return "", false
}
