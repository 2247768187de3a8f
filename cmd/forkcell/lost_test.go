package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lostHome is a home with an accepted and applied run, runs that wait for their
// decision, a fork, a policy, and a cell of each backend that every host has.
type lostHome struct {
	*testing.T
	dir, home string
}

// program runs the program on a home, and returns its exit code and its output.
func (l lostHome) program(home string, args ...string) (code int, stdout, stderr string) {
	l.Helper()
	cmd := exec.Command("forkcell", args...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "FORKCELL_HOME="+home, "HOME="+l.dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), out.String(), errs.String()
	}
	if err != nil {
		l.Fatal(err)
	}
	return 0, out.String(), errs.String()
}

func newLostHome(t *testing.T) lostHome {
	t.Helper()
	dir := t.TempDir()
	l := lostHome{T: t, dir: dir, home: filepath.Join(dir, "home")}
	t.Cleanup(func() { openAll(dir) })
	for _, src := range []string{"src", "live"} {
		if err := os.MkdirAll(filepath.Join(dir, src, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "sub/c"} {
			if err := os.WriteFile(filepath.Join(dir, src, name), []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, line := range []string{
		"init one --from src", "init two --from src", "init three --from live --backend delta",
		"run one -- sh -c echo>a;echo+said", "accept one --apply", "fork one --name four",
		"run --policy offline one -- sh -c echo>work;echo+said+more", "run two -- sh -c echo>w", "run three -- sh -c echo>d",
	} {
		args := strings.Fields(line)
		args[len(args)-1] = strings.ReplaceAll(args[len(args)-1], "+", " ")
		if code, out, errs := l.program(l.home, args...); code != 0 {
			t.Fatalf("%s: exit %d\n%s%s", line, code, out, errs)
		}
	}
	return l
}

// kinds returns one file of each kind that the home holds, and those of the layer
// of the pending run.
func (l lostHome) kinds(pending string) []string {
	l.Helper()
	id := regexp.MustCompile(`_[0-9a-z]{26}|[0-9a-f]{64}|[0-9]{10}|[0-9a-z]{5}/run|(sha256|objects)/[0-9a-f]{2}|^locks/.*|workspace/.*`)
	files := map[string][]string{}
	err := filepath.WalkDir(l.home, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel := strings.TrimPrefix(p, l.home+"/")
			kind := id.ReplaceAllString(rel, "*")
			files[kind] = append(files[kind], rel)
		}
		return err
	})
	if err != nil {
		l.Fatal(err)
	}
	var out []string
	for kind, list := range files {
		slices.Sort(list)
		switch {
		case strings.HasPrefix(kind, "blobs/"): // output and policies look alike
			out = append(out, list...)
		case strings.HasPrefix(kind, "layers/"): // of an import, the pending run, the delta cell
			out = append(out, list[0], list[len(list)-1])
			out = append(out, slices.DeleteFunc(list, func(f string) bool { return !strings.HasPrefix(f, pending) })...)
		case strings.HasPrefix(kind, "log/"): // of a cell, a receipt, a decision, the last
			out = append(out, list[0], list[3], list[4], list[len(list)-1])
		default:
			out = append(out, list[0])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// openAll lets an ordinary user remove the directories below a path that are closed to
// their owner, such as overlay's. It changes nothing that a link leads to: chmod -R
// follows one that it is given.
func openAll(path string) {
	_ = filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
}

// TestOpenAll: what a link leads to keeps its modes.
func TestOpenAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, errors.Join(os.MkdirAll(dir+"/host", 0o755), os.WriteFile(dir+"/host/object", nil, 0o444), os.Mkdir(dir+"/host/shut", 0o500),
		os.MkdirAll(dir+"/work/shut/below", 0o755), os.Symlink(dir+"/host", dir+"/work/up"), os.Chmod(dir+"/work/shut", 0)))
	openAll(dir + "/work/up")
	openAll(dir + "/work")
	for name, want := range map[string]fs.FileMode{"host/object": 0o444, "host/shut": 0o500, "host": 0o755, "work/shut": 0o700, "work/shut/below": 0o700} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), want)
		}
	}
}

