package secretfiles_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command(git, append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func tracked(t *testing.T, dir string) ([]string, error) {
	t.Helper()
	root, err := fsx.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	m, err := secretfiles.TrackedPaths(t.Context(), root)
	return slices.Sorted(maps.Keys(m)), err
}

func TestTracked(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2", "3", "4"} {
		t.Run("index version "+version, func(t *testing.T) {
			t.Parallel()
			dir, other := t.TempDir(), t.TempDir()
			gitIn(t, other, "init", "-q")
			write(t, other+"/lib.c", "x")
			gitIn(t, other, "add", ".")
			gitIn(t, other, "commit", "-qm", "x")

			gitIn(t, dir, "init", "-q")
			gitIn(t, dir, "config", "index.version", version)
			write(t, dir+"/.env", "x")
			write(t, dir+"/.env.local", "x")
			write(t, dir+"/.ssh/config", "x")
			write(t, dir+"/odd\n\xff", "x")
			gitIn(t, dir, "add", ".env", ".ssh/config", "odd\n\xff")
			gitIn(t, dir, "submodule", "--quiet", "add", other, "third/party")
			gitIn(t, dir, "update-index", "--index-version", version)

			gitIn(t, dir, "init", "-q", "nested/deep")
			write(t, dir+"/nested/deep/.npmrc", "x")
			gitIn(t, dir+"/nested/deep", "add", ".npmrc")
			gitIn(t, dir+"/nested/deep", "commit", "-qm", "x")
			gitIn(t, dir, "commit", "-qm", "x")
			gitIn(t, dir, "add", "-f", ".env.local") // in the index alone
			write(t, dir+"/elsewhere/.git", "gitdir: /nowhere/.git/worktrees/x\n")

			got, err := tracked(t, dir)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{".env", ".gitmodules", ".ssh/config", "nested/deep/.npmrc", "odd\n\xff", "third/party", "third/party/lib.c"}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTrackedBadRepository(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q")
	write(t, dir+"/.env", "x")
	gitIn(t, dir, "add", ".env")
	gitIn(t, dir, "commit", "-qm", "x")
	write(t, dir+"/bad/.git/HEAD", "ref: refs/../../x")
	write(t, dir+"/packed/.git/HEAD", strings.Repeat("1", 40))
	write(t, dir+"/worse/.git", "nonsense")
	got, err := tracked(t, dir)
	if !errors.Is(err, secretfiles.ErrGit) {
		t.Errorf("error = %v", err)
	}
	if d := cmp.Diff([]string{".env"}, got); d != "" {
		t.Error(d)
	}
}

func TestTrackedWithoutGit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("/etc", dir+"/.git"); err != nil {
		t.Fatal(err)
	}
	if got, err := tracked(t, dir); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTrackedPacked: objects and references may be packed, and packs may be made
// of differences.
func TestTrackedPacked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q")
	var want []string
	for i := range 60 {
		name := fmt.Sprintf("many/file-%03d", i)
		write(t, filepath.Join(dir, name), fmt.Sprint(i))
		want = append(want, name)
	}
	for i := range 3 {
		write(t, dir+"/many/file-000", fmt.Sprint("again", i))
		gitIn(t, dir, "add", ".")
		gitIn(t, dir, "commit", "-qm", "x")
	}
	gitIn(t, dir, "worktree", "add", "-q", "linked")
	gitIn(t, dir, "repack", "-adfq", "--depth=50")
	gitIn(t, dir, "pack-refs", "--all")
	got, err := tracked(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range want[:60] {
		want = append(want, "linked/"+name)
	}
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
