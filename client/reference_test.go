package client_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated part of the reference page")

const (
	referencePage = "../docs/reference/sdk-go.md"
	generated     = "<!-- The rest is generated: go test ./client -run TestReference -update -->\n"
)

// TestReference holds the page to the package: every exported function and method
// with its signature and first sentence.
func TestReference(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(text), generated)
	if !ok {
		t.Fatalf("%s has no generated part", referencePage)
	}
	want := head + generated + reference(t)
	if *update {
		if err := os.WriteFile(referencePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is not that of the package; refresh it with -update", referencePage)
	}
}

func reference(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	pkg, err := doc.NewFromFiles(fset, files, "github.com/forkcell/forkcell/client")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	section(&b, pkg, fset, "Functions", pkg.Funcs)
	for _, typ := range pkg.Types {
		section(&b, pkg, fset, typ.Name, append(typ.Funcs, typ.Methods...))
	}
	return b.String()
}

func section(b *strings.Builder, pkg *doc.Package, fset *token.FileSet, title string, funcs []*doc.Func) {
	if len(funcs) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n| | |\n|---|---|\n", title)
	for _, f := range funcs {
		decl := *f.Decl
		decl.Doc, decl.Body, decl.Recv = nil, nil, nil
		var text bytes.Buffer
		_ = printer.Fprint(&text, fset, &decl) // a buffer takes everything
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.TrimPrefix(text.String(), "func "), pkg.Synopsis(f.Doc))
	}
}
