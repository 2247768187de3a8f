package adapter

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// install writes an executable file and the directories above it.
func install(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

// realTemp returns a temporary directory without links in its path.
func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFindNode(t *testing.T) {
	t.Parallel()
	dir := realTemp(t)
	// As nvm installs: the interpreter, links and packages below one directory.
	version := dir + "/.nvm/versions/node/v20"
	modules := version + "/lib/node_modules"
	install(t, version+"/bin/node", "\x7fELF")
	install(t, modules+"/@openai/codex/bin/codex.js", "#!/usr/bin/env node\n")
	install(t, modules+"/@openai/codex/package.json", `{"name":"@openai/codex","version":"0.166.0"}`)
	link(t, "../lib/node_modules/@openai/codex/bin/codex.js", version+"/bin/codex")
	a := find(t, "codex")
	in, err := a.Find("/nowhere:relative:" + version + "/bin")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{version + "/bin/node", modules + "/@openai/codex/bin/codex.js"}; !slices.Equal(in.Command, want) {
		t.Errorf("command %q, want %q", in.Command, want)
	}
	if want := []string{modules, version + "/bin/node"}; !slices.Equal(in.Show, want) {
		t.Errorf("shown %q, want %q", in.Show, want)
	}
	if want := []string{version + "/bin"}; !slices.Equal(in.PathDirs, want) || in.Version != "0.166.0" {
		t.Errorf("on PATH %q, version %q", in.PathDirs, in.Version)
	}
}

func TestFindNative(t *testing.T) {
	t.Parallel()
	dir := realTemp(t)
	program := dir + "/share/claude/versions/2.1.200"
	install(t, program, "\x7fELF")
	link(t, program, dir+"/bin/claude")
	in, err := find(t, "claude").Find(dir + "/bin")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(in.Command, []string{program}) || !slices.Equal(in.Show, []string{program}) || in.Version != "2.1.200" {
		t.Errorf("got %+v", in)
	}
}

func TestFindNothing(t *testing.T) {
	t.Parallel()
	dir := realTemp(t)
	if _, err := find(t, "gemini").Find(dir); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("got %v, want ErrNotInstalled", err)
	}
	install(t, dir+"/gemini", "#!/usr/bin/env no-such-interpreter\n")
	if _, err := find(t, "gemini").Find(dir); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("a script without its interpreter: got %v, want ErrNotInstalled", err)
	}
	if err := os.Chmod(dir+"/gemini", 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := find(t, "gemini").Find(dir); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("a file that is not executable: got %v, want ErrNotInstalled", err)
	}
}

func TestFindInSystem(t *testing.T) {
	t.Parallel()
	in, err := find(t, "generic").FindCommand("/usr/bin:/bin", "sh")
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Show) != 0 {
		t.Errorf("a program of the system needs %q", in.Show)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	tested := Range{From: "2.1.9", To: "2.1.197"}
	for version, want := range map[string]string{
		"2.1.8": VersionOlder, "2.1.9": VersionTested, "2.1.100": VersionTested, "2.1.197-beta.1": VersionTested,
		"2.1.198": VersionNewer, "2.2": VersionNewer, "10.0.0": VersionNewer, "": VersionUnknown,
	} {
		if got := tested.Place(version); got != want {
			t.Errorf("%q: %s, want %s", version, got, want)
		}
	}
	for output, want := range map[string]string{
		"2.1.197 (Claude Code)": "2.1.197", "codex-cli 0.166.0": "0.166.0", "v1.0.102.": "1.0.102", "GitHub Copilot CLI 1.0.102": "1.0.102", "none": "",
	} {
		if got := ParseVersion(output); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}

func find(t *testing.T, name string) *Adapter {
	t.Helper()
	e, err := builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return e.Adapter
}
