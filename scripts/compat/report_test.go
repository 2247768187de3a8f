package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func events(t *testing.T, text string) []event {
	t.Helper()
	list, err := readEvents(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const good = `{"Action":"run","Test":"TestA"}
{"Action":"pass","Test":"TestA"}
`
	const verdict = `{"Action":"pass"}`
	for _, c := range []struct {
		name, events string
		wrong        []string
	}{
		{"good", good + verdict, nil},
		{"no verdict", good, []string{`the verdict of the whole is ""`}},
		{"bad verdict", good + `{"Action":"fail"}`, []string{`the verdict of the whole is "fail"`}},
		{"nothing ran", verdict, []string{"TestA has no result"}},
		{"failed", `{"Action":"run","Test":"TestA"}` + "\n" + `{"Action":"fail","Test":"TestA"}` + "\n" + verdict, []string{"TestA failed"}},
		{"hung", `{"Action":"run","Test":"TestA"}` + "\n" + verdict, []string{"TestA began and did not end"}},
		{"hung subtest", good + `{"Action":"run","Test":"TestA/x"}` + "\n" + verdict, []string{"TestA/x began and did not end"}},
	} {
		_, wrong := judge(events(t, c.events), []string{"TestA"})
		if diff := cmp.Diff(c.wrong, wrong); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestSkipsAndMustRun(t *testing.T) {
	t.Parallel()
	jobs := []job{{Name: "a", Pkg: "internal/a", Run: "^Test/^x$"}, {Name: "a-user", Pkg: "internal/a", Run: "^Test/^x$", User: true}}
	r := newReport(io.Discard, jobs, map[string][]string{"a": {"TestOne", "TestTwo"}, "a-user": {"TestOne", "TestTwo"}})
	skipped, _ := judge(events(t, `{"Action":"output","Test":"TestOne","Output":"    a_test.go:7: needs root: no\n"}
{"Action":"skip","Test":"TestOne"}
{"Action":"skip","Test":"TestTwo"}`), nil)
	ran, _ := judge(events(t, `{"Action":"pass","Test":"TestOne"}
{"Action":"skip","Test":"TestTwo"}`), nil)
	r.results["a"], r.results["a-user"], r.ended = skipped, ran, 2
	want := []string{
		"skip  a TestOne: needs root: no (run by another job)",
		"skip  a TestTwo: no reason given (NOT RUN BY ANY JOB)",
		"skip  a-user TestTwo: no reason given (NOT RUN BY ANY JOB)",
	}
	if diff := cmp.Diff(want, r.skips()); diff != "" {
		t.Error(diff)
	}
	err := r.summary([]string{"internal/a TestOne", "internal/a TestTwo/x", "internal/a TestTwo/other", "internal/b TestElsewhere"}, &system{}, 0)
	if err == nil || err.Error() != "internal/a TestTwo/x may not skip, and no job ran it" {
		t.Errorf("summary: %v", err)
	}
}

func TestAnotherKernelIsRefused(t *testing.T) {
	t.Parallel()
	for release, good := range map[string]bool{"6.1.0-50-cloud-amd64": true, "6.12.3": false, "6.10.1": false, "5.10.0": false, "": false} {
		err := (&feed{report: newReport(io.Discard, nil, nil)}).take(record{Kind: kindHello, Kernel: release})
		if (err == nil) != good {
			t.Errorf("%q: %v", release, err)
		}
	}
}

func TestUnfinishedIsAFailure(t *testing.T) {
	t.Parallel()
	r := newReport(io.Discard, []job{{Name: "a"}}, nil)
	if err := r.summary(nil, &system{}, 0); err == nil {
		t.Error("no job ended, and it was well")
	}
	f := &feed{report: r, jobs: r.jobs}
	if err := f.take(record{Kind: kindEnd, Job: "a", Code: 3}); err != nil {
		t.Fatal(err)
	}
	if err := r.summary(nil, &system{}, 0); err == nil || !strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("a job ended with 3: %v", err)
	}
}
