package gitread_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/gitread"
)

// output returns what git prints.
func output(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestSkipped: git reads an index with other flags, of every version and with its
// extensions, and without the flags it is as it was.
func TestSkipped(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	for name, prepare := range map[string][]string{
		"version 2":       {"update-index", "--index-version", "2"},
		"version 4":       {"update-index", "--index-version", "4"},
		"untracked cache": {"update-index", "--force-untracked-cache"},
		"many":            {"-c", "index.threads=2", "update-index", "--index-version", "2", "--force-write-index"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			git(t, dir, "init", "-q")
			var names []string
			for i := range 40 {
				names = append(names, strings.Repeat("n", 1+i))
				write(t, filepath.Join(dir, names[i]), names[i])
			}
			git(t, dir, "add", ".")
			git(t, dir, "commit", "-q", "-m", "one")
			git(t, dir, prepare...)
			file := filepath.Join(dir, ".git/index")
			was, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			set := func(b []byte, want func(e gitread.IndexEntry) bool) []byte {
				t.Helper()
				b, err := gitread.WithSkipFlags(b, want)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, b, 0o600); err != nil {
					t.Fatal(err)
				}
				return b
			}
			hidden := names[3:20]
			flagged := set(was, func(e gitread.IndexEntry) bool { return slices.Contains(hidden, e.Name) })
			for _, n := range hidden {
				if err := os.Remove(filepath.Join(dir, n)); err != nil {
					t.Fatal(err)
				}
			}
			if got := output(t, dir, "status", "--porcelain"); got != "" {
				t.Errorf("status: %s", got)
			}
			if got := strings.Count(output(t, dir, "ls-files", "-v"), "S "); got != len(hidden) {
				t.Errorf("%d entries are skipped", got)
			}
			git(t, dir, "fsck")
			same, err := gitread.WithSkipFlags(flagged, func(e gitread.IndexEntry) bool { return slices.Contains(hidden, e.Name) })
			if err != nil || !bytes.Equal(same, flagged) {
				t.Errorf("without a change: %v", err)
			}
			back := set(flagged, func(gitread.IndexEntry) bool { return false })
			a, _ := gitread.ParseIndex(was)
			b, err := gitread.ParseIndex(back)
			if err != nil || gitread.Meaning(a) != gitread.Meaning(b) {
				t.Errorf("it means something else without the flags: %v", err)
			}
			git(t, dir, "checkout", "-q", "--", ".")
			if got := output(t, dir, "status", "--porcelain"); got != "" {
				t.Errorf("status in the end: %s", got)
			}
		})
	}
}

func FuzzSkipped(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00" + strings.Repeat("x", 20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		on, err := gitread.WithSkipFlags(b, func(gitread.IndexEntry) bool { return true })
		if err != nil {
			return
		}
		entries, err := gitread.ParseIndex(on)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.IsSkipped() {
				t.Fatalf("%q is not skipped", e.Name)
			}
		}
	})
}
