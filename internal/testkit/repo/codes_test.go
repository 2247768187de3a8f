package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestCodes finds codes of errors that are written as strings: a misspelt one compiles.
func TestCodes(t *testing.T) {
	t.Parallel()
	var codes []string
	for _, c := range api.Codes() {
		codes = append(codes, string(c.Code))
	}
	places := 0
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || !strings.HasPrefix(name, "internal/") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, read(t, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			for _, e := range placesOfCodes(n) {
				places++
				if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && slices.Contains(codes, text) {
						t.Errorf("%s: write the constant of package api in place of %s", fset.Position(lit.Pos()), lit.Value)
					}
				}
			}
			return true
		})
	}
	if places < 300 {
		t.Errorf("only %d places of codes were found", places)
	}
}

// placesOfCodes returns the expressions directly below a node that are codes of errors, by
// the name of what takes them: a field, or a function of package api.
func placesOfCodes(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
			return []ast.Expr{n.Value}
		}
	case *ast.BinaryExpr:
		if isCode(n.X) || isCode(n.Y) {
			return []ast.Expr{n.X, n.Y}
		}
	case *ast.AssignStmt:
		if slices.ContainsFunc(n.Lhs, isCode) {
			return n.Rhs
		}
	case *ast.CallExpr:
		if takesCode(n.Fun) && len(n.Args) > 1 {
			return n.Args[:2]
		}
	}
	return nil
}

func isCode(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name == "Code"
	case *ast.CallExpr:
		fn, ok := e.Fun.(*ast.SelectorExpr)
		return ok && fn.Sel.Name == "CodeOf"
	}
	return false
}

func takesCode(fn ast.Expr) bool {
	switch fn := fn.(type) {
	case *ast.SelectorExpr:
		return slices.Contains([]string{"Refusef", "Failf", "WithHint"}, fn.Sel.Name)
	case *ast.Ident:
		return fn.Name == "refusal"
	}
	return false
}
