package secretfiles_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/secretfiles"
)

func rules(t testing.TB, opt secretfiles.Options) *secretfiles.Rules {
	t.Helper()
	r, err := secretfiles.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	r := rules(t, secretfiles.Options{})
	golden, err := os.ReadFile("testdata/defaults.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		path, dir := strings.CutSuffix(f[0], "/")
		rule, out := r.Match(path, dir)
		if !out {
			rule = "-"
		}
		if rule != f[1] {
			t.Errorf("%q: left out by %q, want %q", f[0], rule, f[1])
		}
	}
}

// TestAbove: rules of several names are compared from above the directory. The directory
// itself was named, and its own name leaves nothing out.
func TestAbove(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		above, path string
		out         bool
	}{
		{"/home/u/.docker", "config.json", true},
		{"/home/u/.DOCKER", "Config.json", true},
		{"/home/u/.docker", "sub/config.json", false},
		{"/home/u/.docker", "contexts", false},
		{"/home/u/.kube", "config", true},
		{"/home/u/.kube", "config.json", false},
		{"/home/u/.docker/sub", "config.json", false},
		{"/home/u/docker", "config.json", false},
		{"/home/u/.aws", "credentials", false},
		{"/home/u/.aws", "id_rsa", true},
		{"", "config.json", false},
		{"/", "config.json", false},
	} {
		if rule, out := rules(t, secretfiles.Options{Above: c.above}).Match(c.path, false); out != c.out {
			t.Errorf("%s in %s: left out %t by %q", c.path, c.above, out, rule)
		}
	}
	for _, c := range []struct {
		dir, path string
		out       bool
	}{
		{"/srv", "/srv/u/.aws", true},
		{"/srv", "/srv/u/.aws/sub", true},
		{"/srv/u/.aws", "/srv/u/.aws", false},
		{"/srv/u/.aws", "/srv/u/.aws/sub", false},
		{"/srv/u/.kube", "/srv/u/.kube/config", true},
		{"/srv", "/srv/u/.kube", false},
		{"/", "/srv/.ssh", true},
		{"/srv", "/srv/app", false},
	} {
		if rule, out := secretfiles.SecretBelow(c.dir, c.path, true); out != c.out {
			t.Errorf("%s below %s: left out %t by %q", c.path, c.dir, out, rule)
		}
	}
}

func TestDefaultsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/reference/left-out.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range secretfiles.Defaults() {
		if !bytes.Contains(doc, []byte("`"+strings.TrimPrefix(p, "**/")+"`")) {
			t.Errorf("docs/reference/left-out.md does not list %s", p)
		}
	}
}

func TestWhoHasTheLastWord(t *testing.T) {
	t.Parallel()
	r := rules(t, secretfiles.Options{
		IgnoreFile: []byte("# comment\n\n*.log   \r\n!keep.log\n!.env\nbuild/\n\\#odd\n!.env.test\n"),
		Extra:      []string{"!.env.test", "*.bin", "!keep.bin", "/top", "!deep/.npmrc"},
	})
	for _, c := range []struct {
		path string
		dir  bool
		want string
	}{
		{"a.log", false, "*.log"},
		{"keep.log", false, ""},
		{".env", false, ".env"}, // the file cannot take a secret rule back
		{".env.test", false, ""},
		{"build", true, "build/"},
		{"build", false, ""},
		{"build/x", false, "build/"},
		{"#odd", false, `\#odd`},
		{"x/a.bin", false, "*.bin"},
		{"x/keep.bin", false, ""},
		{"top", false, "/top"},
		{"x/top", false, ""},
		{"deep/.npmrc", false, ""},
		{".npmrc", false, ".npmrc"},
		{".ssh/keep.bin", false, ".ssh"},
		{"", true, ""},
		{".", true, ""},
	} {
		if got, out := r.Match(c.path, c.dir); got != c.want || out != (c.want != "") {
			t.Errorf("Match(%q, %v) = %q, %v; want %q", c.path, c.dir, got, out, c.want)
		}
	}
	if _, out := rules(t, secretfiles.Options{NoDefaults: true}).Match(".env", false); out {
		t.Error("the defaults are off, but .env is left out")
	}
}

