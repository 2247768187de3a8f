package publish

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// cellRepo is a repository in a cell, which began as a copy of the host's.
type cellRepo struct {
	d  *desk
	at string
}

func newCellRepo(d *desk) *cellRepo {
	d.t.Helper()
	c := &cellRepo{d, filepath.Join(d.t.TempDir(), "ws")}
	d.exec("/", "cp", "-r", d.repo, c.at)
	return c
}

func (c *cellRepo) git(args ...string) string {
	c.d.t.Helper()
	return c.d.exec(c.at, "git", append([]string{"-c", "user.name=Mallory", "-c", "user.email=m@example.com"}, args...)...)
}

// commit commits files; "" removes one.
func (c *cellRepo) commit(message string, files map[string]string) {
	c.d.t.Helper()
	for name, text := range files {
		at := filepath.Join(c.at, name)
		if text == "" {
			c.d.must(os.Remove(at))
			continue
		}
		c.d.must(os.WriteFile(at, []byte(text), 0o644))
	}
	c.git("add", "--all")
	c.git("commit", "--quiet", "-m", message)
}

// history returns the repository as a publication gets it.
func (c *cellRepo) history() *History {
	c.d.t.Helper()
	root := filepath.Join(c.at, ".git/objects")
	h := &History{Head: c.git("rev-parse", "HEAD")}
	c.d.must(filepath.WalkDir(root, func(p string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			name, _ := filepath.Rel(root, p)
			h.Objects = append(h.Objects, ObjectFile{name, &File{Open: func() (io.ReadCloser, error) { return os.Open(p) }}})
		}
		return err
	}))
	return h
}

func (d *desk) keeping(c *cellRepo, changes ...Change) Options {
	d.t.Helper()
	o := d.options(changes...)
	o.History = c.history()
	return o
}

// TestKeepCommits: trees and messages of the cell's commits are kept, and nothing else
// of them.
func TestKeepCommits(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		keepCommits(t, packed)
	}
}

func keepCommits(t *testing.T, packed bool) {
	t.Helper()
	d := newDesk(t, map[string]string{"a": "one\n"})
	c := newCellRepo(d)
	c.commit("first\n\nmore", map[string]string{"a": "two\n"})
	c.commit("second", map[string]string{"b": "new\n"})
	if packed {
		c.git("repack", "-adq")
	}
	w, err := d.prepare(d.keeping(c, d.change("a", "two\n"), d.change("b", "new\n")))
	d.must(err)
	d.must(w.AddBranch(t.Context()))
	want := "Op Erator|Op Erator|second\n\nForkcell-Receipt: rcpt_1\nOp Erator|Op Erator|first\n\nmore\n\nForkcell-Receipt: rcpt_1"
	got := d.git("log", "--format=%an|%cn|%B", "main..work")
	if strings.ReplaceAll(got, "\n\nOp", "\nOp") != want || w.Commits != 2 {
		t.Errorf("%d commits:\n%s\nwant\n%s", w.Commits, got, want)
	}
	for _, id := range strings.Fields(d.git("rev-list", "main..work")) {
		d.git("verify-commit", id)
	}
	if d.git("show", "work~1:a") != "two" || d.git("rev-parse", "work^{tree}") != w.Tree {
		t.Error("the trees are not those of the cell")
	}
	d.git("fsck", "--strict")
	if out, err := d.tryGit("cat-file", "-e", c.git("rev-parse", "HEAD")); err == nil {
		t.Errorf("the cell's own commit came along: %s", out)
	}
}

// TestCommitsRefused: every commit passes the gates, not only the result.
func TestCommitsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	work := d.change("a", "two\n")
	last := map[string]string{"a": "two\n"}
	for part, do := range map[string]func(c *cellRepo){
		"secret: k: its contents look like": func(c *cellRepo) {
			c.commit("add", map[string]string{"k": key})
			c.commit("remove", map[string]string{"k": "", "a": "two\n"})
		},
		"control file: .envrc": func(c *cellRepo) {
			c.commit("add", map[string]string{".envrc": "x\n"})
			c.commit("remove", map[string]string{".envrc": "", "a": "two\n"})
		},
		"1 binary file": func(c *cellRepo) {
			c.commit("add", map[string]string{"b": "\x00"})
			c.commit("remove", map[string]string{"b": "", "a": "two\n"})
		},
		"5000 changed lines": func(c *cellRepo) {
			c.commit("add", map[string]string{"b": strings.Repeat("x\n", 5000)})
			c.commit("remove", map[string]string{"b": "", "a": "two\n"})
		},
		"its message looks like":        func(c *cellRepo) { c.commit("gh"+"p_0123456789abcdefghijABCDEFGHIJ", last) },
		"differs from the newest one":   func(c *cellRepo) { c.commit("other", map[string]string{"a": "three\n"}) },
		"there are none after the base": func(*cellRepo) {},
		"not one line that begins at the base": func(c *cellRepo) {
			c.git("checkout", "--quiet", "--orphan", "other")
			c.commit("orphan", last)
		},
		"they are not one line": func(c *cellRepo) {
			c.git("checkout", "--quiet", "-b", "side")
			c.commit("side", map[string]string{"s": "s\n"})
			c.git("checkout", "--quiet", "main")
			c.commit("here", last)
			c.git("merge", "--quiet", "--no-edit", "side")
		},
		"is a submodule": func(c *cellRepo) {
			c.git("update-index", "--add", "--cacheinfo", "160000,"+c.git("rev-parse", "HEAD")+",mod")
			c.git("commit", "--quiet", "-m", "module")
			c.git("update-index", "--force-remove", "mod")
			c.commit("gone", last)
		},
		"the commits of the cell: git fetch": func(c *cellRepo) {
			c.commit("damaged", last)
			hash := c.git("rev-parse", "HEAD:a")
			at := filepath.Join(c.at, ".git/objects", hash[:2], hash[2:])
			c.d.must(os.Chmod(at, 0o644))
			c.d.must(os.WriteFile(at, []byte("no object"), 0o644))
		},
	} {
		c := newCellRepo(d)
		do(c)
		d.refused(d.keeping(c, work), api.CodeGate, part)
	}
	o := d.options(work)
	o.History = &History{Head: "--upload-pack=x"}
	d.refused(o, api.CodeGate, "HEAD is no commit")
}
