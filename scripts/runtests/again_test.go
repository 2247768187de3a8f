package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunAgain: the tests of a binary that fail run once more only with -again, only if
// the binary came to its end, and only they do.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	const good, bad = "'=== RUN   TestA' '--- PASS: TestA (0.00s)' PASS", "'=== RUN   TestA' '--- FAIL: TestA (0.00s)' FAIL"
	for name, c := range map[string]struct {
		again  bool
		first  int // exit code
		second string
		ok     bool
		ran    int
	}{
		"passes":    {again: true, first: 1, second: good + "; exit 0", ok: true, ran: 2},
		"fails":     {again: true, first: 1, second: bad + "; exit 1", ran: 2},
		"panicked":  {again: true, first: 2, second: good + "; exit 0", ran: 1},
		"not asked": {first: 1, second: good + "; exit 0", ran: 1},
		"not found": {again: true, first: 1, second: "'testing: warning: no tests to run' PASS; exit 0", ran: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "a.test")
			script := `#!/bin/sh
echo "$*" >>ran
if [ "$(wc -l <ran)" = 1 ]; then printf '%s\n' ` + bad + `; exit ` + string(rune('0'+c.first)) + `; fi
printf '%s\n' ` + c.second + "\n"
			if err := errors.Join(os.WriteFile(file, []byte(script), 0o700), os.Mkdir(filepath.Join(dir, "a"), 0o700)); err != nil {
				t.Fatal(err)
			}
			r := &run{opts: options{again: c.again}, results: newResults(io.Discard)}
			err := identity{repo: dir}.tests(t.Context(), r, "test", []binary{{namedTests: namedTests{pkg: "a"}, file: file}}, "-test.skip=x")
			if (err == nil && r.results.count["test"][failed] == 0) != c.ok {
				t.Errorf("error %v, counted %v", err, r.results.count)
			}
			ran, _ := os.ReadFile(filepath.Join(dir, "a", "ran"))
			lines := strings.Split(strings.TrimSpace(string(ran)), "\n")
			if len(lines) != c.ran || c.ran == 2 && !strings.HasSuffix(lines[1], "-test.skip=x -test.run=^TestA$") {
				t.Errorf("ran %q", lines)
			}
		})
	}
}

// TestNamedTests: a test that is named may be below another.
func TestNamedTests(t *testing.T) {
	t.Parallel()
	n := namedTests{tests: []string{"TestSuite/Compose", "TestA"}}
	if got, want := n.pattern(), "^TestSuite$/^Compose$|^TestA$"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for test, want := range map[string]bool{
		"TestSuite": true, "TestSuite/Compose": true, "TestSuite/Compose/clone": true, "TestA/b": true,
		"TestSuite/Composed": false, "TestSuite/Sweep": false, "TestAB": false,
	} {
		if got := n.has(test); got != want {
			t.Errorf("%s: %t", test, got)
		}
	}
	if all := (namedTests{}); !all.has("TestB") || all.pattern() != "" {
		t.Error("a package without names has all its tests")
	}
}
