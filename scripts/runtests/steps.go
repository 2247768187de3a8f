package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const module = "github.com/forkcell/forkcell"

// selfUser are tests that run their package again as an ordinary user. They are
// for go test by hand: the user step does the same, as a real account.
const selfUser = "^TestAsOrdinaryUser$"

// racing are the tests that run again under the race detector: all of the quick
// packages with their own goroutines, and of the slow ones those tests that
// do several things at once.
func racing() (whole []string, parts []named) {
	return []string{"./internal/fsx", "./internal/store"}, []named{
		{module + "/internal/tree", []string{"TestParallelWriters"}},
		{module + "/internal/driver/native", []string{"TestContract"}},
		{module + "/internal/workspace", []string{"TestCompose", "TestSourceChanges", "TestSweep"}},
		{module + "/internal/cell", []string{"TestTwoAtOnce", "TestManyCellsAtOnce", "TestGCWhileACommandRuns", "TestAcceptAndApply", "TestManyCallers"}},
		{module + "/internal/race", []string{"TestManyAtOnce", "TestCancelled", "TestEvents"}},
	}
}

func formatStep(ctx context.Context, _ *run) error {
	out, err := output(ctx, "gofmt", "-l", ".")
	if err != nil {
		return err
	}
	if out != "" {
		return fmt.Errorf("gofmt would change: %s", strings.Join(strings.Fields(out), " "))
	}
	return nil
}

func vetStep(ctx context.Context, _ *run) error {
	return errors.Join(stream(ctx, "go", "vet", "./..."), stream(ctx, "go", "vet", "-tags", "failpoints,probes", "./..."))
}

// testStep runs all tests. Beside them the soak runs, which takes its time and little
// of the processors.
func testStep(ctx context.Context, r *run) error {
	soaked := make(chan error, 1)
	go func() {
		limit := r.opts.soak + 10*time.Minute
		soaked <- goTest(ctx, r, "soak", "-timeout", limit.String(), "-run", "^TestSoak$", "./internal/full", "-soak", r.opts.soak.String())
	}()
	err := goTestSeeded(ctx, r, "test", []string{"./..."}, "-skip", selfUser)
	return errors.Join(err, <-soaked)
}

func raceStep(ctx context.Context, r *run) error {
	if _, err := exec.LookPath("gcc"); err != nil {
		return skipped("the race detector needs a C compiler: " + err.Error())
	}
	whole, parts := racing()
	errs := []error{goTestSeeded(ctx, r, "race", whole, "-race", "-skip", selfUser)}
	// One go test for all of them compiles and runs side by side.
	var all named
	args := []string{"-race"}
	for _, n := range parts {
		args = append(args, n.pkg)
		all.tests = append(all.tests, n.tests...)
	}
	errs = append(errs, goTest(ctx, r, "race", append(args, "-run", all.pattern())...))
	for _, n := range parts {
		errs = append(errs, r.results.ran("race", n))
	}
	return errors.Join(errs...)
}

// crashStep runs the tests that exist only with failpoints compiled in.
func crashStep(ctx context.Context, r *run) error { return tagStep(ctx, r, "crash", "failpoints") }

// probesStep runs the tests that leave controls off.
func probesStep(ctx context.Context, r *run) error { return tagStep(ctx, r, "probes", "probes") }

// tagStep runs the tests that exist only with a build tag.
func tagStep(ctx context.Context, r *run, step, tag string) error {
	tests, err := taggedTests(ctx, tag)
	if err != nil {
		return err
	}
	return sideBySide(tests, func(t named) error {
		err := goTest(ctx, r, step, "-tags", tag, "-run", t.pattern(), t.pkg)
		return errors.Join(err, r.results.ran(step, t))
	})
}

