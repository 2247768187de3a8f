package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is one line of `go test -json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build events
	Test        string
	Output      string
	FailedBuild string
	Elapsed     float64 // seconds
}

// results collects what every test did in every step.
type results struct {
	mu    sync.Mutex
	out   io.Writer
	tests map[string]map[string]string // "package Test" -> step -> pass, fail or why it was skipped
	count map[string]map[string]int    // step -> action -> number of tests
	fails []failure                    // in the order in which they came
	times []testTime                   // of the tests that ended

	unsteady []failure // of tests that passed when they ran again
}

// testTime is how long one test took in one step.
type testTime struct {
	step, test string
	took       time.Duration
}

// failure is a test that failed and what it said.
type failure struct {
	step, test, said string
}

const (
	passed = "pass"
	failed = "fail"
)

func newResults(out io.Writer) *results {
	return &results{out: out, tests: map[string]map[string]string{}, count: map[string]map[string]int{}}
}

// read takes the events of one step and prints what go test without -v would
// have: the packages' own lines, and everything a failed test said.
func (r *results) read(step string, in io.Reader) error {
	said := map[string]*strings.Builder{} // "package Test" -> its output
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		line := scan.Bytes()
		var e event
		if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil {
			// Other lines are output of the go command.
			r.print(string(line) + "\n")
			continue
		}
		r.take(step, e, said)
	}
	r.printUnfinished(step, "", said) // of a package that did not say how it ended
	return scan.Err()
}

func (r *results) take(step string, e event, said map[string]*strings.Builder) {
	key := strings.TrimPrefix(e.Package, module+"/") + " " + e.Test
	switch {
	case e.Action == "build-output":
		r.print(e.Output)
	case e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" && e.Output != "" {
			r.print(e.Output)
		}
	case e.Action == "output":
		b := said[key]
		if b == nil {
			b = &strings.Builder{}
			said[key] = b
		}
		b.WriteString(e.Output)
	case e.Action == "fail" && e.Test == "":
		r.printUnfinished(step, key, said)
	case e.Test == "" && (e.Action == "pass" || e.Action == "skip"):
		maps.DeleteFunc(said, func(test string, _ *strings.Builder) bool { return strings.HasPrefix(test, key) })
	case e.Test == "":
	case e.Action == "pass":
		r.took(testTime{step, key, time.Duration(e.Elapsed * float64(time.Second))})
		r.record(step, key, passed)
		delete(said, key)
	case e.Action == "fail":
		r.fail(step, key, plainOutput(text(said[key])))
		delete(said, key)
	case e.Action == "skip":
		r.record(step, key, reason(text(said[key])))
		delete(said, key)
	}
}

// printUnfinished prints the output of tests that did not end, as when one of them
// panicked, or the whole package was killed or ran past its time. Their names begin
// with a prefix.
func (r *results) printUnfinished(step, prefix string, said map[string]*strings.Builder) {
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if strings.HasPrefix(key, prefix) {
			r.fail(step, key, plainOutput(said[key].String()))
			delete(said, key)
		}
	}
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}

// plainOutput is a test's output without the lines of go test -v that only say that
// it started, paused or went on.
func plainOutput(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "=== ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// reason finds in a skipped test's output what it said, without file and line.
func reason(output string) string {
	last := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "--- SKIP") {
			continue
		}
		last = line
	}
	if _, after, found := strings.Cut(last, ".go:"); found {
		if _, message, ok := strings.Cut(after, ": "); ok {
			return message
		}
	}
	if last == "" {
		return "no reason given"
	}
	return last
}

func (r *results) print(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = io.WriteString(r.out, s)
}

func (r *results) record(step, key, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tests[key] == nil {
		r.tests[key] = map[string]string{}
	}
	r.tests[key][step] = what
	if r.count[step] == nil {
		r.count[step] = map[string]int{}
	}
	if what != passed && what != failed {
		what = "skip"
	}
	r.count[step][what]++
}

func (r *results) took(t testTime) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, t)
}

// fail records a failed test, and prints what it said.
func (r *results) fail(step, key, said string) {
	r.record(step, key, failed)
	r.print(said)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = append(r.fails, failure{step: step, test: key, said: said})
}

// excerpt is text of at most about the given number of lines: the beginning,
// where a failure says what it is, and the end, where it stopped.
func excerpt(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	if len(all) <= lines {
		return text
	}
	head := lines * 3 / 4
	tail := all[len(all)-(lines-head):]
	return fmt.Sprintf("%s    ... %d lines, see above ...\n%s", strings.Join(all[:head], ""), len(all)-lines, strings.Join(tail, ""))
}

// skip is one test that a step skipped, and why.
type skip struct {
	test   string
	reason string
	ranIn  string // another step that ran it
}

// skips lists every test that some step skipped.
func (r *results) skips() []skip {
	var list []skip
	for _, key := range slices.Sorted(maps.Keys(r.tests)) {
		ran := ""
		why := map[string][]string{}
		for step, what := range r.tests[key] {
			if what == passed || what == failed {
				ran = step
			} else {
				why[what] = append(why[what], step)
			}
		}
		for _, reason := range slices.Sorted(maps.Keys(why)) {
			list = append(list, skip{test: key, reason: reason, ranIn: ran})
		}
	}
	return list
}

// checkKnown is an error for each named test that a step did not know, as after it was
// renamed.
func (r *results) checkKnown(step string, n namedTests) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, name := range n.tests {
		if key := n.pkg + " " + name; r.tests[key][step] == "" {
			errs = append(errs, fmt.Errorf("step %s names %s, which did not run", step, key))
		}
	}
	return errors.Join(errs...)
}

// missingTests returns the named tests that no step has passed or failed.
func (r *results) missingTests(must []string) []string {
	var list []string
	for _, key := range must {
		ran := false
		for _, what := range r.tests[key] {
			ran = ran || what == passed || what == failed
		}
		if !ran {
			list = append(list, key)
		}
	}
	return list
}

// summary ends the run: skips, failures once more, then a line per step. It
// reports whether all went well.
func (r *run) summary(w *os.File) bool {
	r.writeSkips(w)
	r.writeSlowest(w)
	r.results.writeUnsteady(w)
	// Many logs keep only their end: what failed must be found there.
	for _, f := range r.results.fails {
		fmt.Fprintf(w, "\n--- failed in step %s: %s\n%s", f.step, f.test, excerpt(f.said, failureLines))
	}
	return r.writeSteps(w)
}

// failureLines is how much of a failed test's output the summary repeats.
const failureLines = 80

func (r *run) writeSkips(w io.Writer) {
	fmt.Fprintf(w, "\n--- skipped\n")
	n := 0
	for _, s := range r.results.skips() {
		note := "NOT RUN BY ANY STEP"
		if s.ranIn != "" {
			note = "run by step " + s.ranIn
		}
		fmt.Fprintf(w, "skip  %s: %s (%s)\n", s.test, s.reason, note)
		n++
	}
	for _, s := range r.steps {
		if why, ok := errors.AsType[skippedStep](s.err); ok {
			fmt.Fprintf(w, "skip  step %s: %s (NOT RUN)\n", s.name, why)
			n++
		}
	}
	if n == 0 {
		fmt.Fprintln(w, "nothing")
	}
}

// slowest returns the tests that took longest, of those with no tests of their own.
func (r *results) slowest(n int) []testTime {
	parents := map[string]bool{}
	for _, t := range r.times {
		if i := strings.LastIndex(t.test, "/"); i > strings.Index(t.test, " ") {
			parents[t.step+t.test[:i]] = true
		}
	}
	list := slices.DeleteFunc(slices.Clone(r.times), func(t testTime) bool { return parents[t.step+t.test] })
	slices.SortStableFunc(list, func(a, b testTime) int { return cmp.Compare(b.took, a.took) })
	return list[:min(n, len(list))]
}

func (r *run) writeSlowest(w io.Writer) {
	fmt.Fprintf(w, "\n--- slowest\n")
	for _, t := range r.results.slowest(slowTests) {
		fmt.Fprintf(w, "%8s  %s (%s)\n", t.took.Round(100*time.Millisecond), t.test, t.step)
	}
}

// slowTests is how many of the slowest tests the summary names.
const slowTests = 25

func (r *run) writeSteps(w io.Writer) bool {
	fmt.Fprintf(w, "\n--- steps\n")
	ok := true
	for _, s := range r.steps {
		c := r.results.count[s.name]
		word := "ok"
		if _, isSkip := errors.AsType[skippedStep](s.err); isSkip {
			word = "skip"
		} else if s.err != nil || c[failed] > 0 {
			word, ok = "FAIL", false
		}
		fmt.Fprintf(w, "%-4s  %-7s %4d passed, %d failed, %d skipped, %s\n", word, s.name, c[passed], c[failed], c["skip"], s.took.Round(100*time.Millisecond))
		if word == "FAIL" && s.err != nil {
			fmt.Fprintf(w, "      %v\n", s.err)
		}
	}
	return ok
}
