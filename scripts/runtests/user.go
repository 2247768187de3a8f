package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// account is the ordinary user that root's run makes for the tests, and keeps
// for the next run.
const account = "forkcell-test"

// pure are packages whose tests are the same for an ordinary user:
// they ask the system for nothing, or they look at the source, for which they
// need the go command and its caches.
func pure() []string {
	return []string{"receipt", "internal/quote", "internal/redact", "internal/patch", "internal/repo", "scripts/runtests", "bench"}
}

// userStep runs everything that matters again as an ordinary user: the tests
// are compiled here and started as that user, in a copy of the repository.
func userStep(ctx context.Context, r *run) error {
	if os.Geteuid() != 0 {
		return skipped("this is an ordinary user's run already")
	}
	u, err := ordinaryUser(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "forkcell-user-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binaries, err := compile(ctx, filepath.Join(dir, "bin"))
	if err != nil {
		return err
	}
	drawing, _, err := properties(ctx, []string{"./..."})
	if err != nil {
		return err
	}
	for i := range binaries {
		binaries[i].draws = slices.Contains(drawing, module+"/"+binaries[i].pkg)
	}
	if err := u.prepare(dir); err != nil {
		return fmt.Errorf("copy the repository: %w", err)
	}
	return sideBySide(binaries, func(b binary) error { return u.test(ctx, r, dir, b) })
}

// binary is one compiled package of tests.
type binary struct {
	file    string
	pkg     string // import path within the module
	pattern string // which tests; "" = all
	draws   bool   // it has property tests
}

// compile makes the binaries of all packages, and those of tests with a tag. Each
// kind is one call of the go command, which compiles and links side by side.
func compile(ctx context.Context, dir string) ([]binary, error) {
	out, err := output(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
	if err != nil {
		return nil, err
	}
	var all []named
	for pkg := range strings.FieldsSeq(out) {
		if !slices.Contains(pure(), strings.TrimPrefix(pkg, module+"/")) {
			all = append(all, named{pkg: pkg})
		}
	}
	list, err := compileInto(ctx, filepath.Join(dir, "all"), all)
	if err != nil {
		return nil, err
	}
	for _, tag := range []string{"failpoints", "probes"} {
		tests, err := taggedTests(ctx, tag)
		if err != nil {
			return nil, err
		}
		more, err := compileInto(ctx, filepath.Join(dir, tag), tests, "-tags", tag)
		if err != nil {
			return nil, err
		}
		list = append(more, list...) // they take long, and should not start last
	}
	return list, nil
}

// compileInto makes a directory of binaries. The go command names them after the
// last part of their package's path, and refuses two of one name.
func compileInto(ctx context.Context, dir string, tests []named, flags ...string) ([]binary, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"test", "-c", "-vet=off", "-ldflags", noSymbols, "-o", dir + "/"}, flags)
	var list []binary
	for _, t := range tests {
		args = append(args, t.pkg)
		b := binary{file: filepath.Join(dir, path.Base(t.pkg)+".test"), pkg: strings.TrimPrefix(t.pkg, module+"/")}
		if len(t.tests) > 0 {
			b.pattern = t.pattern()
		}
		list = append(list, b)
	}
	return list, stream(ctx, "go", args...)
}

// identity is who runs the tests.
type identity struct {
	name     string
	uid, gid int
}

func ordinaryUser(ctx context.Context) (identity, error) {
	u, err := user.Lookup(account)
	if err != nil {
		fmt.Printf("making the account %s\n", account)
		if err := stream(ctx, "useradd", "--create-home", account); err != nil {
			return identity{}, err
		}
		if u, err = user.Lookup(account); err != nil {
			return identity{}, err
		}
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return identity{account, uid, gid}, errors.Join(err1, err2)
}

// prepare gives the user a copy of the repository, a home and a place for
// temporary files, all below dir.
func (u identity) prepare(dir string) error {
	entries, err := os.ReadDir(".")
	if err != nil {
		return err
	}
	repo := filepath.Join(dir, "repo")
	for _, sub := range []string{repo, filepath.Join(dir, "home"), filepath.Join(dir, "tmp")} {
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
	}
	for _, e := range entries {
		switch {
		case e.Name() == ".git" || e.Name() == "bin":
		case e.IsDir():
			err = os.CopyFS(filepath.Join(repo, e.Name()), os.DirFS(e.Name()))
		case e.Type().IsRegular():
			var data []byte
			if data, err = os.ReadFile(e.Name()); err == nil {
				err = os.WriteFile(filepath.Join(repo, e.Name()), data, 0o644)
			}
		}
		if err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, u.uid, u.gid)
	})
}

// test runs one compiled package in its directory of the copy.
func (u identity) test(ctx context.Context, r *run, dir string, b binary) error {
	args := []string{"-test.v=test2json", "-test.timeout=20m", "-test.paniconexit0", "-test.parallel=" + atOnce(), "-test.skip=" + selfUser}
	if b.pattern != "" {
		args = append(args, "-test.run="+b.pattern)
	}
	if b.draws {
		args = append(args, seed)
	}
	cmd := exec.CommandContext(ctx, b.file, args...)
	cmd.Dir = filepath.Join(dir, "repo", filepath.FromSlash(b.pkg))
	cmd.Env = []string{
		"HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + filepath.Join(dir, "tmp"), "PWD=" + cmd.Dir,
		"USER=" + u.name, "LOGNAME=" + u.name, "SHELL=/bin/sh", "LANG=C.UTF-8",
		"PATH=" + os.Getenv("PATH"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}}
	begin := time.Now()
	err := r.results.runBinary(ctx, "user", b.pkg, cmd)
	word := "ok  "
	if err != nil {
		word = "FAIL"
	}
	r.results.print(fmt.Sprintf("%s\t%s\t%.3fs (as %s)\n", word, module+"/"+b.pkg, time.Since(begin).Seconds(), u.name))
	return err
}
