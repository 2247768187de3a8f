package patch_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/patch"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

var update = flag.Bool("update", false, "rewrite testdata/golden.txtar")

// contents is all files of a test, by side and path.
type contents map[[2]string]string

func side(n int) string { return []string{"old", "new"}[n] }

func (c contents) open(s int, path string, _ tree.Entry) (io.ReadCloser, error) {
	b, ok := c[[2]string{side(s), path}]
	if !ok {
		return nil, errors.New("not opened by this side and path: " + side(s) + " " + path)
	}
	return io.NopCloser(strings.NewReader(b)), nil
}

func (c contents) file(s int, path, text string, mode uint32) *tree.Entry {
	c[[2]string{side(s), path}] = text
	return &tree.Entry{Name: filepath.Base(path), Kind: tree.KindFile, Mode: mode, Size: int64(len(text)), Digest: sha256.Sum256([]byte(text))}
}

func (c contents) modified(path, old, now string) tree.Change {
	return tree.Change{Path: path, Kind: tree.Modified, Old: c.file(patch.Old, path, old, 0o644), New: c.file(patch.New, path, now, 0o644)}
}

func link(target string) *tree.Entry {
	return &tree.Entry{Kind: tree.KindSymlink, Mode: 0o777, Target: target}
}

type golden struct {
	name    string
	changes []tree.Change
}

func cases(c contents) []golden {
	lines := func(n int) string {
		return strings.Repeat("line\n", n)
	}
	file := func(mode uint32, x ...fsx.Xattr) *tree.Entry {
		e := c.file(patch.Old, "same", "same\n", mode)
		e.Xattrs = x
		return e
	}
	x := func(name, value string) fsx.Xattr { return fsx.Xattr{Name: name, Value: []byte(value)} }
	owned := file(0o4755)
	owned.UID, owned.GID = 1000, 100
	renamed := tree.Change{Path: "new\x1b[2Jname", OldPath: "old name", Kind: tree.Renamed, Old: c.file(patch.Old, "old name", "text\n", 0o644), New: c.file(patch.New, "new\x1b[2Jname", "text\n", 0o755)}
	return []golden{
		{"added", []tree.Change{{Path: "dir/new.txt", Kind: tree.Added, New: c.file(patch.New, "dir/new.txt", "one\ntwo\n", 0o644)}}},
		{"added-empty", []tree.Change{{Path: "empty", Kind: tree.Added, New: c.file(patch.New, "empty", "", 0o600)}}},
		{"deleted", []tree.Change{{Path: "gone", Kind: tree.Deleted, Old: c.file(patch.Old, "gone", "one\ntwo", 0o644)}}},
		{"modified", []tree.Change{c.modified("a.txt", lines(9)+"old\n"+lines(20)+"tail", lines(9)+"new\n"+lines(20)+"tail\n")}},
		{"several", []tree.Change{
			c.modified("long/path/to/file.go", "a\nb\nc\n", "a\nB\nc\nd\n"), c.modified("x", "1\n", "2\n"),
			{Path: "d", Kind: tree.Added, New: &tree.Entry{Kind: tree.KindDir, Mode: 0o1755}},
		}},
		{"many-lines", []tree.Change{c.modified("big", strings.Repeat("a\n", 50), strings.Repeat("b\n", 9)), c.modified("small", "a\n", "b\n")}},
		{"binary", []tree.Change{
			c.modified("nul", "a\x00b", "a\x00c"), c.modified("latin1", "text\n", "\xe4\n"),
			{Path: "bin", Kind: tree.Added, New: c.file(patch.New, "bin", "\x00", 0o644)},
			{Path: "oldbin", Kind: tree.Deleted, Old: c.file(patch.Old, "oldbin", "\x00", 0o644)},
		}},
		{"large", []tree.Change{c.modified("large.txt", lines(1000), lines(1001))}},
		{"renamed", []tree.Change{renamed}},
		{"metadata", []tree.Change{
			{Path: "m", Kind: tree.ModeChanged, Old: file(0o644), New: file(0o4755), MetaOnly: true},
			{Path: "o", Kind: tree.ModeChanged, Also: []tree.ChangeKind{tree.OwnerChanged}, Old: file(0o644), New: owned, MetaOnly: true},
			{Path: "x", Kind: tree.XattrChanged, Old: file(0o644, x("user.a", "1"), x("user.b", "old\n"), x("user.c", "c")), New: file(0o644, x("user.b", "new\u202e"), x("user.c", "c"), x("user.d", strings.Repeat("d", 100))), MetaOnly: true},
			{Path: ".", Kind: tree.MTimeChanged, Old: &tree.Entry{Kind: tree.KindDir, Mode: 0o755, MTime: fsx.Time{Sec: 1}}, New: &tree.Entry{Kind: tree.KindDir, Mode: 0o755, MTime: fsx.Time{Sec: 1, Nsec: 5}}},
		}},
		{"links-and-types", []tree.Change{
			{Path: "l", Kind: tree.Modified, Old: link("a"), New: link("b\nc")},
			{Path: "newlink", Kind: tree.Added, New: link("/etc/passwd")},
			{Path: "oldlink", Kind: tree.Deleted, Old: link("x")},
			{Path: "t", Kind: tree.TypeChanged, Also: []tree.ChangeKind{tree.ModeChanged}, Old: c.file(patch.Old, "t", "was a file\n", 0o644), New: link("x")},
			{Path: "u", Kind: tree.TypeChanged, Old: link("x"), New: c.file(patch.New, "u", "is a file\n", 0o777)},
			{Path: "f", Kind: tree.Added, New: &tree.Entry{Kind: tree.KindFifo, Mode: 0o600}},
			{Path: "s", Kind: tree.Deleted, Old: &tree.Entry{Kind: tree.KindSocket, Mode: 0o600}},
		}},
		{"hostile", []tree.Change{
			c.modified("crlf", "a\r\nC:\\x\n", "b\r\nC:\\x\n"),
			c.modified("draws", "x\n", "\x1b[2J\x1b[H\rforged\u202etxt\u200b\\u202e\n"),
			c.modified("headers", "-- a/etc/passwd\n-- sql comment\n", "++ b/etc/passwd\n++ /dev/null\n@@ -1 +1 @@\ndiff --git a/x b/x\n"),
			{Path: "nl\ndiff --git a/x b/x", Kind: tree.Added, New: c.file(patch.New, "nl\ndiff --git a/x b/x", "\tx\n", 0o644)},
		}},
		{"git-objects", gitObjects(c)},
		{"none", nil},
	}
}

