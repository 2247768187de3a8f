package repo

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// maxCircles is how many calls between files of internal/engine, or of a group of verbs
// that has left it, may go to a file that leads back to the calling one. A reader who
// follows them walks in circles.
const maxCircles = 6

// TestCallsGoDown counts the pairs of files of one package, one calling the other, that are
// part of a circle.
func TestCallsGoDown(t *testing.T) {
	t.Parallel()
	var circles []string
	callers := 0
	for _, pkg := range []string{"", "/applies", "/aside", "/diff", "/held", "/merge", "/publication"} {
		calls := fileCalls(t, "./internal/engine"+pkg)
		callers += len(calls)
		for from, list := range calls {
			for to := range list {
				if leadsTo(calls, to, from, map[string]bool{}) {
					circles = append(circles, pkg+" "+from+" -> "+to)
				}
			}
		}
	}
	slices.Sort(circles)
	if len(circles) > maxCircles {
		t.Errorf("%d calls go up, at most %d may: %v", len(circles), maxCircles, circles)
	}
	if callers < 60 {
		t.Errorf("only %d files with calls were found", callers)
	}
}

func leadsTo(calls map[string]map[string]bool, from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	for next := range calls[from] {
		if leadsTo(calls, next, to, seen) {
			return true
		}
	}
	return false
}

// fileCalls returns which file of a package calls functions of which others.
func fileCalls(t *testing.T, pkg string) map[string]map[string]bool {
	t.Helper()
	fset := token.NewFileSet()
	files, info := typeCheck(t, fset, pkg)
	base := func(p token.Pos) string { return filepath.Base(fset.Position(p).Filename) }
	calls := map[string]map[string]bool{}
	for _, f := range files {
		from := base(f.Pos())
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			called, ok := callee(info, call).(*types.Func)
			if !ok || called.Pkg() == nil || called.Pkg().Path() != module+pkg[1:] || base(called.Pos()) == from {
				return true
			}
			if calls[from] == nil {
				calls[from] = map[string]bool{}
			}
			calls[from][base(called.Pos())] = true
			return true
		})
	}
	return calls
}

func callee(info *types.Info, call *ast.CallExpr) types.Object {
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return info.Uses[fn]
	case *ast.SelectorExpr:
		return info.Uses[fn.Sel]
	}
	return nil
}

// typeCheck reads a package, with what the compiler knows of its imports.
func typeCheck(t *testing.T, fset *token.FileSet, pkg string) ([]*ast.File, *types.Info) {
	t.Helper()
	cmd := exec.Command("go", "list", "-buildvcs=false", "-deps", "-export", "-json=ImportPath,Export,Dir,GoFiles", pkg)
	cmd.Dir = "../../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	type listed struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
	}
	exports, last := map[string]string{}, listed{}
	for dec := json.NewDecoder(out); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath], last = p.Export, p
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range last.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(last.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("nothing is known of %s", path)
		}
		return os.Open(exports[path])
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	if _, err := config.Check(last.ImportPath, fset, files, info); err != nil {
		t.Fatal(err)
	}
	return files, info
}
