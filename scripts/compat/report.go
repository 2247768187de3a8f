package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is one line of `go tool test2json`.
type event struct {
	Action string
	Test   string
	Output string
}

const (
	passed = "pass"
	failed = "fail"
	skip   = "skip"
)

// result is how one test of one job ended.
type result struct {
	what string // passed, failed or skip
	why  string // of a skipped test
}

// report collects what the machines say.
type report struct {
	mu       sync.Mutex
	out      io.Writer
	jobs     []job
	expected map[string][]string // job -> top-level tests that must have a result
	kernel   string
	landlock int
	results  map[string]map[string]result // job -> test -> result
	bad      []string                     // what went wrong, a line each
	ended    int
}

func newReport(out io.Writer, jobs []job, expected map[string][]string) *report {
	return &report{out: out, jobs: jobs, expected: expected, results: map[string]map[string]result{}}
}

// feed is one machine's part of a report.
type feed struct {
	*report
	jobs  []job // in the order in which they must be reported
	said  bytes.Buffer
	ended int
}

func (f *feed) names() []string {
	var names []string
	for _, j := range f.jobs {
		names = append(names, j.Name)
	}
	return names
}

// take is called with every record, in order.
func (f *feed) take(rec record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch rec.Kind {
	case kindHello:
		f.kernel, f.landlock = rec.Kernel, rec.Landlock
		if !strings.HasPrefix(rec.Kernel, wantKernel) {
			return fmt.Errorf("the machine runs Linux %s, not %s*", rec.Kernel, wantKernel)
		}
	case kindBegin:
		f.said.Reset()
	case kindOutput:
		f.said.Write(rec.Data)
	case kindEnd:
		j := f.jobs[f.ended]
		f.ended++
		f.report.ended++
		return f.end(j, rec, f.said.Bytes())
	}
	return nil
}

func (r *report) end(j job, rec record, said []byte) error {
	var wrong []string
	if rec.Code != 0 {
		wrong = append(wrong, strings.TrimSpace(fmt.Sprintf("exit code %d %s", rec.Code, rec.Error)))
	} else if rec.Error != "" {
		wrong = append(wrong, rec.Error)
	}
	line, text := "", ""
	if j.Pkg == "" {
		// A program is judged by its exit code; what it prints is for people.
		if j.Show || len(wrong) > 0 {
			text = string(said)
		}
	} else {
		events, err := test2json(said)
		if err != nil {
			return err
		}
		results, failures := judge(events, r.expected[j.Name])
		r.results[j.Name] = results
		wrong = append(wrong, failures...)
		line = tally(results)
		if len(wrong) > 0 {
			text = complaints(events, results)
		}
	}
	word := "ok  "
	if len(wrong) > 0 {
		word = "FAIL"
	}
	fmt.Fprintf(r.out, "%s%s  %-15s %6.1fs  %s\n", indent(text), word, j.Name, float64(rec.Millis)/1000, line)
	for _, w := range wrong {
		r.bad = append(r.bad, j.Name+": "+w)
	}
	return nil
}

// test2json lets the go command itself read what a test binary wrote.
func test2json(said []byte) ([]event, error) {
	cmd := exec.Command("go", "tool", "test2json")
	cmd.Stdin = bytes.NewReader(said)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go tool test2json: %w", err)
	}
	return readEvents(bytes.NewReader(out))
}

func readEvents(in io.Reader) ([]event, error) {
	var list []event
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		var e event
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("go tool test2json: %w", err)
		}
		list = append(list, e)
	}
	return list, scan.Err()
}