func (l lostHome) without(file, copyName string) string {
	l.Helper()
	home := filepath.Join(l.dir, copyName)
	openAll(home)
	if err := os.RemoveAll(home); err != nil {
		l.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", l.home, home).CombinedOutput(); err != nil {
		l.Fatalf("cp: %v\n%s", err, out)
	}
	if err := os.Remove(filepath.Join(home, file)); err != nil {
		l.Fatal(err)
	}
	return home
}

var rawError = regexp.MustCompile(`panic|goroutine|(?i:sqlite|sql:)|^forkcell: not found|nil pointer`)

// clear checks that a command succeeded, or was refused in one line whose hints
// work.
func (l lostHome) clear(file, home string, followed map[string]bool, args ...string) int {
	l.Helper()
	code, _, errs := l.program(home, args...)
	if code == 0 {
		return 0
	}
	what := "without " + file + ": " + strings.Join(args, " ")
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	if code != 4 || len(lines) != 1 || !strings.HasPrefix(lines[0], "forkcell: ") || rawError.MatchString(errs) {
		l.Errorf("%s: exit %d, not one clear line:\n%s", what, code, errs)
	}
	for _, m := range hintCommand.FindAllStringSubmatch(errs, -1) {
		if followed[m[1]] {
			continue
		}
		followed[m[1]] = true
		if code, _, errs := l.program(l.without(file, "hint"), strings.Fields(m[1])[1:]...); code == 2 || code == 3 {
			l.Errorf("%s: the hint %s exits %d: %s", what, m[1], code, errs)
		}
	}
	return code
}

// TestLostFile removes one file of each kind. Every command then works, or says
// in one line what is wrong. recover loses nothing more.
func TestLostFile(t *testing.T) {
	t.Parallel()
	l := newLostHome(t)
	work, err := filepath.Glob(filepath.Join(l.home, "layers/*/workspace/work"))
	if err != nil || len(work) != 1 {
		t.Fatalf("the work of the pending run: %v, %v", work, err)
	}
	pending := strings.TrimPrefix(work[0], l.home+"/")
	for _, file := range l.kinds(filepath.Dir(filepath.Dir(pending))) {
		followed := map[string]bool{}
		home := l.without(file, "copy")
		for _, args := range []string{
			"ls", "status one", "log one", "diff one", "receipt verify --all", "gc", "run one -- true", "restore two",
		} {
			l.clear(file, home, followed, strings.Fields(args)...)
		}
		switch path.Base(file) {
		case "layer.json", "manifest", path.Base(pending):
			l.clear(file, home, followed, "verify", "one")
		case "finished", "journal.json":
			l.clear(file, home, followed, "apply", "one", "--undo")
		case "0000000004.json":
			l.clear(file, home, followed, "decisions", "list")
		}
		l.recovered(file, pending, followed)
	}
}

// recovered checks what is left after a recovery.
func (l lostHome) recovered(file, pending string, followed map[string]bool) {
	l.Helper()
	home := l.without(file, "recovered")
	code := l.clear(file, home, followed, "recover")
	l.clear(file, home, followed, "gc")
	if _, err := os.Stat(filepath.Join(home, pending)); err != nil && file != pending {
		l.Errorf("without %s: recover and gc lose the work of a pending run: %v", file, err)
	}
	check := func(after string, readable ...string) {
		for _, args := range readable {
			if code, _, errs := l.program(home, strings.Fields(args)...); code != 0 {
				l.Errorf("without %s, after %s: %s: exit %d: %s", file, after, args, code, errs)
			}
		}
	}
	check("recover", "ls", "status one")
	if !strings.HasPrefix(file, "layers/") {
		check("recover", "diff one", "diff two")
	}
	if code != 0 {
		if code := l.clear(file, home, followed, "recover", "--accept-loss"); code != 0 {
			l.Errorf("without %s: recover --accept-loss: exit %d", file, code)
		}
		check("recover --accept-loss", "ls", "status one")
	}
}
