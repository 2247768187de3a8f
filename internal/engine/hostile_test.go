package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/engine"
)

// terminalEscapes is text that would take a terminal over.
const terminalEscapes = "\x1b[2J\x1b]0;owned\a\r\u202egnp\u2066\xff\xfe\x00tail"

func clean(t *testing.T, what string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.ContainsAny(text, "\x1b\r\a\x00") || strings.Contains(text, "\u202e") || strings.ContainsRune(text, '\u2066') {
			t.Errorf("%s can draw: %q", what, text)
		}
	}
}

// TestOutputIsRawAndTextIsClean: the command's bytes pass unchanged; Forkcell's
// own text about them has no escape sequences.
func TestOutputIsRawAndTextIsClean(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	var out bytes.Buffer
	_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"cat"}}, engine.Stdio{In: strings.NewReader(terminalEscapes), Out: &out})
	w.ok(err)
	if out.String() != terminalEscapes {
		t.Fatalf("the output is %q", out.String())
	}
	stored, _, err := w.e.Logs(w.ctx, "demo", "")
	w.ok(err)
	kept, err := io.ReadAll(stored)
	w.ok(errors.Join(err, stored.Close()))
	if string(kept) != terminalEscapes {
		t.Fatalf("the stored output is %q", kept)
	}
	bad := strings.TrimSuffix(terminalEscapes, "\x00tail")
	res, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"./" + bad, bad}}, engine.Stdio{})
	w.ok(err)
	if res.ExitCode != 127 {
		t.Fatalf("got %+v", res)
	}
	clean(t, "the result", append(res.Notes, res.Error)...)
	_, err = w.e.Reject(w.ctx, "demo", "", bad)
	w.ok(err)
	doc, err := w.e.Receipt(w.ctx, "", "demo", true)
	w.ok(err)
	clean(t, "the receipt", string(doc.Markdown), string(doc.JSON))
	// Names that the cell chose are part of an error; each stays on its line.
	w.sh("demo", "mkdir .vscode; touch \".vscode/$(printf '\\033[2J\\nx: fine')\"", acceptOnSuccess)
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "held back")
	e, _ := errors.AsType[*api.Error](err)
	clean(t, "an error", append(e.Details, e.Message, e.Hint)...)
	if all := strings.Join(e.Details, ""); strings.Contains(all, "\n") {
		t.Errorf("a name forges a line: %q", all)
	}
	w.sound("demo")
}

// deepDirs makes a chain of directories that is far too long for a path.
func deepDirs() error {
	for range number(here("DEPTH")) {
		if err := errors.Join(os.Mkdir("deeper", 0o755), os.Chdir("deeper")); err != nil {
			return err
		}
	}
	return os.WriteFile("bottom", []byte("here"), 0o644)
}

// TestManyFilesAndDeepDirectories: everything that a command can make can be
// kept in a state, and removed again.
func TestManyFilesAndDeepDirectories(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		t := w.T
		files, depth := 1000, 200
		if backend == "overlay" {
			files, depth = 10_000, 2000
		}
		w.init("demo", backend)
		many, _ := w.sh("demo", fmt.Sprintf("mkdir many && cd many && seq %d | xargs touch", files))
		if many.ChangedFiles != files+1 {
			t.Fatalf("%d files changed", many.ChangedFiles)
		}
		deep, _ := w.inside("demo", "deep", fmt.Sprintf("PROBE_DEPTH=%d", depth))
		if deep.ChangedFiles != depth+1 {
			t.Fatalf("%d files changed", deep.ChangedFiles)
		}
		w.sound("demo")
		_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Run: many.RunID})
		w.ok(err)
		w.wantInside("demo", "many/1", "absent\n")
		_, err = w.e.GC(w.ctx, api.GCRequest{})
		w.ok(err)
		w.sound("demo")
	})
}