// gitObjects is a commit, and what somebody could try to hide among its objects.
func gitObjects(c contents) []tree.Change {
	added := func(path string, mode uint32) tree.Change {
		return tree.Change{Path: path, Kind: tree.Added, New: c.file(patch.New, path, "\x78\x01", mode)}
	}
	dir := func(path string) tree.Change {
		return tree.Change{Path: path, Kind: tree.Added, New: &tree.Entry{Kind: tree.KindDir, Mode: 0o755}}
	}
	a, b := strings.Repeat("a", 38), strings.Repeat("b", 38)
	return []tree.Change{
		c.modified(".git/HEAD", "a\n", "b\n"),
		dir(".git/objects/02"), added(".git/objects/02/"+a, 0o444), added(".git/objects/02/"+b, 0o444),
		added(".git/objects/02/"+b+"x", 0o444),
		{Path: ".git/objects/02/" + strings.Repeat("c", 38), Kind: tree.Deleted, Old: c.file(patch.Old, ".git/objects/02/c", "", 0o444)},
		added(".git/objects/03/"+a, 0o755),
		c.modified(".git/objects/04/"+a, "\x78\x01", "\x78\x02"),
		added(".git/objects/pack/pack-"+"01"+a+".idx", 0o444), added(".git/objects/pack/pack-"+"01"+a+".pack", 0o444),
		dir("empty/.git/objects/pack"),
		dir("sub/.git/objects/02"), added("sub/.git/objects/02/"+a, 0o444),
	}
}

