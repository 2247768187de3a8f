// Command lanes runs the lanes of continuous integration: targets of the Makefile, one
// after the other. A lane whose inputs are as they were when it last passed is not run
// again; .ci/passed has what passed.
//
// It knows the names of targets and the files they read. It knows nothing of what they
// test.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// retryLimit is how late a lane that failed may run once more.
const retryLimit = 50 * time.Minute

// ledgerFile has the lanes that passed.
const ledgerFile = ".ci/passed"

// lane is a target of the Makefile.
type lane struct {
	target string
	// inputs are patterns of git of all files that it reads, beside those of the program. A
	// lane without any always runs.
	inputs []string
}

// program are the files that the programs are built from, and how.
var program = []string{
	"Makefile", "go.mod", "go.sum", "api", "client", "cmd", "gvisor", "internal", "receipt", "scripts/setup.sh", ".ci/run", "scripts/lanes",
	":!*_test.go", ":!**/testdata/**", ":!*.md",
}

// lanes returns the lanes, in order. Lint comes last: compiling its tools takes minutes on
// a cold cache, and the tests should speak first.
func lanes() []lane {
	return []lane{
		{target: "test"},
		{"test-gvisor", []string{
			"gvisor/*_test.go", "internal/sandbox/driver/*_test.go", "cmd/forkcell/*_test.go", "internal/front/cli/testdata", "internal/front/daemon/*_test.go", "scripts/gvisor-user.sh",
		}},
		{"test-agents", []string{"internal/session/adapter", "internal/session", "internal/front/daemon/*_test.go", "scripts/agents.sh"}},
		{"sdk", []string{
			"sdk", "examples", "docs", "README.md", "scripts/sdk.sh", "scripts/examples.sh", "scripts/conformance", "cmd/forkcell/*_test.go", "internal/front/daemon/*_test.go", "internal/front/mcp",
		}},
		{"fuzz-api", []string{"sdk/python/tools", "scripts/sdk.sh", "scripts/fuzz-api.sh", "scripts/fuzzapi"}},
		{"test-browser", []string{"internal/front/daemon/*_test.go"}},
		{"lint", []string{"*.go", ".golangci.yml", "tools"}},
	}
}

func main() {
	var o options
	flag.BoolVar(&o.all, "all", false, "run every lane, whether its inputs changed or not")
	flag.BoolVar(&o.record, "record", false, "write the lanes that pass to "+ledgerFile+"; nothing may be uncommitted")
	flag.StringVar(&o.only, "only", "", "only these lanes, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "lanes:", err)
		stop()
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	all, record bool
	only        string
}

// run runs the lanes until one fails twice.
func run(ctx context.Context, o options) error {
	chosen, err := choose(lanes(), o.only)
	if err != nil {
		return err
	}
	if o.record {
		if err := checkCommitted(ctx); err != nil {
			return err
		}
	}
	passed, err := readLedger(ledgerFile)
	if err != nil {
		return err
	}
	begun, failedFirst := time.Now(), []string(nil)
	for _, l := range chosen {
		hash, err := l.hash(ctx, ".")
		if err != nil {
			return err
		}
		if e := passed[l.target]; !o.all && l.inputs != nil && e.hash == hash {
			fmt.Printf("lanes: %s is not run: its inputs are as they were when it passed, on %s\n", l.target, e.day)
			continue
		}
		again, err := l.run(ctx, begun)
		if err != nil {
			return err
		}
		if again {
			failedFirst = append(failedFirst, l.target)
		}
		if o.record {
			passed[l.target] = entry{hash, time.Now().UTC().Format(time.DateOnly)}
			if err := passed.write(ledgerFile); err != nil {
				return err
			}
		}
	}
	if len(failedFirst) > 0 {
		fmt.Fprintln(os.Stderr, "lanes: failed at first, passed when run again:", strings.Join(failedFirst, " "))
	}
	return nil
}

// choose returns the lanes with these names, separated by commas; all if there are none.
func choose(all []lane, names string) ([]lane, error) {
	if names == "" {
		return all, nil
	}
	var chosen []lane
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(all, func(l lane) bool { return l.target == name })
		if at < 0 {
			return nil, fmt.Errorf("no lane is called %q", name)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// run runs a lane, and once more if it fails while there is time. It reports whether it
// failed at first.
func (l lane) run(ctx context.Context, begun time.Time) (again bool, err error) {
	err = l.make(ctx)
	if err == nil || ctx.Err() != nil {
		return false, err
	}
	if time.Since(begun) > retryLimit {
		return false, fmt.Errorf("%s failed, and there is no time to run it again: %w", l.target, err)
	}
	fmt.Fprintf(os.Stderr, "lanes: %s failed; running it once more\n", l.target)
	return true, l.make(ctx)
}

// make runs the target, with the output of this program. An interrupt reaches it from the
// terminal; it is waited for.
func (l lane) make(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "make", l.target, "TESTFLAGS=-again")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make %s: %w", l.target, errors.Join(ctx.Err(), err))
	}
	return nil
}

// checkCommitted returns an error if files differ from those of the commit.
func checkCommitted(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":!"+ledgerFile).Output()
	if err != nil {
		return fmt.Errorf("git status: %w", err)
	}
	if len(out) > 0 {
		return errors.New("what passes is recorded for a commit; commit or remove first:\n" + strings.TrimRight(string(out), "\n"))
	}
	return nil
}
