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
func racing() []namedTests {
	return []namedTests{
		{pkg: "internal/storage/fsx"},
		{pkg: "internal/storage/store"},
		{"internal/storage/tree", []string{"TestParallelWriters"}},
		{"internal/sandbox/driver/native", []string{"TestContract"}},
		{"internal/storage/workspace", []string{"TestSuite/Compose", "TestSuite/Sweep", "TestSourceChanges"}},
		{"internal/engine", []string{"TestTwoAtOnce", "TestManyCellsAtOnce", "TestGCWhileACommandRuns", "TestAcceptAndApply", "TestManyCallers"}},
		{"internal/engine/race", []string{"TestManyAtOnce", "TestCancelled", "TestEvents"}},
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
	const tags = "failpoints,probes"
	tagged, err := taggedPackages(ctx, tags)
	if err != nil {
		return err
	}
	return errors.Join(stream(ctx, "go", "vet", "./..."), stream(ctx, "go", append([]string{"vet", "-tags", tags}, tagged...)...))
}

// testStep runs all tests. Beside them the soak runs, which takes its time and little
// of the processors.
func testStep(ctx context.Context, r *run) error {
	all, err := r.builds.plain(ctx)
	if err != nil {
		return err
	}
	soaked := make(chan error, 1)
	go func() {
		i := slices.IndexFunc(all, func(b binary) bool { return b.pkg == "internal/front/daemon" })
		limit := r.opts.soak + 10*time.Minute
		soaked <- caller().test(ctx, r, "soak", all[i], "-test.run=^TestSoak$", "-test.timeout="+limit.String(), "-soak="+r.opts.soak.String())
	}()
	return errors.Join(caller().tests(ctx, r, "test", all, "-test.skip="+selfUser+"|^TestSoak$"), <-soaked)
}

func raceStep(ctx context.Context, r *run) error {
	if _, err := exec.LookPath("gcc"); err != nil {
		return skippedStep("the race detector needs a C compiler: " + err.Error())
	}
	binaries, err := r.builds.compile(ctx, "race", racing(), "-race")
	if err != nil {
		return err
	}
	return caller().tests(ctx, r, "race", binaries, "-test.skip="+selfUser)
}

// crashStep runs the tests that exist only with failpoints compiled in.
func crashStep(ctx context.Context, r *run) error {
	return tagStep(ctx, r, "crash", r.builds.failpoints)
}

// probesStep runs the tests that leave controls off.
func probesStep(ctx context.Context, r *run) error { return tagStep(ctx, r, "probes", r.builds.probes) }

// tagStep runs the tests that exist only with a build tag.
func tagStep(ctx context.Context, r *run, step string, build func(context.Context) ([]binary, error)) error {
	binaries, err := build(ctx)
	if err != nil {
		return err
	}
	return caller().tests(ctx, r, step, binaries)
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

// fuzzStep runs every fuzz target for a short while. A number of inputs rather
// than a time: go test now and then calls a target that its deadline interrupts
// failed ("context deadline exceeded").
func fuzzStep(ctx context.Context, r *run) error {
	packages, err := declaredTests(ctx, "Fuzz")
	if err != nil {
		return err
	}
	if r.opts.guided {
		return sideBySide(packages, func(n namedTests) error { return guided(ctx, r, n) })
	}
	all, err := r.builds.plain(ctx)
	if err != nil {
		return err
	}
	return sideBySide(packages, func(n namedTests) error {
		b := all[slices.IndexFunc(all, func(b binary) bool { return b.pkg == n.pkg })]
		b.tests = n.tests
		return fuzz(ctx, r, b)
	})
}

// guided runs the targets of a package with coverage that guides their inputs. To
// instrument all packages for it takes longer than the few inputs of a usual run, which
// hardly gain from it. The go command does it for one package at a time.
func guided(ctx context.Context, r *run, n namedTests) error {
	binaries, err := r.builds.compile(ctx, "fuzz", []namedTests{n}, "-fuzz", "^")
	if err != nil {
		return err
	}
	return fuzz(ctx, r, binaries[0])
}

// fuzz runs the targets of a package, one after the other. Inputs that earlier runs
// found are in the cache, where go test -fuzz keeps them.
func fuzz(ctx context.Context, r *run, b binary) error {
	cache, err := output(ctx, "go", "env", "GOCACHE")
	if err != nil {
		return err
	}
	dir := filepath.Join(strings.TrimSpace(cache), "fuzz", module, filepath.FromSlash(b.pkg))
	var errs []error
	for _, target := range b.tests {
		cmd := exec.CommandContext(ctx, b.file, "-test.v=test2json", "-test.paniconexit0", "-test.run=^$", "-test.fuzz=^"+target+"$", "-test.parallel=1",
			"-test.fuzztime="+r.opts.fuzzTime, "-test.fuzzminimizetime=1x", "-test.fuzzcachedir="+dir)
		cmd.Dir = filepath.FromSlash(b.pkg)
		errs = append(errs, r.results.runBinary(ctx, "fuzz", b.pkg, cmd))
	}
	return errors.Join(append(errs, r.results.checkKnown("fuzz", b.namedTests))...)
}

// declaredTests returns the functions of tests whose names begin with a word, by package. It
// reads the source: to ask the tests themselves, each of their binaries would have to be
// linked.
func declaredTests(ctx context.Context, word string, flags ...string) ([]namedTests, error) {
	const format = `{{.ImportPath}}{{$d := .Dir}}{{range .TestGoFiles}}{{"\t"}}{{$d}}/{{.}}{{end}}{{range .XTestGoFiles}}{{"\t"}}{{$d}}/{{.}}{{end}}`
	lines, err := list(ctx, format, flags...)
	if err != nil {
		return nil, err
	}
	function := regexp.MustCompile(`(?m)^func (` + word + `\w+)\(\w+ \*testing\.[TF]\)`)
	var packages []namedTests
	for _, line := range lines {
		fields := strings.Split(line, "\t")
		n := namedTests{pkg: pathWithin(fields[0])}
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
			packages = append(packages, n)
		}
	}
	return packages, nil
}

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
