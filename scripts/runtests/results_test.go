package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const stream1 = `{"Action":"run","Package":"github.com/forkcell/forkcell/a","Test":"TestGood"}
{"Action":"output","Package":"github.com/forkcell/forkcell/a","Test":"TestGood","Output":"    chatter\n"}
{"Action":"pass","Package":"github.com/forkcell/forkcell/a","Test":"TestGood"}
{"Action":"output","Package":"github.com/forkcell/forkcell/a","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"github.com/forkcell/forkcell/a","Test":"TestBad","Output":"    a_test.go:1: wrong\n"}
{"Action":"fail","Package":"github.com/forkcell/forkcell/a","Test":"TestBad"}
{"Action":"output","Package":"github.com/forkcell/forkcell/a","Test":"TestRoot","Output":"    a_test.go:9: needs root: no\n"}
{"Action":"output","Package":"github.com/forkcell/forkcell/a","Test":"TestRoot","Output":"--- SKIP: TestRoot (0.00s)\n"}
{"Action":"skip","Package":"github.com/forkcell/forkcell/a","Test":"TestRoot"}
{"Action":"output","Package":"github.com/forkcell/forkcell/a","Test":"TestHung","Output":"panic: test timed out\n"}
{"Action":"output","Package":"github.com/forkcell/forkcell/a","Output":"PASS\n"}
{"Action":"output","Package":"github.com/forkcell/forkcell/a","Output":"FAIL\tgithub.com/forkcell/forkcell/a\t0.1s\n"}
{"Action":"fail","Package":"github.com/forkcell/forkcell/a"}
go: a word of the go command
{"ImportPath":"github.com/forkcell/forkcell/b","Action":"build-output","Output":"b.go:1: undefined: x\n"}
`

func TestRead(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newResults(&out)
	if err := r.read("test", strings.NewReader(stream1)); err != nil {
		t.Fatal(err)
	}
	want := "    a_test.go:1: wrong\n" +
		"FAIL\tgithub.com/forkcell/forkcell/a\t0.1s\n" +
		"panic: test timed out\n" +
		"go: a word of the go command\n" +
		"b.go:1: undefined: x\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if got := r.count["test"]; got[passed] != 1 || got[failed] != 2 || got["skip"] != 1 {
		t.Errorf("counted %v", got)
	}
	wantFails := []failure{
		{"test", "a TestBad", "    a_test.go:1: wrong\n"},
		{"test", "a TestHung", "panic: test timed out\n"},
	}
	if !slices.Equal(r.fails, wantFails) {
		t.Errorf("failures %q, want %q", r.fails, wantFails)
	}
	wantSkips := []skip{{test: "a TestRoot", reason: "needs root: no"}}
	if got := r.skips(); !slices.Equal(got, wantSkips) {
		t.Errorf("skips %v, want %v", got, wantSkips)
	}
}

// TestReadPanic: of a test binary that panicked comes no word about its package.
func TestReadPanic(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := newResults(&out)
	const in = `{"Action":"output","Package":"a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"a","Test":"TestGood"}
{"Action":"output","Package":"a","Test":"TestBad","Output":"panic: no\n"}
`
	if err := r.read("test", strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	if want := []failure{{"test", "a TestBad", "panic: no\n"}}; !slices.Equal(r.fails, want) || out.String() != "panic: no\n" {
		t.Errorf("failures %q, printed %q", r.fails, &out)
	}
}

func TestSlowest(t *testing.T) {
	t.Parallel()
	r := newResults(io.Discard)
	const in = `{"Action":"pass","Package":"a","Test":"TestQuick","Elapsed":0.5}
{"Action":"pass","Package":"a","Test":"TestAll/slow","Elapsed":7}
{"Action":"pass","Package":"a","Test":"TestAll","Elapsed":9}
{"Action":"pass","Package":"a","Test":"TestLong","Elapsed":8}
`
	if err := r.read("test", strings.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	want := []testTime{{"test", "a TestLong", 8 * time.Second}, {"test", "a TestAll/slow", 7 * time.Second}}
	if got := r.slowest(2); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	if got := excerpt("a\nb\n", 8); got != "a\nb\n" {
		t.Errorf("short text became %q", got)
	}
	got := excerpt("1\n2\n3\n4\n5\n6\n7\n8\n9\n", 4)
	if want := "1\n2\n3\n    ... 6 lines, see above ...\n"; got != want {
		t.Errorf("long text became %q, want %q", got, want)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	r := newResults(io.Discard)
	r.record("test", "a TestOne", "needs root")
	r.record("user", "a TestOne", passed)
	r.record("test", "a TestTwo", "needs root")
	got := r.missingTests([]string{"a TestOne", "a TestTwo", "a TestThree"})
	if want := []string{"a TestTwo", "a TestThree"}; !slices.Equal(got, want) {
		t.Errorf("missing %v, want %v", got, want)
	}
}

func TestReadMustRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte("# comment\n\na  TestOne # why\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readMustRun(file)
	if err != nil || !slices.Equal(got, []string{"a TestOne"}) {
		t.Errorf("read %v, %v", got, err)
	}
	if err := os.WriteFile(file, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readMustRun(file); err == nil {
		t.Error("a line with one word was taken")
	}
}

// TestAgain: a failed test that passes later is no failure, and is named.
func TestAgain(t *testing.T) {
	t.Parallel()
	const first = `{"Action":"fail","Package":"a","Test":"TestScripts/two+two"}
{"Action":"fail","Package":"a","Test":"TestScripts"}
{"Action":"fail","Package":"a","Test":"TestOther"}
{"Action":"fail","Package":"b","Test":"TestScripts"}
`
	r := newResults(io.Discard)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.read("test", strings.NewReader(first)))
	keys := r.failedOf("test", namedTests{pkg: "a"})
	if got, want := runPattern(keys), `^TestScripts$/^two\+two$|^TestOther$`; got != want {
		t.Errorf("pattern %q, want %q", got, want)
	}
	if got := r.failedOf("test", namedTests{"a", []string{"TestOther"}}); !slices.Equal(got, []string{"a TestOther"}) {
		t.Errorf("of named tests %q failed", got)
	}
	must(r.read("test", strings.NewReader(`{"Action":"pass","Package":"a","Test":"TestScripts/two+two"}
{"Action":"pass","Package":"a","Test":"TestScripts"}
`)))
	if err := r.settle("test", keys); err == nil || len(r.fails) != 4 {
		t.Errorf("a test that did not run again is settled: %v, %v", err, r.fails)
	}
	must(r.read("test", strings.NewReader(`{"Action":"pass","Package":"a","Test":"TestOther"}`)))
	must(r.settle("test", keys))
	if len(r.fails) != 1 || len(r.unsteady) != 3 || r.count["test"][failed] != 1 {
		t.Errorf("failed %v, unsteady %v, counted %v", r.fails, r.unsteady, r.count)
	}
	var out strings.Builder
	r.writeUnsteady(&out)
	if !strings.Contains(out.String(), "a fault to mend: a TestOther\n") {
		t.Errorf("the summary says %q", &out)
	}
}
