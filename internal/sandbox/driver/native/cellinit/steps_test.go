package cellinit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
)

var (
	missedProbe = regexp.MustCompile(`[Pp]robe "([^"]+)"( fails without it)?`)
	missedTest  = regexp.MustCompile(`\b(Test\w+)(?:/(\w+))?`)
)

// otherControls are controls that steps respect and do not make.
func otherControls() []control.Name {
	return []control.Name{
		control.NetNS, control.PIDNS, control.UserNS, // flags of the clone
		control.InRoot,  // every look-up; see TestPlantedLinks
		control.Workdir, // each command
	}
}

// TestSteps compares the comment of each step of the first process with the code: it has a
// reason, and what it names as missing the step is there. A probe that succeeds without
// the step must be stopped by a control that the step's code asks for; TestProbes shows
// that it succeeds. Each control that the code asks for has such a probe.
func TestSteps(t *testing.T) {
	t.Parallel()
	p := parsePackage(t)
	steps := p.steps(t)
	if len(steps) < 30 {
		t.Fatalf("only %d steps were found", len(steps))
	}
	inSuite, probes := drivertest.Contents()
	tests := testsIn(t, "..")
	shown := map[control.Name]bool{}
	for _, s := range steps {
		if len(s.comment) < 2 || !strings.HasSuffix(s.comment[0], ".") {
			t.Errorf("%s: its comment is not a line with the reason for its place, and a line with what misses it", s.name)
			continue
		}
		last := s.comment[len(s.comment)-1]
		found := missedProbe.FindAllStringSubmatch(last, -1)
		for _, m := range found {
			controls, known := probes[m[1]]
			switch allowed := m[2] != ""; {
			case !known:
				t.Errorf("%s: there is no probe %q", s.name, m[1])
			case allowed && len(controls) > 0:
				t.Errorf("%s: probe %q is an attack: it succeeds without something", s.name, m[1])
			case !allowed && !slices.ContainsFunc(controls, func(c control.Name) bool { return s.controls[c] }):
				t.Errorf("%s: probe %q is stopped by %q, and the step asks for %q", s.name, m[1], controls, slices.Sorted(maps.Keys(s.controls)))
			}
			for _, c := range controls {
				shown[c] = true
			}
		}
		named := missedTest.FindAllStringSubmatch(last, -1)
		for _, m := range named {
			if !slices.Contains(tests, m[1]) || m[2] != "" && !slices.Contains(inSuite, m[2]) {
				t.Errorf("%s: there is no test %s", s.name, m[0])
			}
		}
		if len(found)+len(named) == 0 && !strings.HasPrefix(last, "No probe shows it: ") {
			t.Errorf("%s: its comment names no probe and no test: %s", s.name, last)
		}
	}
	for _, s := range steps {
		for c := range s.controls {
			if !shown[c] && !slices.Contains(otherControls(), c) {
				t.Errorf("%s: no step names a probe that the control %q stops", s.name, c)
			}
		}
	}
}

// packageCode is the package's code, that of all builds.
type packageCode struct {
	set   *token.FileSet
	files []*ast.File
	names map[string]string // of the constants of package control
	// asks has the controls that a function asks for, and calls the functions of the
	// package that it mentions.
	asks  map[string][]control.Name
	calls map[string][]string
}

// stepCode is an entry of a list of steps.
type stepCode struct {
	name     string
	comment  []string
	controls map[control.Name]bool // that its code asks for
}

func parsePackage(t *testing.T) *packageCode {
	t.Helper()
	p := &packageCode{set: token.NewFileSet(), names: map[string]string{}, asks: map[string][]control.Name{}, calls: map[string][]string{}}
	file, err := parser.ParseFile(p.set, "../../control/control.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, is := n.(*ast.ValueSpec); is {
			p.names[v.Names[0].Name] = v.Values[0].(*ast.BasicLit).Value
		}
		return true
	})
	for _, name := range goFiles(t, ".", false) {
		file, err := parser.ParseFile(p.set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		p.files = append(p.files, file)
	}
	for _, file := range p.files {
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				p.calls[f.Name.Name] = append(p.calls[f.Name.Name], p.mentions(f, f.Name.Name)...)
			}
		}
	}
	return p
}

// mentions returns the names that code mentions, and notes the controls that it asks for
// as those of a function. Other lists of steps are not its own.
func (p *packageCode) mentions(code ast.Node, function string) (list []string) {
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			return !isStepList(n)
		case *ast.SelectorExpr:
			if x, is := n.X.(*ast.Ident); is && x.Name == "control" {
				name, _ := strconv.Unquote(p.names[n.Sel.Name])
				p.asks[function] = append(p.asks[function], control.Name(name))
			}
			list = append(list, n.Sel.Name)
		case *ast.Ident:
			list = append(list, n.Name)
		}
		return true
	})
	return list
}

func isStepList(n *ast.CompositeLit) bool {
	a, is := n.Type.(*ast.ArrayType)
	if !is {
		return false
	}
	of, is := a.Elt.(*ast.Ident)
	return is && of.Name == "step"
}

// steps returns the entries of all lists of steps.
func (p *packageCode) steps(t *testing.T) (list []stepCode) {
	t.Helper()
	for _, file := range p.files {
		above := map[int]*ast.CommentGroup{} // by the line after it
		for _, c := range file.Comments {
			above[p.set.Position(c.End()).Line+1] = c
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, is := n.(*ast.CompositeLit)
			if !is || !isStepList(lit) {
				return true
			}
			for _, e := range lit.Elts {
				entry := e.(*ast.CompositeLit)
				name, err := strconv.Unquote(entry.Elts[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				s := stepCode{name: name, controls: map[control.Name]bool{}}
				if c := above[p.set.Position(entry.Pos()).Line]; c != nil {
					s.comment = strings.Split(strings.TrimSpace(c.Text()), "\n")
				}
				p.reach(entry.Elts[1], s.controls)
				list = append(list, s)
			}
			return false
		})
	}
	return list
}

// reach adds the controls that code asks for, and the functions of the package that it
// mentions, and so on.
func (p *packageCode) reach(code ast.Expr, controls map[control.Name]bool) {
	seen := map[string]bool{}
	next := p.mentions(code, "")
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if !seen[name] {
			seen[name] = true
			next = append(next, p.calls[name]...)
			for _, c := range p.asks[name] {
				controls[c] = true
			}
		}
	}
}

// testsIn returns the names of the tests of a directory.
func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, name := range goFiles(t, dir, true) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

func goFiles(t *testing.T, dir string, tests bool) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".go") && strings.HasSuffix(e.Name(), "_test.go") == tests {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}
