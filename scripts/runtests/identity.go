package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// identity is who runs tests, and where.
type identity struct {
	name string // "" is the caller
	repo string // the repository
	env  []string
	attr *syscall.SysProcAttr
}

// caller is who started this program.
func caller() identity { return identity{repo: "."} }

// seed makes property tests draw the same cases in every run here: a run fails
// because of a change, not by chance. go test by hand draws others each time.
const seed = "-rapid.seed=1"

// atOnce is how many tests of a package run at once. Most of them wait for the disk
// half of their time.
func atOnce() string { return strconv.Itoa(2 * runtime.GOMAXPROCS(0)) }

// tests runs compiled packages side by side. With -again, tests that fail then run once
// more.
func (u identity) tests(ctx context.Context, r *run, step string, list []binary, args ...string) error {
	var mu sync.Mutex
	var again []binary
	errs := []error{sideBySide(list, func(b binary) error {
		err := u.test(ctx, r, step, b, args...)
		if !r.opts.again || !onlyTestsFailed(err) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		again = append(again, b)
		return nil
	})}
	for _, b := range again {
		errs = append(errs, u.testAgain(ctx, r, step, b, args...))
	}
	return errors.Join(errs...)
}

// test runs one compiled package in its directory. A named test that did not run, as
// after it was renamed, is an error.
func (u identity) test(ctx context.Context, r *run, step string, b binary, args ...string) error {
	all := []string{"-test.v=test2json", "-test.timeout=20m", "-test.paniconexit0", "-test.parallel=" + atOnce()}
	if len(b.tests) > 0 {
		all = append(all, "-test.run="+b.pattern())
	}
	if b.draws {
		all = append(all, seed)
	}
	cmd := exec.CommandContext(ctx, b.file, append(all, args...)...)
	cmd.Dir = filepath.Join(u.repo, filepath.FromSlash(b.pkg))
	cmd.SysProcAttr = u.attr
	if u.env != nil {
		cmd.Env = append(u.env, "PWD="+cmd.Dir)
	}
	begin := time.Now()
	err := r.results.runBinary(ctx, step, b.pkg, cmd)
	word, who := "ok  ", ""
	if err != nil {
		word = "FAIL"
	}
	if u.name != "" {
		who = " (as " + u.name + ")"
	}
	r.results.print(fmt.Sprintf("%s\t%s\t%.3fs%s\n", word, module+"/"+b.pkg, time.Since(begin).Seconds(), who))
	if err == nil {
		err = r.results.checkKnown(step, b.namedTests)
	}
	return err
}

// ordinary returns the identity of an account, with a home, a place for temporary files
// and a copy of the repository below a directory.
func ordinary(name string, uid, gid int, dir string) identity {
	return identity{
		name: name,
		repo: filepath.Join(dir, "repo"),
		env: []string{
			"HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + filepath.Join(dir, "tmp"),
			"USER=" + name, "LOGNAME=" + name, "SHELL=/bin/sh", "LANG=C.UTF-8",
			"PATH=" + os.Getenv("PATH"),
		},
		attr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}},
	}
}