// judge finds how each test ended, and everything that keeps the job from being
// believed: failures, tests without an end, tests that never began, no verdict.
func judge(events []event, expected []string) (map[string]result, []string) {
	results := map[string]result{}
	said := map[string]string{}
	verdict := ""
	var wrong []string
	for _, e := range events {
		switch {
		case e.Action == "output":
			said[e.Test] += e.Output
		case e.Test == "" && slices.Contains([]string{passed, failed, skip}, e.Action):
			verdict = e.Action
		case e.Action == "run":
			results[e.Test] = result{}
		case e.Action == passed || e.Action == failed:
			results[e.Test] = result{what: e.Action}
		case e.Action == skip:
			results[e.Test] = result{what: skip, why: reason(said[e.Test])}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(results)) {
		switch results[name].what {
		case failed:
			wrong = append(wrong, name+" failed")
		case "":
			results[name] = result{what: failed}
			wrong = append(wrong, name+" began and did not end")
		}
	}
	for _, name := range expected {
		if _, ok := results[name]; !ok {
			wrong = append(wrong, name+" has no result")
		}
	}
	if verdict != passed && len(wrong) == 0 {
		wrong = append(wrong, fmt.Sprintf("the verdict of the whole is %q", verdict))
	}
	return results, wrong
}

// complaints is all that failed tests, and the test binary itself, said.
func complaints(events []event, results map[string]result) string {
	var b strings.Builder
	for _, e := range events {
		if e.Action != "output" || strings.HasPrefix(e.Output, "=== ") {
			continue
		}
		if e.Test == "" || results[e.Test].what == failed {
			b.WriteString(e.Output)
		}
	}
	return b.String()
}

// reason finds in a skipped test's output what it said, without file and line.
func reason(output string) string {
	last := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- SKIP") {
			last = line
		}
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

func tally(results map[string]result) string {
	n := map[string]int{}
	for _, one := range results {
		n[one.what]++
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", n[passed], n[failed], n[skip])
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("      | " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}

// summary ends the run. It is an error unless every job ended well and every
// test that may not skip has run.
func (r *report) summary(must []string, s *system, took time.Duration) error {
	fmt.Fprintf(r.out, "\n--- skipped\n")
	for _, line := range r.skips() {
		fmt.Fprintln(r.out, line)
	}
	for _, name := range must {
		if r.within(name) && !r.ran(name) {
			r.bad = append(r.bad, name+" may not skip, and no job ran it")
		}
	}
	if r.ended != len(r.jobs) {
		r.bad = append(r.bad, fmt.Sprintf("only %d of %d jobs ended", r.ended, len(r.jobs)))
	}
	all := map[string]result{}
	for job, results := range r.results {
		for name, one := range results {
			all[job+" "+name] = one
		}
	}
	fmt.Fprintf(r.out, "\n--- Linux %s (%s), Landlock ABI %d\n%s in %d jobs, %s\n",
		r.kernel, s.kernel.File, r.landlock, tally(all), r.ended, took.Round(time.Second))
	var errs []error
	for _, line := range r.bad {
		errs = append(errs, errors.New(line))
	}
	return errors.Join(errs...)
}

// skips are the skipped tests, their reasons, and whether another job ran them.
func (r *report) skips() []string {
	var lines []string
	for _, j := range r.jobs {
		for _, name := range slices.Sorted(maps.Keys(r.results[j.Name])) {
			one := r.results[j.Name][name]
			if one.what != skip {
				continue
			}
			note := "run by another job"
			if !r.ran(j.Pkg + " " + name) {
				note = "NOT RUN BY ANY JOB"
			}
			lines = append(lines, fmt.Sprintf("skip  %s %s: %s (%s)", j.Name, name, one.why, note))
		}
	}
	if len(lines) == 0 {
		return []string{"nothing"}
	}
	return lines
}

// ran reports whether a job passed or failed "package Test".
func (r *report) ran(test string) bool {
	for _, j := range r.jobs {
		name, is := strings.CutPrefix(test, j.Pkg+" ")
		if one := r.results[j.Name][name]; is && (one.what == passed || one.what == failed) {
			return true
		}
	}
	return false
}

// within reports whether "package Test" is among what the jobs were to run.
func (r *report) within(test string) bool {
	for _, j := range r.jobs {
		name, is := strings.CutPrefix(test, j.Pkg+" ")
		top, _, _ := strings.Cut(name, "/")
		if is && slices.Contains(r.expected[j.Name], top) && j.selects(name) {
			return true
		}
	}
	return false
}
