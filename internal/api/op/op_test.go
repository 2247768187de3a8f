package op_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api/op"
)

// TestAll finds each value of the package in All, and no other.
func TestAll(t *testing.T) {
	t.Parallel()
	var declared, listed []string
	for _, spec := range specs(t) {
		for i, value := range spec.Values {
			if lit, ok := value.(*ast.CompositeLit); ok && isOp(lit.Type) {
				declared = append(declared, spec.Names[i].Name)
			}
		}
	}
	for _, a := range op.All() {
		o := a.Head()
		listed = append(listed, strings.ToUpper(o.ID[:1])+o.ID[1:])
	}
	for i, id := range listed {
		switch id {
		case "Mcp":
			listed[i] = "MCP"
		case "Openapi":
			listed[i] = "OpenAPI"
		}
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) || len(slices.Compact(listed)) != len(declared) {
		t.Errorf("declared and listed operations differ:\n%s\n%s", declared, listed)
	}
}

func isOp(e ast.Expr) bool {
	if of, ok := e.(*ast.IndexListExpr); ok {
		e = of.X
	}
	name, ok := e.(*ast.Ident)
	return ok && (name.Name == "Op" || name.Name == "Verb")
}

// specs returns the variables of the package.
func specs(t *testing.T) (list []*ast.ValueSpec) {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					list = append(list, v)
				}
			}
		}
	}
	return list
}

// TestRights holds the rights of all operations to the rules of docs/reference/tokens.md.
func TestRights(t *testing.T) {
	t.Parallel()
	everybody := map[string]string{
		"health": "a probe of the host has no token", "ready": "as health", "version": "a client asks before it signs in",
		"pages": "a visitor signs in there",
	}
	// They destroy something, and need no more than run.
	mayDestroy := map[string]string{
		"removeCell":    "it can be brought back; what only the cell has needs decide, too",
		"removeSession": "as removeCell", "updateCell": "the name and settings, no work",
		"writeFile": "the state before the start of the live cell stays", "removeFile": "as writeFile", "moveFile": "as writeFile", "copyFiles": "as writeFile",
	}
	for _, a := range op.All() {
		o := a.Head()
		has := func(s op.Scope) bool { return slices.Contains(o.Needs, s) }
		if _, named := everybody[o.ID]; named == (len(o.Needs) > 0) {
			t.Errorf("%s needs %v", o.ID, o.Needs)
		}
		delete(everybody, o.ID)
		if o.Effect != op.Reads && !has(op.ScopeRun) && !has(op.ScopeAdmin) {
			t.Errorf("%s changes something, and needs %v", o.ID, o.Needs)
		}
		if has(op.ScopeDecide) && !has(op.ScopeRun) {
			t.Errorf("%s: a decision changes the cell, and needs %v", o.ID, o.Needs)
		}
		if has(op.ScopeUnbounded) && !has(op.ScopeAdmin) {
			t.Errorf("%s: only admin is about the whole home, not %v", o.ID, o.Needs)
		}
		_, named := mayDestroy[o.ID]
		if destroys := o.Effect == op.Destroys && !has(op.ScopeDecide) && !has(op.ScopeAdmin); destroys != named {
			t.Errorf("%s destroys something, and needs %v: decide, admin or a reason", o.ID, o.Needs)
		}
		delete(mayDestroy, o.ID)
	}
	if len(everybody)+len(mayDestroy) > 0 {
		t.Errorf("there are no operations %v %v", everybody, mayDestroy)
	}
}

// TestValues holds what each value says to its method and kind.
func TestValues(t *testing.T) {
	t.Parallel()
	ids, requests := map[string]bool{}, map[string]bool{}
	for _, a := range op.All() {
		o := a.Head()
		if ids[o.ID] || requests[o.Method+" "+o.Path] {
			t.Errorf("two operations are called %s, or %s %s", o.ID, o.Method, o.Path)
		}
		ids[o.ID], requests[o.Method+" "+o.Path] = true, true
		if o.Summary == "" || !strings.HasPrefix(o.Path, "/") || (o.Tag == "") != (o.Kind == op.KindMounted) {
			t.Errorf("%s: incomplete", o.ID)
		}
		if (o.Method == "PUT" || o.Method == "DELETE") && o.Kind != op.KindProxy && !o.Idempotent {
			t.Errorf("%s: %s can be sent twice", o.ID, o.Method)
		}
		if o.Effect == op.Reads && (o.Idempotent || o.Open) {
			t.Errorf("%s only reads", o.ID)
		}
		if (o.Kind == op.KindSocket) != (o.Status == 101) {
			t.Errorf("%s: a socket switches protocols", o.ID)
		}
		if o.Kind == op.KindProxy && (o.Path != op.GetPort.Path || !slices.Equal(o.Needs, op.GetPort.Needs)) {
			t.Errorf("%s needs other rights than another method", o.ID)
		}
	}
}

func TestAt(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"/v1/cells/a%2Fb%7Bc%7D/exec/x%20y": op.Attach.At("a/b{c}", "x y"),
		"/v1/cells/demo/ports/80/":          op.GetPort.At("demo", "80", ""),
		"/v1/cells":                         op.ListCells.At(),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
