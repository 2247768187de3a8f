package repo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLean: what the lean program does not have, the whole one beside it does, and
// without that one nothing is done.
func TestLean(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lean, whole := filepath.Join(dir, "forkcell"), filepath.Join(dir, "forkcell-server")
	link := func(file, to string) {
		t.Helper()
		if err := os.Link(file, to); err != nil {
			t.Fatal(err)
		}
	}
	link(program(t, programs.lean), lean)
	if deps := string(goCommand(t, "list", "-deps", "-tags", "lean", "./cmd/forkcell")); strings.Contains(deps, "klauspost") || strings.Contains(deps, "/huma/") || strings.Contains(deps, "internal/front/remote") || strings.Contains(deps, "opentelemetry") {
		t.Error("the lean program links zstd, the daemon, what talks to it, or traces")
	}
	source := filepath.Join(dir, "src")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "hello"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), lean, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "FORKCELL_HOME="+filepath.Join(dir, "home"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("init", "demo", "--from", source, "--backend", "clone"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	export := []string{"export", "demo", "-o", "demo.tar.zst"}
	if out, err := run(export...); err == nil || !strings.Contains(out, "needs forkcell-server") {
		t.Errorf("alone: %v\n%s", err, out)
	}
	if _, err := os.Lstat(filepath.Join(dir, "demo.tar.zst")); err == nil {
		t.Error("alone it wrote an archive")
	}
	elsewhere := []string{"--url", "unix:none", "ls"}
	if out, err := run(elsewhere...); err == nil || !strings.Contains(out, "needs forkcell-server") {
		t.Errorf("alone: %v\n%s", err, out)
	}
	link(program(t, programs.whole), whole)
	// An archive is recognised by its contents, whatever its name.
	for _, args := range [][]string{export, {"init", "again", "--from", "demo.tar.zst"}, {"init", "third", "--from", "plain.tar"}} {
		if args[len(args)-1] == "plain.tar" {
			if err := os.Rename(filepath.Join(dir, "demo.tar.zst"), filepath.Join(dir, "plain.tar")); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := run(args...); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	if out, err := run(elsewhere...); err == nil || !strings.Contains(out, "the daemon at unix:none") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("export", "third", "-o", "out"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "out", "hello")); err != nil || string(text) != "hello\n" {
		t.Errorf("%q, %v", text, err)
	}
}
