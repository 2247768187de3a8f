package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// account is the ordinary user that root's run makes for the tests, and keeps
// for the next run.
const account = "forkcell-test"

// pure are packages whose tests are the same for an ordinary user:
// they ask the system for nothing, or they look at the source, for which they
// need the go command and its caches.
func pure() []string {
	return []string{
		"receipt", "internal/text/quote", "internal/text/redact", "internal/storage/patch", "internal/policy", "internal/front/web/highlight", "internal/network/sshkey",
		"internal/testkit/repo", "scripts/lanes", "scripts/runtests", "scripts/compat", "bench",
	}
}

// asRoot are the slow tests that an ordinary user's run would only repeat. Who runs the
// program decides what a cell is built of: namespaces, owners, layers, limits, the way to
// the network. A test may stand here if it looks at what comes before that or after it,
// and if quicker ones build the same cells as both. It is run by root.
func asRoot() []namedTests {
	return []namedTests{
		{"cmd/forkcell", []string{
			// How a request is carried. TestScripts has the same scripts, and those of url and
			// serve, as both.
			"TestScriptsOverADaemon", "TestScriptsOverTCP",
			// What programs do in a cell, where they are the same user for every caller.
			// TestTools/cache-go compiles as both; TestEgressPrograms, TestEgressRequests and
			// the guide's page about packages reach a network as both.
			"TestTools/go", "TestEgressClients", "TestEgressDevRegistries",
			// Bytes of a home that are lost or changed.
			"TestLostFile",
		}},
		// The same of the database, and directories with very many entries.
		{"internal/engine", []string{"TestEveryColumnIsEvidence", "TestWideDirectory"}},
	}
}

// userStep runs everything that matters again as an ordinary user: the tests
// are compiled here and started as that user, in a copy of the repository.
func userStep(ctx context.Context, r *run) error {
	if os.Geteuid() != 0 {
		return skippedStep("this is an ordinary user's run already")
	}
	uid, gid, err := ordinaryUser(ctx)
	if err != nil {
		return err
	}
	skip, err := asRootPattern(ctx)
	if err != nil {
		return err
	}
	binaries, err := r.userBinaries(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "forkcell-user-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := prepare(dir, uid, gid); err != nil {
		return fmt.Errorf("copy the repository: %w", err)
	}
	return ordinary(account, uid, gid, dir).tests(ctx, r, "user", binaries, "-test.skip="+skip)
}

// asRootPattern returns the regular expression of the tests that only root runs. A test
// that is named and does not exist is an error.
func asRootPattern(ctx context.Context) (string, error) {
	all, err := declaredTests(ctx, "Test")
	if err != nil {
		return "", err
	}
	pattern := selfUser
	for _, n := range asRoot() {
		i := slices.IndexFunc(all, func(d namedTests) bool { return d.pkg == n.pkg })
		for _, test := range n.tests {
			name, sub, _ := strings.Cut(test, "/")
			if i < 0 || !slices.Contains(all[i].tests, name) {
				return "", fmt.Errorf("step user leaves out %s %s, which does not exist", n.pkg, test)
			}
			pattern += "|^" + name + "$"
			if sub != "" {
				pattern += "/^" + sub + "$"
			}
		}
	}
	return pattern, nil
}

// userBinaries returns the compiled tests of an ordinary user.
func (r *run) userBinaries(ctx context.Context) ([]binary, error) {
	var all []binary
	// Those with a tag take long, and should not start last.
	for _, build := range []func(context.Context) ([]binary, error){r.builds.probes, r.builds.failpoints, r.builds.plain} {
		more, err := build(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return slices.DeleteFunc(all, func(b binary) bool { return slices.Contains(pure(), b.pkg) }), nil
}

// ordinaryUser returns the ids of the account, which it makes if it is missing.
func ordinaryUser(ctx context.Context) (uid, gid int, err error) {
	u, err := user.Lookup(account)
	if err != nil {
		fmt.Printf("making the account %s\n", account)
		if err := stream(ctx, "useradd", "--create-home", account); err != nil {
			return 0, 0, err
		}
		if u, err = user.Lookup(account); err != nil {
			return 0, 0, err
		}
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(err1, err2)
}

// prepare gives a user a copy of the repository, a home and a place for
// temporary files, all below dir.
func prepare(dir string, uid, gid int) error {
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
		return os.Lchown(path, uid, gid)
	})
}