// TestLinkInPlaceOfADirectory: nothing outside the source is written, whichever
// side has a link in the path.
func TestLinkInPlaceOfADirectory(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"overlay", "clone"} {
		t.Run("cell/"+backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			outside := w.outside()
			w.init("demo", backend)
			// In the cell the link leads to its own directory.
			w.sh("demo", "mkdir -p "+outside+" 2>/dev/null; rm -r docs; ln -s "+outside+" docs; echo x > docs/x || true", acceptOnSuccess)
			_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
			w.ok(err)
			if to, err := os.Readlink(filepath.Join(w.source, "docs")); err != nil || to != outside {
				t.Fatalf("docs: %q, %v", to, err)
			}
			w.untouched(outside)
			// The cell now makes it a directory again: the link is removed, not
			// its target.
			w.sh("demo", "rm docs; mkdir docs; echo mine > docs/kept", acceptOnSuccess)
			_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
			w.ok(err)
			if got := w.read("docs/kept"); got != "mine\n" {
				t.Fatalf("docs/kept holds %q", got)
			}
			w.untouched(outside)
			w.sound("demo")
		})
		t.Run("source/"+backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			outside := w.outside()
			w.init("demo", backend)
			w.sh("demo", "echo changed > docs/a.md; echo new > docs/new; rm docs/b.md", acceptOnSuccess)
			docs := filepath.Join(w.source, "docs")
			w.ok(os.RemoveAll(docs))
			w.ok(os.Symlink(outside, docs))
			for _, way := range []string{"", "ours", "theirs"} {
				_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", OnConflict: way})
				if way == "" {
					w.refused(err, api.Refused, "conflicts")
				} else {
					w.ok(err)
				}
				w.untouched(outside)
				if to, err := os.Readlink(docs); way != "theirs" && (err != nil || to != outside) {
					t.Fatalf("docs: %q, %v", to, err)
				}
			}
			w.sound("demo")
		})
	}
}

// outside is a directory beside the source that must not change.
func (w *world) outside() string {
	w.Helper()
	dir := filepath.Join(filepath.Dir(w.source), "outside")
	w.ok(os.Mkdir(dir, 0o755))
	w.ok(os.WriteFile(filepath.Join(dir, "kept"), []byte("kept\n"), 0o644))
	w.ok(os.WriteFile(filepath.Join(dir, "a.md"), []byte("a\n"), 0o644))
	w.ok(os.WriteFile(filepath.Join(dir, "b.md"), []byte("b\n"), 0o644))
	return dir
}

func (w *world) untouched(dir string) {
	w.Helper()
	if got := fmt.Sprint(names(dir)); got != "[a.md b.md kept]" {
		w.Fatalf("outside there are %s", got)
	}
	for name, want := range map[string]string{"kept": "kept\n", "a.md": "a\n", "b.md": "b\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			w.Fatalf("outside, %s holds %q, %v", name, got, err)
		}
	}
}

// TestFIFOInPlaceOfAFile: an apply never waits for a writer.
func TestFIFOInPlaceOfAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	w.sh("demo", "echo cell > hello.txt; rm docs/a.md", acceptOnSuccess)
	for _, name := range []string{"hello.txt", "docs/a.md"} {
		path := filepath.Join(w.source, name)
		w.ok(os.Remove(path))
		w.ok(unix.Mkfifo(path, 0o644))
	}
	_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "2 conflicts")
	_, err = w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "demo"})
	w.refused(err, api.Refused, "2 conflicts")
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", OnConflict: "theirs"})
	w.ok(err)
	if got := w.read("hello.txt"); got != "cell\n" {
		t.Fatalf("hello.txt holds %q", got)
	}
	w.sound("demo")
}

