// Command compat is `make compat`: it boots Debian's own Linux 6.1, the oldest
// kernel that forkcell promises to work on, in a software emulator, runs the
// core tests there as root and as an ordinary user, and accepts only a complete
// report.
//
// The same program is the first process of the emulated machine (see guest): the
// two ends of the report are one piece of code.
//
// It knows how a machine is put together and how test results are read. It knows
// nothing of what the tests test. See docs/internals/compatibility.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// wantKernel is how the release of the booted kernel must begin.
const wantKernel = "6.1."

// options are the flags.
type options struct {
	only     string
	mirror   string
	refresh  bool
	keep     bool
	deadline time.Duration
}

func main() {
	if os.Getpid() == 1 || (len(os.Args) == 2 && os.Args[1] == workerArg) {
		guest()
		return
	}
	var o options
	flag.StringVar(&o.only, "only", "", "run only the jobs whose names match this regular expression")
	flag.StringVar(&o.mirror, "mirror", "", "the Debian mirror (default: the one that apt uses here)")
	flag.BoolVar(&o.refresh, "refresh", false, "fetch the packages again, even if they are in the cache")
	flag.BoolVar(&o.keep, "keep", false, "keep the machine's files and console, and say where they are")
	flag.DurationVar(&o.deadline, "deadline", 40*time.Minute, "how long the machine may run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat: FAIL:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	jobs, err := selectJobs(o.only)
	if err != nil {
		return err
	}
	if err := needTools(ctx); err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	cache = filepath.Join(cache, "forkcell", "compat")
	system, err := prepareSystem(ctx, cache, o)
	if err != nil {
		return fmt.Errorf("prepare Debian: %w", err)
	}
	dir, err := os.MkdirTemp("", "forkcell-compat-")
	if err != nil {
		return err
	}
	if o.keep {
		fmt.Println("machine   ", dir)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	m, err := assemble(ctx, dir, system, jobs)
	if err != nil {
		return fmt.Errorf("assemble the machine: %w", err)
	}
	expected, err := expectations(ctx, m, jobs)
	if err != nil {
		return err
	}
	rep := newReport(os.Stdout, jobs, expected)
	begin := time.Now()
	// What the report has is printed also when the machine did not finish.
	bootErr := bootAll(ctx, m, o.deadline, rep)
	must, mustErr := readMustRun(filepath.Join("scripts", "must-run.txt"))
	if o.only != "" {
		must = nil
	}
	return errors.Join(bootErr, mustErr, rep.summary(must, system, time.Since(begin)))
}
