package leftout_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/leftout"
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
	m, err := leftout.Tracked(root)
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

func TestTrackedBadIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q")
	write(t, dir+"/.env", "x")
	gitIn(t, dir, "add", ".env")
	write(t, dir+"/bad/.git/index", "DIRC nonsense")
	write(t, dir+"/worse/.git", "nonsense")
	got, err := tracked(t, dir)
	if !errors.Is(err, leftout.ErrIndex) {
		t.Errorf("error = %v", err)
	}
	if d := cmp.Diff([]string{".env"}, got); d != "" {
		t.Error(d)
	}
}

// A small index of version 4 can stand for terabytes of names.
func TestTrackedIndexBomb(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	b.WriteString("DIRC")
	const entries = 200_000
	_ = binary.Write(&b, binary.BigEndian, []uint32{4, entries})
	name := bytes.Repeat([]byte("a"), 10_000)
	for range entries {
		b.Write(make([]byte, 62))
		b.WriteByte(0)
		b.Write(name)
		b.WriteByte(0)
		name = name[:1]
	}
	dir := t.TempDir()
	write(t, dir+"/.git/index", b.String())
	if got, err := tracked(t, dir); !errors.Is(err, leftout.ErrIndex) || len(got) != 0 {
		t.Errorf("%d names, error %v", len(got), err)
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

func FuzzTracked(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01"))
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, index []byte) {
		dir := t.TempDir()
		write(t, dir+"/.git/index", string(index))
		got, _ := tracked(t, dir)
		for _, p := range got {
			if err := fsx.CheckPath(p); err != nil {
				t.Fatalf("%q: %v", p, err)
			}
		}
	})
}
