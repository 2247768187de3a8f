// Command runtests is `make test`: it runs every kind of test that the
// repository has, step by step, keeps go test's own lines visible, and ends with a
// list of what was skipped and why.
//
// It knows how tests are started and how their results are read. It knows
// nothing of what they test.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	only     string
	fuzzTime string
	guided   bool
	again    bool
	soak     time.Duration
	strict   bool
}

// run carries what the steps share.
type run struct {
	opts    options
	results *results
	builds  *builds
	steps   []outcome
}

// outcome is how one step ended.
type outcome struct {
	name string
	took time.Duration
	err  error
}

// step is one kind of test. A step that returns a skipped error did not run.
type step struct {
	name string
	do   func(context.Context, *run) error
}

// skippedStep says why a whole step could not run here.
type skippedStep string

func (s skippedStep) Error() string { return string(s) }

// stages are the steps, in order. Those of a stage run side by side: where tests wait for
// the disk, for a process or for a time, others have the processors.
func stages() [][]step {
	return [][]step{
		{{"format", formatStep}, {"vet", vetStep}},
		{{"test", testStep}},
		{{"crash", crashStep}, {"probes", probesStep}, {"race", raceStep}},
		{{"user", userStep}, {"fuzz", fuzzStep}},
	}
}

func main() {
	var o options
	var names []string
	for _, s := range slices.Concat(stages()...) {
		names = append(names, s.name)
	}
	flag.StringVar(&o.only, "only", "", "run only these steps, separated by commas: "+strings.Join(names, ", "))
	flag.StringVar(&o.fuzzTime, "fuzztime", "500x", "how long each fuzz target runs: a time, or a number of inputs as 500x")
	flag.BoolVar(&o.guided, "guided", false, "let coverage guide the inputs of fuzz targets; for more than a few of them")
	flag.BoolVar(&o.again, "again", false, "run tests that fail once more, by themselves, and name them at the end; for machines that are shared")
	flag.DurationVar(&o.soak, "soak", 2*time.Minute, "how long requests are sent to a daemon that must not grow")
	flag.BoolVar(&o.strict, "strict", os.Getenv("FORKCELL_TEST_STRICT") != "",
		"fail when a test of scripts/must-run.txt was skipped (also: FORKCELL_TEST_STRICT=1)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := runAll(ctx, o, names)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func runAll(ctx context.Context, o options, names []string) (bool, error) {
	wanted := names
	if o.only != "" {
		wanted = strings.Split(o.only, ",")
		for _, name := range wanted {
			if !slices.Contains(names, name) {
				return false, fmt.Errorf("no step is called %q", name)
			}
		}
	}
	builds, err := newBuilds()
	if err != nil {
		return false, err
	}
	defer builds.remove()
	r := &run{opts: o, results: newResults(os.Stdout), builds: builds}
	for _, stage := range stages() {
		stage = slices.DeleteFunc(stage, func(s step) bool { return !slices.Contains(wanted, s.name) })
		if ctx.Err() == nil {
			r.steps = append(r.steps, r.runStage(ctx, stage)...)
		}
	}
	ok := r.summary(os.Stdout)
	if o.strict && o.only == "" {
		if why := r.skippedStep(); why != nil && os.Geteuid() == 0 {
			fmt.Printf("FAIL: a step may not skip here: %v\n", why)
			ok = false
		}
		must, err := readMustRun("scripts/must-run.txt")
		if err != nil {
			return false, err
		}
		for _, miss := range r.results.missingTests(must) {
			fmt.Printf("FAIL: %s may not skip here, and no step ran it\n", miss)
			ok = false
		}
	}
	return ok && ctx.Err() == nil, ctx.Err()
}

// runStage runs steps side by side, and returns how each ended.
func (r *run) runStage(ctx context.Context, stage []step) []outcome {
	outcomes := make([]outcome, len(stage))
	var wait sync.WaitGroup
	for i, s := range stage {
		r.results.print(fmt.Sprintf("\n--- step %s\n", s.name))
		wait.Go(func() {
			begin := time.Now()
			err := s.do(ctx, r)
			outcomes[i] = outcome{name: s.name, took: time.Since(begin), err: err}
		})
	}
	wait.Wait()
	return outcomes
}

// skippedStep is why some step did not run at all, if one did not.
func (r *run) skippedStep() error {
	for _, s := range r.steps {
		if why, is := errors.AsType[skippedStep](s.err); is {
			return why
		}
	}
	return nil
}

// readMustRun reads one "package Test" a line; # starts a comment.
func readMustRun(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) == 2 {
			list = append(list, strings.Join(fields, " "))
		} else if len(fields) != 0 {
			return nil, fmt.Errorf("%s: want PACKAGE TEST, have %q", file, strings.TrimSpace(line))
		}
	}
	return list, nil
}
