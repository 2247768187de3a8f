package main

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// namedTests are tests of one package.
type namedTests struct {
	pkg   string   // import path within the module
	tests []string // none: all of them
}

// pattern is the regular expression of the tests, for -test.run.
func (n namedTests) pattern() string {
	var patterns []string
	for _, test := range n.tests {
		patterns = append(patterns, patternOf(test))
	}
	return strings.Join(patterns, "|")
}

// patternOf is that of one test, which may be below another.
func patternOf(test string) string {
	var parts []string
	for part := range strings.SplitSeq(test, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

// has reports whether a test is among them, or below one.
func (n namedTests) has(test string) bool {
	return len(n.tests) == 0 || slices.ContainsFunc(n.tests, func(name string) bool {
		return test == name || strings.HasPrefix(test, name+"/") || strings.HasPrefix(name, test+"/")
	})
}

// binary is one compiled package of tests.
type binary struct {
	namedTests
	file  string
	draws bool // it has property tests
}

// builds are the compiled tests. Each kind is linked once, however many steps run it.
type builds struct {
	dir                       string
	plain, failpoints, probes func(context.Context) ([]binary, error)
}

func newBuilds() (*builds, error) {
	dir, err := os.MkdirTemp("", "forkcell-tests-")
	if err != nil {
		return nil, err
	}
	b := &builds{dir: dir}
	b.plain = once(func(ctx context.Context) ([]binary, error) {
		all, err := tested(ctx)
		if err != nil {
			return nil, err
		}
		return b.compile(ctx, "plain", all)
	})
	tagged := func(tag string) func(context.Context) ([]binary, error) {
		return once(func(ctx context.Context) ([]binary, error) {
			tests, err := taggedTests(ctx, tag)
			if err != nil {
				return nil, err
			}
			return b.compile(ctx, tag, tests, "-tags", tag)
		})
	}
	b.failpoints, b.probes = tagged("failpoints"), tagged("probes")
	// An ordinary user has to find the binaries.
	return b, os.Chmod(dir, 0o755)
}

// once returns a function that calls another one only the first time.
func once(do func(context.Context) ([]binary, error)) func(context.Context) ([]binary, error) {
	var first sync.Once
	var list []binary
	var err error
	return func(ctx context.Context) ([]binary, error) {
		first.Do(func() { list, err = do(ctx) })
		return list, err
	}
}

func (b *builds) remove() { _ = os.RemoveAll(b.dir) }

// compile makes a directory of binaries. One call of the go command compiles and links
// side by side. It names binaries after the last part of their package's path, and
// refuses two of one name.
func (b *builds) compile(ctx context.Context, kind string, tests []namedTests, flags ...string) ([]binary, error) {
	dir := filepath.Join(b.dir, kind)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	drawing, err := properties(ctx)
	if err != nil {
		return nil, err
	}
	// Smaller binaries are linked faster. Vet has had its own step.
	args := slices.Concat([]string{"test", "-c", "-vet=off", "-ldflags", "-s -w", "-o", dir + "/"}, flags)
	var list []binary
	for _, n := range tests {
		args = append(args, "./"+n.pkg)
		list = append(list, binary{namedTests: n, file: filepath.Join(dir, path.Base(n.pkg)+".test"), draws: slices.Contains(drawing, n.pkg)})
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// -race needs cgo; nothing else here uses it.
	if slices.Contains(flags, "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	return list, wrap(cmd, cmd.Run())
}

// tested returns the packages that have tests.
func tested(ctx context.Context) ([]namedTests, error) {
	lines, err := list(ctx, `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}`)
	var all []namedTests
	for _, line := range lines {
		if line != "" {
			all = append(all, namedTests{pkg: pathWithin(line)})
		}
	}
	return all, err
}

// properties returns the packages whose tests draw cases, themselves or by a suite that
// they call.
func properties(ctx context.Context) ([]string, error) {
	const rapid = "pgregory.net/rapid"
	suites, err := list(ctx, `{{.ImportPath}} {{join .Imports " "}}`)
	if err != nil {
		return nil, err
	}
	draw := []string{rapid}
	for _, line := range suites {
		if fields := strings.Fields(line); slices.Contains(fields[1:], rapid) {
			draw = append(draw, fields[0])
		}
	}
	lines, err := list(ctx, `{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}`)
	var drawing []string
	for _, line := range lines {
		fields := strings.Fields(line)
		if slices.ContainsFunc(fields[1:], func(used string) bool { return slices.Contains(draw, used) }) {
			drawing = append(drawing, pathWithin(fields[0]))
		}
	}
	return drawing, err
}

// taggedTests returns the tests that exist only with a build tag, by package.
func taggedTests(ctx context.Context, tag string) ([]namedTests, error) {
	with, err := declaredTests(ctx, "Test", "-tags", tag)
	if err != nil {
		return nil, err
	}
	without, err := declaredTests(ctx, "Test")
	if err != nil {
		return nil, err
	}
	plain := map[string][]string{}
	for _, n := range without {
		plain[n.pkg] = n.tests
	}
	var list []namedTests
	for _, n := range with {
		n.tests = slices.DeleteFunc(n.tests, func(t string) bool { return slices.Contains(plain[n.pkg], t) })
		if len(n.tests) > 0 {
			list = append(list, n)
		}
	}
	return list, nil
}

// taggedPackages returns the packages, as patterns, that have other files with build
// tags than without.
func taggedPackages(ctx context.Context, tags string) ([]string, error) {
	const format = `{{.ImportPath}} {{.GoFiles}} {{.TestGoFiles}} {{.XTestGoFiles}}`
	plain, err := list(ctx, format)
	if err != nil {
		return nil, err
	}
	with, err := list(ctx, format, "-tags", tags)
	if err != nil {
		return nil, err
	}
	var packages []string
	for _, line := range with {
		if !slices.Contains(plain, line) {
			packages = append(packages, "./"+pathWithin(strings.Fields(line)[0]))
		}
	}
	return packages, nil
}

// list returns a line of go list for each package.
func list(ctx context.Context, format string, flags ...string) ([]string, error) {
	out, err := output(ctx, "go", slices.Concat([]string{"list", "-f", format}, flags, []string{"./..."})...)
	return strings.Split(strings.TrimSpace(out), "\n"), err
}

// pathWithin returns an import path within the module.
func pathWithin(path string) string { return strings.TrimPrefix(path, module+"/") }
