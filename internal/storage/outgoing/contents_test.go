package outgoing_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
)

// repository is a work tree with a repository that has packs and loose objects.
type repository struct {
	*testing.T
	dir  string
	view *outgoing.View
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	r := &repository{T: t, dir: t.TempDir()}
	root, err := fsx.OpenRoot(r.dir)
	r.must(err)
	t.Cleanup(func() { _ = root.Close() })
	r.view = outgoing.ViewOf(root)
	r.git("init", "-q", "-b", "main")
	for i := range 3 {
		r.write("file", strings.Repeat("line\n", 200+i))
		r.git("add", ".")
		r.git("commit", "-qm", "one")
	}
	r.git("gc", "-q")
	r.write("new", "x\n")
	r.git("add", ".")
	r.git("commit", "-qm", "two")
	return r
}

func (r *repository) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *repository) write(name, text string) {
	r.Helper()
	r.must(os.MkdirAll(filepath.Dir(filepath.Join(r.dir, name)), 0o755))
	r.must(os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
}

func (r *repository) git(args ...string) string {
	r.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Env = []string{"HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		r.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// judge returns what becomes of the files of the repository, and why.
func (r *repository) judge(before *outgoing.View) (verdicts map[string]outgoing.Verdict, why map[string]string) {
	r.Helper()
	g, err := outgoing.New(outgoing.Place{}, nil)
	r.must(err)
	g.CompareRepositories(before, r.view)
	verdicts, why = map[string]outgoing.Verdict{}, map[string]string{}
	r.must(filepath.WalkDir(filepath.Join(r.dir, ".git"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(r.dir, p)
		r.must(err)
		v, what, err := g.Judge(context.Background(), outgoing.Entry{Path: rel, File: d.Type().IsRegular()})
		verdicts[rel], why[rel] = v, what
		return err
	}))
	return verdicts, why
}

// TestRepositoryOfGit: what git writes passes, but for its settings and its notes.
func TestRepositoryOfGit(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	verdicts, why := r.judge(nil)
	packs := 0
	for p, v := range verdicts {
		want := outgoing.Passes
		switch name := strings.TrimPrefix(p, ".git/"); {
		case name == "config", name == "description", strings.HasPrefix(name, "hooks/"), name == "info/exclude":
			want = outgoing.Held
		case name == "COMMIT_EDITMSG", name == "info/refs", strings.HasPrefix(name, "objects/info/"), strings.HasSuffix(name, ".rev"):
			want = outgoing.Behind
		case strings.HasSuffix(name, ".pack"):
			packs++
		}
		if v != want {
			t.Errorf("%s: %d, want %d (%s)", p, v, want, why[p])
		}
	}
	if packs == 0 {
		t.Error("the repository has no pack")
	}
}

// TestLyingRepository: what would show the operator other contents than a push sends, or
// fewer changes than there are, is held back.
func TestLyingRepository(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(r *repository)
		path string // begins with it
		why  string
	}{
		"skip-worktree":    {func(r *repository) { r.git("update-index", "--skip-worktree", "file") }, ".git/index", "hides changes of file from git (skip-worktree)"},
		"assume-unchanged": {func(r *repository) { r.git("update-index", "--assume-unchanged", "file") }, ".git/index", "hides changes of file from git (assume-unchanged)"},
		"intent-to-add":    {func(r *repository) { r.write("later", "x"); r.git("add", "-N", "later") }, ".git/index", "hides changes of later from git (intent-to-add)"},
		"replaced":         {func(r *repository) { r.git("replace", "HEAD", "HEAD~1") }, ".git/refs/replace/", "git setting or hook"},
		"replaced and packed": {
			func(r *repository) { r.git("replace", "HEAD", "HEAD~1"); r.git("pack-refs", "--all") },
			".git/packed-refs", "has the reference refs/replace/",
		},
		"loose object": {func(r *repository) {
			from, to := r.git("rev-parse", "HEAD:new"), r.git("rev-parse", "HEAD")
			text, err := os.ReadFile(filepath.Join(r.dir, ".git/objects", from[:2], from[2:]))
			r.must(err)
			r.must(os.Remove(filepath.Join(r.dir, ".git/objects", to[:2], to[2:])))
			r.write(filepath.Join(".git/objects", to[:2], to[2:]), string(text))
		}, ".git/objects/", "object of git that is not what its name says: its contents are those of another object"},
		"damaged pack":    {func(r *repository) { r.change(".pack", -1) }, ".git/objects/pack/", "its checksum is wrong"},
		"index of a pack": {func(r *repository) { r.change(".idx", 8+4*256+19) }, ".git/objects/pack/", "its checksum is wrong"},
		"index without its pack": {func(r *repository) {
			packs, err := filepath.Glob(filepath.Join(r.dir, ".git/objects/pack/*.pack"))
			r.must(err)
			r.must(os.Remove(packs[0]))
		}, ".git/objects/pack/", "index without its pack"},
		"text for a branch": {func(r *repository) { r.write(".git/refs/heads/x", "[core]\n\tfsmonitor = x\n") }, ".git/refs/heads/x", "names no object"},
		"link for a branch": {func(r *repository) { r.must(os.Symlink("main", filepath.Join(r.dir, ".git/refs/heads/l"))) }, ".git/refs/heads/l", "no regular file"},
		"repository among the logs": {func(r *repository) {
			r.git("init", "-q", "--bare", ".git/logs/refs/heads/bare")
		}, ".git/logs/refs/heads/bare/config", "git setting or hook"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			c.make(r)
			verdicts, why := r.judge(nil)
			for p, v := range verdicts {
				if v == outgoing.Held && strings.HasPrefix(p, c.path) && strings.Contains(why[p], c.why) {
					return
				}
			}
			t.Errorf("it is not held back: %v", why)
		})
	}
}

// change changes a byte of the file in the directory of packs that ends in ext.
func (r *repository) change(ext string, at int) {
	r.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, ".git/objects/pack/*"+ext))
	r.must(err)
	text, err := os.ReadFile(files[0])
	r.must(err)
	if at < 0 {
		at += len(text)
	}
	text[at] ^= 1
	r.must(os.Chmod(files[0], 0o600))
	r.must(os.WriteFile(files[0], text, 0o600))
}

// TestOwnFlags: what the directory has already is no reason to hold an index or packed
// references back.
func TestOwnFlags(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	r.git("update-index", "--skip-worktree", "file")
	r.git("replace", "HEAD", "HEAD~1")
	r.git("pack-refs", "--all")
	verdicts, why := r.judge(r.view)
	for _, p := range []string{".git/index", ".git/packed-refs"} {
		if verdicts[p] != outgoing.Passes {
			t.Errorf("%s: %s", p, why[p])
		}
	}
}
