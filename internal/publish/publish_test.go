package publish

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

func TestPublish(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n", "gone": "x\n", "dir/same": "s\n", ".gitignore": "*.o\n", "crlf.txt": "a\r\n", ".gitattributes": "*.txt text eol=lf\n"})
	program := text("#!/bin/sh\n")
	program.Executable = true
	head := d.git("rev-parse", "HEAD")
	d.write("uncommitted", "stays")
	status := d.git("status", "--porcelain")
	w := d.publish(
		d.change("a", "two\n"), d.change("gone", ""), d.change("dir/new", "n\n"), Change{Path: "tool", New: program},
		Change{Path: "link", New: link("a")}, d.change("skipped.o", "binary\x00"), d.change("new.txt", "b\r\n"),
	)
	if got := d.git("rev-parse", "work"); got != w.Commit {
		t.Errorf("the branch is at %s, not at %s", got, w.Commit)
	}
	if got := d.git("rev-parse", "work^"); got != head || got != w.BaseCommit {
		t.Errorf("the parent is %s, not %s", got, head)
	}
	want := "A\tdir/new\nA\tlink\nA\tnew.txt\nA\ttool\nD\tgone\nM\ta"
	got := strings.Split(d.git("diff-tree", "-r", "--name-status", "main", "work"), "\n")
	slices.Sort(got)
	if strings.Join(got, "\n") != want {
		t.Errorf("changes:\n%s\nwant\n%s", got, want)
	}
	if got := d.git("ls-tree", "work", "tool", "link"); !strings.Contains(got, "100755 blob") || !strings.Contains(got, "120000 blob") {
		t.Errorf("modes: %s", got)
	}
	if got := d.exec(d.repo, "sh", "-c", "git cat-file blob work:new.txt | od -An -c"); !strings.Contains(got, `\r`) {
		t.Errorf("a line end was converted: %s", got)
	}
	if got := d.git("log", "-1", "--format=%an <%ae>%n%B", "work"); got != "Op Erator <op@example.com>\nChange things\n\nBecause.\n\nForkcell-Receipt: rcpt_1" {
		t.Errorf("message: %s", got)
	}
	d.git("verify-commit", "work")
	d.git("fsck", "--strict")
	if got := d.git("status", "--porcelain"); got != status {
		t.Errorf("the work tree changed: %s, was %s", got, status)
	}
	if !slices.Equal(w.Ignored, []string{"skipped.o"}) || w.Size != (Size{Files: 6, Lines: 7, Bytes: 26, Areas: 2}) || w.Signed != SignSSH {
		t.Errorf("ignored %v, size %+v, signed %s", w.Ignored, w.Size, w.Signed)
	}
}

// TestNothing: changes that the base has already make no commit.
func TestNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	d.refused(d.options(Change{Path: "a", Old: text("zero\n"), New: text("one\n")}, Change{Path: "b", Old: text("x")}), api.CodeNothing, "has all accepted changes already")
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n", "b": "two\n"})
	for name, c := range map[string]Change{
		"the base has other contents":   {Path: "a", Old: text("zero\n"), New: text("two\n")},
		"the base does not have it":     {Path: "c", Old: text("zero\n"), New: text("two\n")},
		"b: the base has other content": {Path: "b", Old: text("zero\n")},
		"a: the base has other content": {Path: "a", New: text("added\n")},
	} {
		d.refused(d.options(c), api.CodeConflict, name)
	}
}

// TestPathsOfNoCommit: names under which a file system or git would find a
// repository, and what a commit cannot hold.
func TestPathsOfNoCommit(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	sub := d.commit("sub", nil)
	d.git("update-index", "--add", "--cacheinfo", "160000,"+sub+",mod")
	d.git("commit", "--quiet", "-m", "module")
	for _, p := range []string{
		".GIT/config", "x/.git/config", "x/.Git/hooks/pre-commit", "x/.git", ".g\u200cit/config", "git~1/config", "GIT~1", ".git /config", "x/.git.../config",
		"../out", "x/../../out", "/abs", "a/../b", "x//y",
	} {
		d.refused(d.options(d.change(p, "text\n")), api.CodeGate, "")
	}
	d.refused(d.options(d.change("mod/file", "text\n")), api.CodeGate, "is in the submodule mod")
	d.refused(d.options(d.change("mod", "text\n")), api.CodeGate, "is in the submodule mod")
	d.refused(d.options(Change{Path: "pipe", New: &File{Other: true}}), api.CodeGate, "neither a file nor a link")
	if _, err := os.Lstat(d.repo + "/../out"); err == nil {
		t.Error("a file was written outside")
	}
}

// TestTypes: a file becomes a directory, and a directory a file.
func TestTypes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"f": "one\n", "d/a": "two\n", "l": "three\n"})
	d.publish(d.change("f", ""), d.change("f/x", "in\n"), d.change("d/a", ""), d.change("d", "now\n"), Change{Path: "l", Old: text("three\n"), New: link("f")})
	if got := d.git("ls-tree", "-r", "--name-only", "work"); got != "d\nf/x\nl" {
		t.Errorf("got %s", got)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	d.git("branch", "taken/name")
	for name, code := range map[string]api.Code{
		"": api.CodeUsage, "-x": api.CodeUsage, "a..b": api.CodeUsage, "HEAD": api.CodeUsage, "x.lock": api.CodeUsage, "a b": api.CodeUsage, "refs/heads/x": api.CodeUsage,
		"main": api.CodeUsage, "taken/name": api.CodeExists, "taken": api.CodeExists, "taken/name/more": api.CodeExists,
	} {
		o := d.options(d.change("a", "two\n"))
		o.Branch = name
		d.refused(o, code, "")
	}
	d.git("pack-refs", "--all")
	o := d.options(d.change("a", "two\n"))
	o.Branch = "taken/name"
	d.refused(o, api.CodeExists, "has the branch taken/name already")
	o = d.options(d.change("a", "two\n"))
	o.Base = "none"
	d.refused(o, api.CodeNotFound, "none")
	o = d.options(d.change("a", "two\n"))
	o.Title = "two\nlines"
	d.refused(o, api.CodeUsage, "--title")
	d.must(os.WriteFile(d.repo+"/.git/refs/heads/work.lock", nil, 0o600))
	d.refused(d.options(d.change("a", "two\n")), api.CodeBusy, "another program changes the branch work")
}

// TestTwoAtOnce: of publications to one branch exactly one succeeds.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a": "one\n"})
	works := make([]*Work, 4)
	for i := range works {
		o := d.options(d.change("a", strings.Repeat("more\n", i+1)))
		o.ID += strings.Repeat("x", i)
		w, err := d.prepare(o)
		d.must(err)
		works[i] = w
	}
	errs := make([]error, len(works))
	var all sync.WaitGroup
	for i, w := range works {
		all.Go(func() { errs[i] = w.AddBranch(t.Context()) })
	}
	all.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			if got := d.git("rev-parse", "work"); got != works[i].Commit {
				t.Errorf("the branch is at %s, and %s succeeded", got, works[i].Commit)
			}
			continue
		}
		d.isRefused(err, api.CodeExists, "has the branch work already")
	}
	if won != 1 {
		t.Errorf("%d of %d succeeded", won, len(works))
	}
	d.git("fsck", "--strict")
}
