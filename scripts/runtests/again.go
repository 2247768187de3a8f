package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// onlyTestsFailed reports whether the error of a binary is that of tests that failed. A
// binary that panicked, or that was killed, may have tests that it never began.
func onlyTestsFailed(err error) bool {
	exit, is := errors.AsType[*exec.ExitError](err)
	return is && exit.ExitCode() == 1
}

// testAgain runs the failed tests of a binary once more, by themselves.
func (u identity) testAgain(ctx context.Context, r *run, step string, b binary, args ...string) error {
	keys := r.results.failedOf(step, b.namedTests)
	b.tests = nil // the pattern names the tests
	if err := u.test(ctx, r, step, b, append(slices.Clone(args), "-test.run="+runPattern(keys))...); err != nil {
		return err
	}
	return r.results.settle(step, keys)
}

// failedOf returns the failed tests of a package in a step, those of its named tests if
// it has some.
func (r *results) failedOf(step string, n namedTests) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []string
	for _, f := range r.fails {
		pkg, test, _ := strings.Cut(f.test, " ")
		if f.step == step && pkg == n.pkg && n.has(test) {
			keys = append(keys, f.test)
		}
	}
	return keys
}

// runPattern is the value of -test.run for some tests. A test that failed because one
// below it did is not named.
func runPattern(keys []string) string {
	var patterns []string
	for _, key := range keys {
		if slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, key+"/") }) {
			continue
		}
		_, test, _ := strings.Cut(key, " ")
		patterns = append(patterns, patternOf(test))
	}
	return strings.Join(patterns, "|")
}

// settle takes failed tests as passed, if each has passed since. The summary names them.
func (r *results) settle(step string, keys []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		if r.tests[key][step] != passed {
			return fmt.Errorf("%s failed in step %s, and did not run again", key, step)
		}
	}
	r.count[step][failed] -= len(keys)
	r.fails = slices.DeleteFunc(r.fails, func(f failure) bool {
		is := f.step == step && slices.Contains(keys, f.test)
		if is {
			r.unsteady = append(r.unsteady, f)
		}
		return is
	})
	return nil
}

// writeUnsteady names the tests that failed at first, with what they said then.
func (r *results) writeUnsteady(w io.Writer) {
	for _, f := range r.unsteady {
		fmt.Fprintf(w, "\n--- failed in step %s, and passed when run again, a fault to mend: %s\n%s", f.step, f.test, excerpt(f.said, failureLines))
	}
}