func TestBadPatterns(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"", "!", "/", "a//b", "../x", "./x", "a[", `a\`, "a\x00", strings.Repeat("x", 5000), "**/a/**/b/**/c/**/d/**/e", "[[:alpha:]]"} {
		if _, err := secretfiles.New(secretfiles.Options{Extra: []string{p}}); !errors.Is(err, secretfiles.ErrPattern) {
			t.Errorf("%q: %v", p, err)
		}
		if _, err := secretfiles.NewSelector([]string{p}, nil); !errors.Is(err, secretfiles.ErrPattern) {
			t.Errorf("selector %q: %v", p, err)
		}
	}
	if _, err := secretfiles.New(secretfiles.Options{IgnoreFile: []byte("ok\n[\n")}); err == nil || !strings.Contains(err.Error(), ".forkcellignore") {
		t.Errorf("the error does not name the file: %v", err)
	}
	if _, err := secretfiles.New(secretfiles.Options{IgnoreFile: make([]byte, 2<<20)}); !errors.Is(err, secretfiles.ErrPattern) {
		t.Errorf("huge file: %v", err)
	}
}

func TestFilterKeepsTracked(t *testing.T) {
	t.Parallel()
	tracked := map[string]struct{}{".env": {}, ".ssh/config": {}, "big/data.bin": {}, "a/b/.aws/x": {}, ".ssh/out": {}}
	f := rules(t, secretfiles.Options{Extra: []string{"big/", ".ssh/out"}}).With(tracked)
	for _, c := range []struct {
		path string
		dir  bool
		want secretfiles.Verdict
	}{
		{"main.go", false, secretfiles.Keep},
		{".env", false, secretfiles.KeepTracked},
		{"x/.env", false, secretfiles.Leave},
		{".ssh", true, secretfiles.KeepTracked},
		{".ssh/config", false, secretfiles.KeepTracked},
		{".ssh/id", false, secretfiles.Leave},
		{".ssh/out", false, secretfiles.Leave},
		{"a/b/.aws", true, secretfiles.KeepTracked},
		{"a/.aws", true, secretfiles.Leave},
		{"big", true, secretfiles.Leave}, // the operator said so
		{"big/data.bin", false, secretfiles.Leave},
	} {
		if rule, got := f.Decide(c.path, c.dir); got != c.want || (rule == "") != (got == secretfiles.Keep) {
			t.Errorf("Decide(%q) = %q, %v; want %v", c.path, rule, got, c.want)
		}
	}
}

func TestSelector(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		only, except []string
		path         string
		dir, want    bool
	}{
		{nil, nil, "a", false, true},
		{[]string{"src/*"}, nil, "src/a", false, true},
		{[]string{"src/*"}, nil, "src/a/b/c", false, true},
		{[]string{"src/*"}, nil, "x/src/a", false, false},
		{[]string{"src/*"}, nil, "src", true, false},
		{[]string{"docs/"}, nil, "docs", true, true},
		{[]string{"docs/"}, nil, "docs", false, false},
		{[]string{"docs/"}, nil, "x/docs/a.md", false, true},
		{[]string{"*.md"}, nil, "x/y.md", false, true},
		{[]string{"*.md"}, []string{"x/"}, "x/y.md", false, false},
		{nil, []string{"*.o"}, "a.o", false, false},
		{nil, []string{"*.o"}, "a.c", false, true},
		{[]string{"src", "!src/gen"}, nil, "src/gen/x", false, false},
		{[]string{"src", "!src/gen"}, nil, "src/x", false, true},
		{[]string{"a/**/z"}, nil, "a/z", false, true},
		{[]string{"a/**/z"}, nil, "a/b/c/z/y", false, true},
	} {
		s, err := secretfiles.NewSelector(c.only, c.except)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Match(c.path, c.dir); got != c.want {
			t.Errorf("only %q except %q: Match(%q) = %v", c.only, c.except, c.path, got)
		}
	}
}

// git itself is the judge of what a pattern means.
func TestPatternsAgainstGit(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	run := func(in string, args ...string) string {
		cmd := exec.Command(git, append([]string{"-C", dir}, args...)...)
		cmd.Env = []string{"HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	run("", "init", "-q")
	component := rapid.SampledFrom([]string{"a", "b", "ab", "*", "a*", "*b", "?", "[ab]", "[!a]", "**", "x.y"})
	paths := candidates(t, dir)
	count := 0
	rapid.Check(t, func(t *rapid.T) {
		if count++; count > 60 { // a process for each
			return
		}
		var lines []string
		for range rapid.IntRange(1, 4).Draw(t, "patterns") {
			p := strings.Join(rapid.SliceOfN(component, 1, 3).Draw(t, "parts"), "/")
			p = rapid.SampledFrom([]string{"", "!"}).Draw(t, "not") + rapid.SampledFrom([]string{"", "/"}).Draw(t, "root") + p +
				rapid.SampledFrom([]string{"", "/"}).Draw(t, "dir")
			lines = append(lines, p)
		}
		if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		ignored := map[string]bool{}
		for p := range strings.SplitSeq(run(strings.Join(paths, "\x00")+"\x00", "check-ignore", "--stdin", "-z"), "\x00") {
			ignored[p] = true
		}
		r, err := secretfiles.New(secretfiles.Options{NoDefaults: true, Extra: lines})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			info, err := os.Lstat(filepath.Join(dir, p))
			if err != nil {
				t.Fatal(err)
			}
			if _, out := r.Match(p, info.IsDir()); out != ignored[p] {
				t.Fatalf("%q: %s is left out: %v, git ignores it: %v", lines, p, out, ignored[p])
			}
		}
	})
}

// candidates makes a small tree and returns its paths.
func candidates(t *testing.T, dir string) []string {
	var paths []string
	names := []string{"a", "b", "ab", "x.y"}
	for _, d := range []string{"", "a/", "b/", "a/b/", "a/a/"} {
		for _, n := range names {
			p := d + n
			paths = append(paths, p)
			full := filepath.Join(dir, p)
			var err error
			if p == "a" || p == "b" || p == "a/b" || p == "a/a" {
				err = os.MkdirAll(full, 0o700)
			} else {
				err = os.WriteFile(full, nil, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return paths
}

func FuzzPatterns(f *testing.F) {
	f.Add("a/**/b", "a/x/b")
	f.Add("[!a]*", "b")
	f.Add(`\!x`, "!x")
	f.Add("!**", "")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		r, err := secretfiles.New(secretfiles.Options{Extra: []string{pattern}, IgnoreFile: []byte(pattern)})
		if err != nil {
			return
		}
		_, dir := r.Match(path, true)
		_, below := r.Match(path+"/x", false)
		if dir && !below {
			t.Fatalf("%q leaves out %q but not what is below it", pattern, path)
		}
		secretfiles.IsControl(path)
	})
}

func BenchmarkMatch(b *testing.B) {
	r := rules(b, secretfiles.Options{})
	paths := make([]string, 1000)
	for i := range paths {
		paths[i] = fmt.Sprintf("dir%03d/sub/component%d/file-%04d.go", i%100, i%7, i)
	}
	for b.Loop() {
		for _, p := range paths {
			if _, out := r.Match(p, false); out {
				b.Fatal(p)
			}
		}
	}
}
