package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// job is one program that the machine runs. The list of them goes into the
// machine as a file.
type job struct {
	Name string
	User bool   // as the ordinary user, not as root
	Pkg  string // the package of a test binary; empty: a plain program
	Run  string // -test.run, if not empty
	Skip string // -test.skip
	Args []string
	Show bool // print what it wrote, also if all is well

	Limit time.Duration // by the machine's clock
}

// selects reports whether the job's Run selects a test, or a part of it whose names are
// separated by slashes.
func (j job) selects(test string) bool {
	names := strings.Split(test, "/")
	for i, pattern := range strings.Split(j.Run, "/") {
		if i < len(names) && !regexp.MustCompile(pattern).MatchString(names[i]) {
			return false
		}
	}
	return true
}

// selfUser are tests that run their package again as an ordinary user. The
// machine has its own ordinary user for that.
const selfUser = "^TestAsOrdinaryUser$"

// tested are the tests that run in the machine. The emulator takes some forty
// times as long as the processor, so of the slow packages only those tests run
// whose result the kernel has a part in. docs/internals/compatibility.md says which.
func tested() []job {
	return []job{
		{Name: "driver", Pkg: "internal/sandbox/driver/native"},
		{Name: "capture", Pkg: "internal/sandbox/kernel/capture"},
		{Name: "origin", Pkg: "internal/sandbox/kernel/capture/origin"},
		{Name: "landlock", Pkg: "internal/sandbox/kernel/landlock"},
		{Name: "seccomp", Pkg: "internal/sandbox/kernel/seccomp"},
		{Name: "cgroup", Pkg: "internal/sandbox/kernel/cgroup"},
		{Name: "fsx", Pkg: "internal/storage/fsx"},
		{Name: "store", Pkg: "internal/storage/store"},
		{Name: "cell", Pkg: "internal/engine", Run: only(cellTests())},
		{Name: "scripts", Pkg: "cmd/forkcell", Run: only([]string{"TestScripts"}) + "/" + only(scripts())},
		{Name: "workspace", Pkg: "internal/storage/workspace", Skip: only([]string{"TestSuite"}) + "/" + only([]string{"Fidelity", "Compose", "Histories"})},
		{Name: "fidelity", Pkg: "internal/storage/workspace", Run: only([]string{"TestSuite"}) + "/" + only([]string{"Fidelity"}) + "/" + only([]string{"overlay"})},
		{Name: "apply", Pkg: "internal/storage/apply", Skip: only([]string{"TestKillAtEveryStep"})},
		{Name: "tree", Pkg: "internal/storage/tree", Skip: only([]string{"TestHistory", "TestEveryFlippedByteIsFound", "TestWideDirectory", "TestParallelWriters"})},
	}
}

func only(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// cellTests are tests of the whole transaction.
func cellTests() []string {
	return []string{
		"TestFailedRunIsRestored", "TestAcceptAndApply", "TestUndo", "TestForkIsIndependent", "TestTwoAtOnce",
		"TestProbes", "TestReadOnlyHome", "TestUnkeepable", "TestFIFOInPlaceOfAFile", "TestHeldBack",
	}
}

// scripts are the parts of the manual in which commands run in cells, or are
// written back.
func scripts() []string {
	return []string{"quickstart", "doctor", "run-.*", "checkpoint-restore", "fork", "apply"}
}

// allJobs returns the jobs of the machine, in their order.
func allJobs() []job {
	list := []job{
		{Name: "doctor", Args: []string{programPath, "doctor"}, Show: true, Limit: 2 * time.Minute},
		{Name: "demo", Args: []string{"/bin/bash", repoPath + "/scripts/demo.sh", programPath}, Limit: 3 * time.Minute},
	}
	for _, t := range tested() {
		t.Skip, t.Limit = strings.Trim(selfUser+"|"+t.Skip, "|"), 10*time.Minute
		t.Args = []string{
			binPath + "/" + strings.ReplaceAll(t.Pkg, "/", "_") + ".test", "-test.v=test2json", "-test.paniconexit0",
			"-test.timeout=" + t.Limit.String(), "-test.skip=" + t.Skip,
		}
		if t.Run != "" {
			t.Args = append(t.Args, "-test.run="+t.Run)
		}
		list = append(list, t)
	}
	for _, j := range slices.Clone(list) {
		j.Name, j.User = j.Name+"-user", true
		list = append(list, j)
	}
	return list
}

func selectJobs(only string) ([]job, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	list := slices.DeleteFunc(allJobs(), func(j job) bool { return !pattern.MatchString(j.Name) })
	if len(list) == 0 {
		return nil, fmt.Errorf("no job matches %q", only)
	}
	return list, nil
}

// jobsOf are the jobs of one of the two machines.
func jobsOf(jobs []job, user bool) []job {
	return slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return j.User != user })
}

// who names the two machines.
func who(user bool) string {
	if user {
		return account
	}
	return "root"
}

// compileTests builds the test binaries of the jobs, and the program.
func compileTests(ctx context.Context, dir string, jobs []job) error {
	done := map[string]bool{}
	for _, j := range jobs {
		if j.Pkg == "" || done[j.Pkg] {
			continue
		}
		done[j.Pkg] = true
		out := filepath.Join(dir, filepath.Base(j.Args[0]))
		if err := static(ctx, "test", "-c", "-vet=off", "-tags", "probes", "-o", out, "./"+j.Pkg); err != nil {
			return err
		}
	}
	return static(ctx, "build", "-buildvcs=false", "-o", filepath.Join(dir, filepath.Base(programPath)), "./cmd/forkcell")
}

// static runs the go command for a machine that has only what Debian has.
func static(ctx context.Context, args ...string) error {
	return tool(ctx, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64"}, "go", args...)
}

// expectations are, for every job, the top-level tests that it must report on.
func expectations(ctx context.Context, m *machine, jobs []job) (map[string][]string, error) {
	expected := map[string][]string{}
	for _, j := range jobs {
		if j.Pkg == "" {
			continue
		}
		binary := filepath.Join(m.bin, filepath.Base(j.Args[0]))
		out, err := output(ctx, binary, "-test.list=^(Test|Fuzz|Example)")
		if err != nil {
			return nil, err
		}
		for name := range strings.FieldsSeq(out) {
			wanted, err := matches(j, name)
			if err != nil {
				return nil, err
			}
			if wanted {
				expected[j.Name] = append(expected[j.Name], name)
			}
		}
		if len(expected[j.Name]) == 0 {
			return nil, fmt.Errorf("job %s: %s has no test that it would run", j.Name, j.Pkg)
		}
	}
	return expected, namedTestsExist(expected)
}

// matches reports whether a job runs a top-level test, as the testing package would.
func matches(j job, name string) (bool, error) {
	top, _, _ := strings.Cut(j.Run, "/")
	run, err := regexp.MatchString(top, name)
	if err != nil {
		return false, err
	}
	skip, err := regexp.MatchString(j.Skip, name)
	return run && !(j.Skip != "" && skip), err
}

// namedTestsExist finds names in cellTests that no test has any more.
func namedTestsExist(expected map[string][]string) error {
	have, ok := expected["cell"]
	for _, name := range cellTests() {
		if ok && !slices.Contains(have, name) {
			return fmt.Errorf("cellTests names %s, which is no test of internal/engine", name)
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
