package gitread_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/gitread"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func meaning(t *testing.T, dir string) [32]byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := gitread.ParseIndex(b)
	if err != nil {
		t.Fatal(err)
	}
	return gitread.Meaning(entries)
}

// What git remembers of files to notice changes means nothing, nor does the
// version of an index; entries and their flags do.
func TestMeaning(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	write(t, dir+"/a", "a")
	write(t, dir+"/ab", "ab")
	git(t, dir, "add", ".")
	before := meaning(t, dir)
	write(t, dir+"/a", "a")
	git(t, dir, "update-index", "--refresh")
	git(t, dir, "update-index", "--untracked-cache")
	for _, version := range []string{"4", "3", "2"} {
		git(t, dir, "update-index", "--index-version", version)
		if meaning(t, dir) != before {
			t.Errorf("version %s means something else", version)
		}
	}
	git(t, dir, "update-index", "--skip-worktree", "a")
	if meaning(t, dir) == before {
		t.Error("a flag means nothing")
	}
	git(t, dir, "update-index", "--no-skip-worktree", "a")
	if meaning(t, dir) != before {
		t.Error("the flag is gone, and the meaning is another")
	}
	write(t, dir+"/a", "other")
	git(t, dir, "add", ".")
	if meaning(t, dir) == before {
		t.Error("other contents mean the same")
	}
	git(t, dir, "update-index", "--split-index")
	b, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gitread.ParseIndex(b); !errors.Is(err, gitread.ErrSplit) {
		t.Errorf("a split index: %v", err)
	}
}

// bomb is a small index of version 4 that stands for terabytes of names.
func bomb() []byte {
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
	b.Write(make([]byte, 20))
	return b.Bytes()
}

func TestHostileIndex(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"bomb": bomb(), "empty": nil, "text": []byte("DIRC nonsense, and more of it, and yet more"),
		"too many": append([]byte("DIRC\x00\x00\x00\x02\xff\xff\xff\xff"), make([]byte, 100)...),
		"required": append([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00need\x00\x00\x00\x00"), make([]byte, 20)...),
	} {
		if entries, err := gitread.ParseIndex(b); err == nil {
			t.Errorf("%s: %d entries", name, len(entries))
		}
	}
	optional := append([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00WHAT\x00\x00\x00\x01x"), make([]byte, 20)...)
	if _, err := gitread.ParseIndex(optional); err != nil {
		t.Error(err)
	}
}

func FuzzParseIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01"))
	f.Add(append([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00"), make([]byte, 20)...))
	f.Fuzz(func(_ *testing.T, b []byte) {
		entries, err := gitread.ParseIndex(b)
		if err == nil {
			gitread.Meaning(entries)
		}
	})
}

func TestInObjects(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		".git/objects/0a":                            ".git",
		".git/objects/0a/1b":                         ".git",
		"sub/.git/objects/pack/pack-1.idx":           "sub/.git",
		".git/modules/a/b/objects/ff/00":             ".git/modules/a/b",
		"bare/objects/0a/1b":                         "bare",
		"objects/0a":                                 ".",
		".git/objects/info/alternates":               "",
		".git/objects":                               "",
		".git/objects/0g/1b":                         "",
		"objects0a/pack":                             "",
		".git/refs/heads/objects/pack/objects/pack/": ".git/refs/heads/objects/pack",
	} {
		if got, is := gitread.InObjects(name); got != want || is != (want != "") {
			t.Errorf("InObjects(%q) = %q, %v, want %q", name, got, is, want)
		}
	}
}

func TestObjectStore(t *testing.T) {
	t.Parallel()
	loose := strings.Repeat("1", 38)
	hash := "0a" + loose
	for name, want := range map[string]string{
		".git/objects/0a/":                                   ".git/objects",
		".git/objects/pack/":                                 ".git/objects",
		".git/objects/0a/" + loose:                           ".git/objects",
		".git/objects/0a/" + strings.Repeat("f", 62):         ".git/objects",
		"sub/.git/objects/pack/pack-" + hash + ".idx":        "sub/.git/objects",
		".git/modules/a/objects/pack/pack-" + hash + ".pack": ".git/modules/a/objects",
		".git/objects/0a/" + loose + "/x":                    "",
		".git/objects/0a/" + loose + "1":                     "",
		".git/objects/0a/" + strings.Repeat("F", 38):         "",
		".git/objects/0a/run.sh":                             "",
		".git/objects/pack/pack-" + hash + ".sh":             "",
		".git/objects/pack/pack-" + hash + ".idx/x":          "",
		".git/objects/pack/" + hash + ".idx":                 "",
		".git/objects/0a":                                    "",
		".git/objects/0a/" + loose + "/":                     "",
		".git/objects/info/alternates":                       "",
		"objects/0a/" + loose:                                "",
	} {
		dir := strings.HasSuffix(name, "/")
		if got := gitread.ObjectStore(strings.TrimSuffix(name, "/"), dir); got != want {
			t.Errorf("ObjectStore(%q, %v) = %q, want %q", name, dir, got, want)
		}
	}
}