// sideBySide does something with each of a list, as many at a time as there are
// processors.
func sideBySide[T any](list []T, do func(T) error) error {
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	errs := make([]error, len(list))
	for i, one := range list {
		slots <- struct{}{}
		wait.Go(func() {
			errs[i] = do(one)
			<-slots
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// atOnce is how many tests of a package run at once. Most of them wait for the disk
// half of their time.
func atOnce() string { return strconv.Itoa(2 * runtime.GOMAXPROCS(0)) }

// named are tests of one package, which has its full import path.
type named struct {
	pkg   string
	tests []string
}

func (n named) pattern() string { return "^(" + strings.Join(n.tests, "|") + ")$" }

// taggedTests returns the tests that exist only with a build tag, by package.
func taggedTests(ctx context.Context, tag string) ([]named, error) {
	with, err := declared(ctx, "Test", "-tags", tag)
	if err != nil {
		return nil, err
	}
	without, err := declared(ctx, "Test")
	if err != nil {
		return nil, err
	}
	plain := map[string][]string{}
	for _, n := range without {
		plain[n.pkg] = n.tests
	}
	var list []named
	for _, n := range with {
		n.tests = slices.DeleteFunc(n.tests, func(t string) bool { return slices.Contains(plain[n.pkg], t) })
		if len(n.tests) > 0 {
			list = append(list, n)
		}
	}
	return list, nil
}

// fuzzStep runs every fuzz target for a short while. A number of inputs rather
// than a time: go test now and then calls a target that its deadline interrupts
// failed ("context deadline exceeded").
func fuzzStep(ctx context.Context, r *run) error {
	packages, err := declared(ctx, "Fuzz")
	if err != nil {
		return err
	}
	cache, err := output(ctx, "go", "env", "GOCACHE")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "forkcell-fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f := fuzzing{dir: dir, cache: filepath.Join(strings.TrimSpace(cache), "fuzz")}
	// Much of the time is spent linking, on one processor.
	return sideBySide(packages, func(n named) error { return f.targets(ctx, r, n) })
}

// fuzzing is where the fuzz step keeps files.
type fuzzing struct {
	dir   string // of the binaries
	cache string // of the inputs that earlier runs found, as go test -fuzz keeps them
}

// targets links the targets of a package once, and runs one after the other.
func (f fuzzing) targets(ctx context.Context, r *run, n named) error {
	path := strings.TrimPrefix(n.pkg, module+"/")
	file := filepath.Join(f.dir, strings.ReplaceAll(path, "/", "-")+".test")
	if err := stream(ctx, "go", "test", "-c", "-vet=off", "-ldflags", noSymbols, "-fuzz", "^", "-o", file, n.pkg); err != nil {
		return err
	}
	var errs []error
	for _, target := range n.tests {
		cmd := exec.CommandContext(ctx, file, "-test.v=test2json", "-test.paniconexit0", "-test.run=^$", "-test.fuzz=^"+target+"$", "-test.parallel=1",
			"-test.fuzztime="+r.opts.fuzzTime, "-test.fuzzminimizetime=1x", "-test.fuzzcachedir="+filepath.Join(f.cache, n.pkg))
		cmd.Dir = filepath.FromSlash(path)
		errs = append(errs, r.results.runBinary(ctx, "fuzz", path, cmd))
	}
	return errors.Join(append(errs, r.results.ran("fuzz", n))...)
}

// declared returns the functions of tests whose names begin with a word, by package. It
// reads the source: to ask the tests themselves, each of their binaries would have to be
// linked.
func declared(ctx context.Context, word string, flags ...string) ([]named, error) {
	const format = `{{.ImportPath}}{{$d := .Dir}}{{range .TestGoFiles}}{{"\t"}}{{$d}}/{{.}}{{end}}{{range .XTestGoFiles}}{{"\t"}}{{$d}}/{{.}}{{end}}`
	out, err := output(ctx, "go", slices.Concat([]string{"list", "-f", format}, flags, []string{"./..."})...)
	if err != nil {
		return nil, err
	}
	function := regexp.MustCompile(`(?m)^func (` + word + `\w+)\(\w+ \*testing\.[TF]\)`)
	var list []named
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		n := named{pkg: fields[0]}
		for _, file := range fields[1:] {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, m := range function.FindAllSubmatch(data, -1) {
				n.tests = append(n.tests, string(m[1]))
			}
		}
		if len(n.tests) > 0 {
			list = append(list, n)
		}
	}
	return list, nil
}

// seed makes property tests draw the same cases in every run here: a run fails
// because of a change, not by chance. go test by hand draws others each time.
const seed = "-rapid.seed=1"

// goTestSeeded runs go test for packages, those with property tests first.
func goTestSeeded(ctx context.Context, r *run, step string, patterns []string, flags ...string) error {
	drawing, others, err := properties(ctx, patterns)
	if err != nil {
		return err
	}
	var errs []error
	if len(drawing) > 0 {
		errs = append(errs, goTest(ctx, r, step, slices.Concat(flags, drawing, []string{seed})...))
	}
	if len(others) > 0 {
		errs = append(errs, goTest(ctx, r, step, slices.Concat(flags, others)...))
	}
	return errors.Join(errs...)
}

// properties parts packages into those whose tests draw cases and the others.
func properties(ctx context.Context, patterns []string) (drawing, others []string, err error) {
	const format = `{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}`
	out, err := output(ctx, "go", append([]string{"list", "-f", format}, patterns...)...)
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if slices.Contains(fields[1:], "pgregory.net/rapid") {
			drawing = append(drawing, fields[0])
		} else {
			others = append(others, fields[0])
		}
	}
	return drawing, others, nil
}

// goTest runs go test and takes its results. Vet has had its own step.
func goTest(ctx context.Context, r *run, step string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-vet=off", "-timeout", "20m", "-parallel", atOnce()}, args...)...)
	cmd.Stderr = os.Stderr
	// -race needs cgo; nothing else here uses it.
	if slices.Contains(args, "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	return r.results.follow(step, cmd)
}

// noSymbols makes smaller binaries, which are linked faster. go test does the same for
// those that it runs itself.
const noSymbols = "-s -w"

// runBinary runs the compiled tests of a package, and takes their results.
func (r *results) runBinary(ctx context.Context, step, pkg string, cmd *exec.Cmd) error {
	reader := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", "-p", module+"/"+pkg)
	reader.Stderr = os.Stderr
	in, err := reader.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = in, in
	// A process that a test left behind may not hold the pipe for ever.
	cmd.WaitDelay = 10 * time.Second
	done := make(chan error, 1)
	go func() {
		err := cmd.Run()
		_ = in.Close()
		done <- err
	}()
	return errors.Join(r.follow(step, reader), wrap(cmd, <-done))
}

// follow starts a command that writes events, reads them, and waits for it.
func (r *results) follow(step string, cmd *exec.Cmd) error {
	// An interrupted go test takes its tests along; a killed one leaves them.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := r.read(step, out)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, out)
	}
	return errors.Join(readErr, wrap(cmd, cmd.Wait()))
}

func wrap(cmd *exec.Cmd, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
}

// stream runs a command and passes its output on.
func stream(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return wrap(cmd, cmd.Run())
}

// output runs a command for what it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s%s", wrap(cmd, err), stderr.String(), out)
	}
	return string(out), nil
}