func render(t testing.TB, c contents, changes []tree.Change, opt patch.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := patch.Write(&b, list(changes...), c.open, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	t.Parallel()
	got := &txtar.Archive{Comment: []byte("What people see. Rewrite with: go test ./internal/storage/patch -update\n")}
	modes := []struct {
		name string
		mode patch.Mode
	}{{"patch", patch.Patch}, {"stat", patch.Stat}, {"name-status", patch.NameStatus}}
	c := contents{}
	for _, g := range cases(c) {
		for _, m := range modes {
			out := render(t, c, g.changes, patch.Options{Mode: m.mode, MaxText: 4096})
			for line := range strings.SplitSeq(out, "\n") {
				if !quote.Visible(line) {
					t.Errorf("%s: a line can draw: %q", g.name, line)
				}
			}
			got.Files = append(got.Files, txtar.File{Name: g.name + "." + m.name, Data: []byte(out)})
		}
	}
	const path = "testdata/golden.txtar"
	if *update {
		if err := os.WriteFile(path, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(txtar.Format(got))); d != "" {
		t.Error(d)
	}
}

// Contents made to be slow must not be.
func BenchmarkWorst(b *testing.B) {
	var old, now strings.Builder
	for i := range 150_000 {
		old.WriteString([]string{"a\n", "b\n", "c\n"}[i%3])
		now.WriteString([]string{"c\n", "a\n", "a\n", "b\n"}[i*7%4])
	}
	c := contents{}
	changes := []tree.Change{c.modified("f", old.String(), now.String())}
	for b.Loop() {
		if err := patch.Write(io.Discard, list(changes...), c.open, patch.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestColor(t *testing.T) {
	t.Parallel()
	c := contents{}
	changes := []tree.Change{c.modified("a", "x\n", "y\n")}
	for _, m := range []patch.Mode{patch.Patch, patch.Stat} {
		with := render(t, c, changes, patch.Options{Mode: m, Color: true})
		if !strings.Contains(with, "\x1b[32m+") {
			t.Errorf("no colour in %q", with)
		}
		for _, seq := range []string{"\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[m"} {
			with = strings.ReplaceAll(with, seq, "")
		}
		if d := cmp.Diff(render(t, c, changes, patch.Options{Mode: m}), with); d != "" {
			t.Error(d)
		}
	}
}

// TestRelay: what is relayed looks as what is written, with colours and without.
func TestRelay(t *testing.T) {
	t.Parallel()
	c := contents{}
	for _, g := range cases(c) {
		for _, opt := range []patch.Options{{}, {Color: true}, {Mode: patch.Stat}, {Mode: patch.Stat, Color: true}} {
			opt.MaxText = 4096
			want := render(t, c, g.changes, opt)
			sent := render(t, c, g.changes, patch.Options{Mode: opt.Mode, MaxText: opt.MaxText})
			var got bytes.Buffer
			if err := patch.Relay(&got, strings.NewReader(sent), opt); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got.String()); d != "" {
				t.Errorf("%s, mode %d, colour %v: %s", g.name, opt.Mode, opt.Color, d)
			}
		}
	}
}

// TestRelayHostile: a text of a stranger draws nothing, and is bounded.
func TestRelayHostile(t *testing.T) {
	t.Parallel()
	for _, mode := range []patch.Mode{patch.Patch, patch.Stat} {
		var got bytes.Buffer
		sent := "\x1b[2J\r\u202e\n@@ -1,99999999999999999999 +1 @@\n+\x1b]0;title\a\n a | 1 \x1b[31m+\n"
		if err := patch.Relay(&got, strings.NewReader(sent), patch.Options{Mode: mode}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(got.String(), "\n") {
			if !quote.Visible(line) {
				t.Errorf("a line can draw: %q", line)
			}
		}
	}
	endless := io.LimitReader(zeros{}, 64<<20)
	if err := patch.Relay(io.Discard, endless, patch.Options{}); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("an endless line: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestErrors(t *testing.T) {
	t.Parallel()
	c := contents{}
	change := c.modified("a", "x\n", "y\n")
	change.New.Size = 99
	if err := patch.Write(io.Discard, list(change), c.open, patch.Options{}); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("wrong size: %v", err)
	}
	delete(c, [2]string{"old", "a"})
	if err := patch.Write(io.Discard, list(change), c.open, patch.Options{Mode: patch.Stat}); err == nil {
		t.Error("missing contents are no error")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	defer w.Close()
	c2 := contents{}
	err = patch.Write(w, list(c2.modified("a", "x\n", "y\n")), c2.open, patch.Options{})
	if !errors.Is(err, unix.EPIPE) {
		t.Errorf("closed pipe: %v", err)
	}
}

// Where nothing had to be escaped, git can apply the patch.
func TestGitApplies(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	count := 0
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		if count++; count > 40 { // a process for each
			return
		}
		text := rapid.Custom(func(t *rapid.T) string {
			s := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", "-- x", "+", "@@", "\\"}), 0, 30).Draw(t, "lines"), "\n")
			if s != "" && rapid.Bool().Draw(t, "ended") {
				s += "\n"
			}
			return s
		})
		old, now := text.Draw(t, "old"), text.Draw(t, "new")
		if old == now {
			return
		}
		c := contents{}
		change := c.modified("f", old, now)
		var b bytes.Buffer
		if err := patch.Write(&b, list(change), c.open, patch.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(git, "apply", "--unidiff-zero", "--whitespace=nowarn", "-")
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(b.Bytes())
		cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git apply: %v\n%s\n%s", err, out, b.String())
		}
		got, err := os.ReadFile(filepath.Join(dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != now {
			t.Fatalf("git made %q of %q, want %q", got, old, now)
		}
	})
}

// The numbers of a hunk are where its lines stand in the two texts.
func TestPositions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var before, after []string
		for i, edit := range rapid.SliceOfN(rapid.SampledFrom([]string{"keep", "keep", "keep", "keep", "change", "remove", "add"}), 1, 80).Draw(t, "edits") {
			line := fmt.Sprintln(i)
			if edit != "add" {
				before = append(before, line)
			}
			switch edit {
			case "keep", "add":
				after = append(after, line)
			case "change":
				after = append(after, "new "+line)
			}
		}
		c := contents{}
		got, err := patch.Compare(c.modified("f", strings.Join(before, ""), strings.Join(after, "")), c.open, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range got.Hunks {
			from, to := h.FromLine-1, h.ToLine-1
			for _, l := range h.Lines {
				if l.Kind != patch.Insert {
					if l.Content != before[from] {
						t.Fatalf("line %d of the old text is %q, not %q", from+1, before[from], l.Content)
					}
					from++
				}
				if l.Kind != patch.Delete {
					if l.Content != after[to] {
						t.Fatalf("line %d of the new text is %q, not %q", to+1, after[to], l.Content)
					}
					to++
				}
			}
		}
	})
}

// Whatever the contents and names are, the lines that are ours are the only ones
// that look so.
func FuzzPatch(f *testing.F) {
	f.Add("a\n", "b\n", "name")
	f.Add("-- a/x\n", "++ b/x\n", "a\nb")
	f.Add("", "\x1b[2J\r\u202e", "\xff")
	f.Fuzz(func(t *testing.T, old, now, name string) {
		if name == "" || strings.Contains(name, "\x00") {
			return
		}
		c := contents{}
		out := render(t, c, []tree.Change{c.modified(name, old, now)}, patch.Options{})
		var heads []string
		for line := range strings.SplitSeq(strings.TrimSuffix(out, "\n"), "\n") {
			if !quote.Visible(line) {
				t.Fatalf("a line can draw: %q", line)
			}
			for _, h := range []string{"diff --git ", "--- a/", "--- \"a/", "+++ b/", "+++ \"b/", "--- /dev", "+++ /dev"} {
				if strings.HasPrefix(line, h) {
					heads = append(heads, h[:3])
				}
			}
		}
		if !slices.Equal(heads, []string{"dif"}) && !slices.Equal(heads, []string{"dif", "---", "+++"}) {
			t.Fatalf("forged header in\n%s", out)
		}
	})
}

// list delivers changes one by one.
func list(changes ...tree.Change) func(func(tree.Change) error) error {
	return func(fn func(tree.Change) error) error {
		for _, c := range changes {
			if err := fn(c); err != nil {
				return err
			}
		}
		return nil
	}
}