// TestHeldBack: files that make the host run something later are named and not
// written.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"overlay", "clone"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.init("demo", backend)
			w.sh("demo", `mkdir -p .git/hooks tools .VSCode
				echo evil > .git/hooks/pre-commit; echo evil > .envrc; echo '{}' > .VSCode/tasks.json
				echo evil > tools/run; chmod 4755 tools/run; echo fine > fine`, acceptOnSuccess)
			before := walk(t, w.source)
			_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
			w.refused(err, api.Refused, "held back, nothing was written")
			e, _ := errors.AsType[*api.Error](err)
			all := strings.Join(e.Details, "\n")
			for _, name := range []string{".git/hooks/pre-commit", ".envrc", ".VSCode/tasks.json", "tools/run"} {
				if !strings.Contains(all, name+": ") {
					t.Errorf("%s is not named:\n%s", name, all)
				}
			}
			if strings.Contains(all, "fine") {
				t.Errorf("too much is named:\n%s", all)
			}
			_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", AllowControl: []string{".git/", ".envrc"}})
			w.refused(err, api.Refused, "held back")
			_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", AllowSetuid: true})
			w.refused(err, api.Refused, "held back")
			sameTree(t, "the source", before, walk(t, w.source))
			_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", AllowControl: []string{".git/", ".envrc", ".VSCode/"}, AllowSetuid: true})
			w.ok(err)
			var st unix.Stat_t
			w.ok(unix.Stat(filepath.Join(w.source, "tools/run"), &st))
			if st.Mode&0o7777 != 0o4755 || w.read(".git/hooks/pre-commit") != "evil\n" {
				t.Fatalf("mode %o", st.Mode)
			}
			w.sound("demo")
		})
	}
}

// TestUnkeepable: a result that no state can hold is reported, and the cell
// stays at the state before.
func TestUnkeepable(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		t := w.T
		w.init("demo", backend)
		exe, err := os.Executable()
		w.ok(err)
		res, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{exe, "-test.run=^TestInside$"}, RunOptions: api.RunOptions{ReadOnly: []string{exe}, Env: []string{insideWhat + "=brand"}}}, engine.Stdio{})
		if err == nil && res.Outcome == "failed" {
			t.Skip("the kernel does not let the cell set that attribute")
		}
		w.refused(err, api.Failed, "cannot be kept")
		if res.Outcome != "error" || !strings.Contains(res.Error, "hello.txt") || res.RootAfter != res.RootBefore {
			t.Fatalf("got %+v", res)
		}
		if backend == "delta" {
			// The directory is the user's own, so it has to be repaired there.
			// Until then every command reports it.
			_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}}, engine.Stdio{})
			w.refused(err, api.Refused, "hello.txt")
			w.ok(unix.Removexattr(filepath.Join(w.source, "hello.txt"), "user.overlay.opaque"))
		}
		w.wantInside("demo", "hello.txt", "hello\n")
		_, err = w.e.GC(w.ctx, api.GCRequest{})
		w.ok(err)
		w.sound("demo")
	})
}

// TestLeftovers: processes that a command leaves running are killed when it
// ends.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		t := w.T
		w.init("demo", backend)
		mark := "leftover-" + filepath.Base(filepath.Dir(w.home)) + backend + fmt.Sprint(os.Getpid())
		script := "trap '' TERM HUP INT; : " + mark + "; setsid sh -c ': " + mark + "; sleep 1000; echo late > hello.txt' & sh -c ': " + mark + "; exec sleep 1000' & echo $!"
		res, _ := w.sh("demo", script)
		if res.Outcome != "succeeded" {
			t.Fatalf("got %+v", res)
		}
		if left := processesWith(t, mark); len(left) > 0 {
			t.Fatalf("still running: %v", left)
		}
		w.wantInside("demo", "hello.txt", "hello\n")
		w.noMounts()
		w.sound("demo")
	})
}

// processesWith lists the processes of the host whose command line holds a mark.
func processesWith(t *testing.T, mark string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range files {
		if line, err := os.ReadFile(f); err == nil && bytes.Contains(line, []byte(mark)) {
			found = append(found, f+" "+string(line))
		}
	}
	return found
}

// noMounts: nothing of the home is mounted anywhere that this process can see.
func (w *world) noMounts() {
	w.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	w.ok(err)
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, w.home) || strings.Contains(line, w.source) {
			w.Errorf("still mounted: %s", line)
		}
	}
}
