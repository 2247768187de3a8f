package engine_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/transfer"
)

// outgoingEntry is a kind of file that a cell makes, and what becomes of it outside.
type outgoingEntry struct {
	path string
	// script makes it where a line of text does not; it runs in the workspace.
	script string
	// held means that it is held back and named, behind that it stays without a word, and
	// pushed that a publication alone holds it back.
	held, behind, pushed bool
}

// make returns a script that makes the entry.
func (e outgoingEntry) make() string {
	if e.script != "" {
		return e.script
	}
	return "mkdir -p " + filepath.Dir(e.path) + "; echo x > " + e.path
}

// outgoingEntries lists the kinds of files.
func outgoingEntries() []outgoingEntry {
	return []outgoingEntry{
		{path: "plain"},
		{path: "sub/config"},
		{path: "sub/hooks/x"},
		{path: ".envrc", held: true},
		{path: ".vscode/tasks.json", held: true},
		{path: "sub/.Claude/settings.json", held: true},
		{path: ".git/config", held: true},
		{path: ".git/hooks/pre-commit", held: true},
		{path: "link/.envrc", script: "mkdir -p link; ln -s ../plain link/.envrc", held: true},
		// Directories that git takes for those of repositories.
		{path: "bare/HEAD", script: "mkdir -p bare/refs; echo ref: refs/heads/main > bare/HEAD"},
		{path: "bare/refs/heads/main", script: "mkdir -p bare/refs/heads; echo 0123456789012345678901234567890123456789 > bare/refs/heads/main"},
		{path: "bare/logs/HEAD"},
		{path: "bare/COMMIT_EDITMSG", behind: true},
		{path: "bare/objects/info/commit-graph", behind: true},
		{path: "bare/refs/heads/text", held: true},
		{path: "bare/refs/replace/0123456789012345678901234567890123456789", held: true},
		{path: "bare/refs/stash", script: "ln -s heads/main bare/refs/stash", held: true},
		{path: "bare/packed-refs", script: "echo 0123456789012345678901234567890123456789 refs/replace/x > bare/packed-refs", held: true},
		{path: "bare/index", held: true},
		{path: "bare/info/exclude", held: true},
		{path: "bare/info/grafts", held: true},
		{path: "bare/shallow", held: true},
		{path: "bare/remotes/origin", held: true},
		{path: "bare/objects/info/alternates", held: true},
		{path: "bare/objects/aa/01234567890123456789012345678901234567", held: true},
		{path: "bare/objects/pack/pack-0123456789012345678901234567890123456789.idx", held: true},
		{path: "bare/objects/pack", script: "mkdir -p bare/objects/pack"},
		{path: "bare/config", held: true},
		{path: "bare/config.worktree", held: true},
		{path: "bare/Hooks/pre-commit", held: true},
		{path: "bare/info/attributes", held: true},
		{path: "bare/rebase-merge/git-rebase-todo", held: true},
		{path: "bare/modules/m/hooks/post-checkout", held: true},
		{path: "no-refs/config", script: "mkdir -p no-refs/objects; echo x > no-refs/head; echo x > no-refs/config", held: true},
		{path: "deep/er/.git2/hooks/pre-push", script: "mkdir -p deep/er; ln -s ../../bare/objects bare/refs deep; cd deep/er; mkdir -p .git2/hooks; ln -s ../objects ../refs .git2; echo x > .git2/HEAD; echo x > .git2/hooks/pre-push; cd ../..", held: true},
		{path: "tree/commondir", script: "mkdir tree; echo x > tree/HEAD; echo ../bare > tree/commondir", held: true},
		{path: "shared/config", script: "mkdir -p shared/objects shared/refs; echo x > shared/config", held: true},
		{path: "objects/hooks/x"},
		// What runs once it is pushed.
		{path: ".github/workflows/ci.yml", pushed: true},
		{path: "sub/.gitlab-ci.yml", pushed: true},
		{path: "CODEOWNERS", pushed: true},
	}
}

// wayOut writes the state of a cell to a new directory. allow has patterns of control
// files. held are the paths that it names as held back.
type wayOut struct {
	name  string
	write func(w *world, to string, allow []string) (held string, err error)
	// rest reports whether what is not held back is written all the same.
	rest bool
}

func waysOut() []wayOut {
	return []wayOut{
		{"apply", func(w *world, to string, allow []string) (string, error) {
			return w.applyTo("demo", to, allow)
		}, false},
		{"apply of a fork", func(w *world, to string, allow []string) (string, error) {
			name := fmt.Sprintf("fork-%d", len(allow))
			_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: name})
			w.ok(err)
			return w.applyTo(name, to, allow)
		}, false},
		{"export", func(w *world, to string, allow []string) (string, error) {
			res, err := w.e.Export(w.ctx, api.ExportRequest{Cell: "demo", Output: to, AllowControl: allow})
			w.ok(err)
			return strings.Join(res.Notes, "\n"), nil
		}, true},
		{"export --changes", func(w *world, to string, allow []string) (string, error) {
			res, err := w.e.Export(w.ctx, api.ExportRequest{Cell: "demo", Output: to, AllowControl: allow, Changes: true})
			w.ok(err)
			return strings.Join(res.Notes, "\n"), nil
		}, true},
		{"mirror", func(w *world, to string, allow []string) (string, error) {
			w.ok(os.Mkdir(to, 0o755))
			state := filepath.Join(w.TempDir(), "state.tar")
			res, err := w.e.Export(w.ctx, api.ExportRequest{Cell: "demo", Output: state})
			w.ok(err)
			_, err = w.e.ApplyReceived(w.ctx, api.ReceiveRequest{Root: res.Root}, api.ApplyRequest{Cell: "mirror", To: to, AllowControl: allow},
				func() (io.ReadCloser, error) { return os.Open(state) })
			return heldLines(err), err
		}, false},
		{"cp", func(w *world, to string, allow []string) (string, error) {
			return w.copyTo("demo", to, allow)
		}, false},
		{"cp of a live cell", func(w *world, to string, allow []string) (string, error) {
			_, err := w.e.Start(w.ctx, api.StartRequest{Cell: "demo"})
			w.ok(err)
			held, err := w.copyTo("demo", to, allow)
			_, stopErr := w.e.Stop(w.ctx, api.StopRequest{Cell: "demo"})
			return held, errors.Join(err, stopErr)
		}, false},
		{"cp from a daemon", func(w *world, to string, allow []string) (string, error) {
			var stream bytes.Buffer
			notes, err := w.e.SendCopy(w.ctx, "demo", ".", func() io.Writer { return &stream })
			w.ok(err)
			req := api.CopyRequest{Cell: "demo", Path: ".", Host: to, AllowControl: allow}
			target, err := transfer.OpenCopyTarget(req, to)
			w.ok(err)
			defer target.Close()
			got, err := transfer.ReceiveCopy(w.ctx, &stream, req, target)
			return heldLines(err) + strings.Join(append(notes, got.Notes...), "\n"), err
		}, false},
	}
}

// applyTo applies a cell to a new directory.
func (w *world) applyTo(name, to string, allow []string) (held string, err error) {
	w.Helper()
	w.ok(os.Mkdir(to, 0o755))
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: name, To: to, AllowControl: allow})
	return heldLines(err), err
}

// copyTo copies the workspace of a cell to a new directory.
func (w *world) copyTo(name, to string, allow []string) (held string, err error) {
	w.Helper()
	res, err := w.e.CopyOut(w.ctx, api.CopyRequest{Cell: name, Path: ".", Host: to, AllowControl: allow})
	if err != nil {
		return heldLines(err), err
	}
	return strings.Join(res.Notes, "\n"), nil
}

// heldLines are the lines of a refusal.
func heldLines(err error) string {
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return strings.Join(refused.Details, "\n")
	}
	return ""
}

// TestWaysOut: every way out of a cell holds back the same files, and names each.
func TestWaysOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(os.Remove(filepath.Join(w.source, "docs/b.md")))
	w.init("demo", "overlay")
	w.init("mirror", "overlay")
	var script []string
	for _, e := range outgoingEntries() {
		script = append(script, e.make())
	}
	w.sh("demo", "set -e\n"+strings.Join(script, "\n"), acceptOnSuccess)
	for _, way := range waysOut() {
		to := filepath.Join(w.TempDir(), "out")
		held, err := way.write(w, to, nil)
		if !way.rest {
			w.refused(err, api.Refused, "held back, nothing was written")
		}
		for _, e := range outgoingEntries() {
			if strings.Contains(held, e.path+": ") != e.held && strings.Contains(held, e.path+", ") != e.held {
				t.Errorf("%s: %s is held back: %v, it names\n%s", way.name, e.path, !e.held, held)
			}
			_, err := os.Lstat(filepath.Join(to, e.path))
			if written := err == nil; written != (way.rest && !e.held && !e.behind) {
				t.Errorf("%s: %s is written: %v (%v)", way.name, e.path, written, err)
			}
		}
		w.everythingAllowed(way)
	}
}

// TestPublishIsAWayOut: a publication holds the same files back, and those that run once
// they are pushed.
func TestPublishIsAWayOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.repository("require_signed: false\nlimits: {files: 1000, lines: 10000, areas: 100, binaries: 100}\n")
	w.init("demo", "")
	var script []string
	for _, e := range outgoingEntries() {
		if !strings.HasPrefix(e.path, ".git/") {
			script = append(script, e.make())
		}
	}
	w.sh("demo", "set -e\n"+strings.Join(script, "\n"), acceptOnSuccess)
	_, err := operator(w.e, w.source).Publish(w.ctx, api.PublishRequest{Cell: "demo", Branch: "work", Sign: "off", Settings: w.source + "-settings"})
	w.refused(err, api.Refused, "the gates refuse the work, nothing was published")
	lines := "\n" + heldLines(err)
	for _, e := range outgoingEntries() {
		if strings.HasPrefix(e.path, ".git/") || slices.Contains([]string{"bare/objects/pack", "no-refs/config", "shared/config"}, e.path) {
			continue // commits have neither repositories nor empty directories, which make some of these one
		}
		if strings.Contains(lines, "\ncontrol file: "+e.path+": ") != (e.held || e.behind) {
			t.Errorf("%s is held back: %v", e.path, !(e.held || e.behind))
		}
		if strings.Contains(lines, "\nruns when pushed: "+e.path+": ") != e.pushed {
			t.Errorf("%s is held back as running when pushed: %v", e.path, !e.pushed)
		}
	}
	if t.Failed() {
		t.Log(lines)
	}
}

// TestKindsOnTheWayOut: no way out writes a set-id file or a link that it followed, and
// each names the rights that it does not write.
func TestKindsOnTheWayOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.init("mirror", "overlay")
	w.sh("demo", "set -e; echo x > suid; chmod 6755 suid; mkdir sgid; chmod 2775 sgid; ln -s /etc/passwd abs; ln -s ../../../up up; ln -s abs/x thru; mkfifo fifo", acceptOnSuccess)
	for _, way := range waysOut() {
		to := filepath.Join(w.TempDir(), "out")
		named, err := way.write(w, to, nil)
		if !strings.Contains(named, "suid") || !strings.Contains(named, "setuid or setgid") {
			t.Errorf("%s does not name the set-id file: %q, %v", way.name, named, err)
		}
		w.ok(filepath.WalkDir(to, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && (info.Mode()&(fs.ModeSetuid|fs.ModeDevice) != 0 || info.Mode()&fs.ModeSetgid != 0) {
				t.Errorf("%s wrote %s with mode %s", way.name, d.Name(), info.Mode())
			}
			return err
		}))
		if err != nil {
			continue // nothing was written
		}
		for name, want := range map[string]string{"abs": "/etc/passwd", "up": "../../../up", "thru": "abs/x"} {
			if got, err := os.Readlink(filepath.Join(to, name)); got != want {
				t.Errorf("%s: %s leads to %q, %v", way.name, name, got, err)
			}
		}
	}
}

// TestArchivesHaveEverything: a download of a directory, and the archive of a state, are no
// directories of the host. They have the control files too, as the reference says.
func TestArchivesHaveEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	var script []string
	for _, e := range outgoingEntries() {
		script = append(script, e.make())
	}
	w.sh("demo", "set -e\n"+strings.Join(script, "\n"), acceptOnSuccess)
	var download, state bytes.Buffer
	w.ok(w.e.TarFiles(w.ctx, "demo", ".", func() io.Writer { return &download }))
	w.ok(w.e.ExportTo(w.ctx, api.ExportRequest{Cell: "demo"}, func() io.Writer { return &state }))
	for what, archive := range map[string]*bytes.Buffer{"download": &download, "state": &state} {
		names := namesInTar(t, archive)
		for _, e := range outgoingEntries() {
			if !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix("/"+name, "/"+e.path) }) {
				t.Errorf("the %s does not have %s", what, e.path)
			}
		}
	}
}

func namesInTar(t *testing.T, r io.Reader) (names []string) {
	t.Helper()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimSuffix(h.Name, "/"))
	}
}

// everythingAllowed writes everything by one way.
func (w *world) everythingAllowed(way wayOut) {
	w.Helper()
	to := filepath.Join(w.TempDir(), "out")
	_, err := way.write(w, to, []string{"**"})
	w.ok(err)
	for _, e := range outgoingEntries() {
		if _, err := os.Lstat(filepath.Join(to, e.path)); err != nil {
			w.Errorf("%s, with everything allowed: %v", way.name, err)
		}
	}
}

// TestNamesMatchFromTheRoot: a path is compared from the repository or home that the
// directory is in, and not from the directory that was named.
func TestNamesMatchFromTheRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.sh("demo", "echo x > authorized_keys; echo x > pre-commit", acceptOnSuccess)
	top := w.TempDir()
	for dir, want := range map[string][]string{
		".ssh":            {"authorized_keys", "pre-commit"},
		"repo/.git/hooks": {"authorized_keys", "pre-commit"},
		"repo/sub/hooks":  nil,
		"bare/hooks":      {"authorized_keys", "pre-commit"},
		"half/hooks":      nil,
	} {
		to := filepath.Join(top, dir)
		w.ok(os.MkdirAll(to, 0o755))
		if dir == "bare/hooks" {
			w.ok(errors.Join(os.Mkdir(filepath.Join(top, "bare/objects"), 0o755), os.Mkdir(filepath.Join(top, "bare/refs"), 0o755)))
		}
		link := filepath.Join(w.TempDir(), "link")
		w.ok(os.Symlink(to, link))
		for _, at := range []string{to, link} {
			_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", To: at, DryRun: true})
			_, copyErr := w.e.CopyOut(w.ctx, api.CopyRequest{Cell: "demo", Path: "pre-commit", Host: at})
			_, exportErr := w.e.Export(w.ctx, api.ExportRequest{Cell: "demo", Output: filepath.Join(at, "new")})
			w.ok(exportErr)
			_, missing := os.Lstat(filepath.Join(at, "new/pre-commit"))
			w.ok(os.RemoveAll(filepath.Join(at, "new")))
			if len(want) == 0 {
				w.ok(errors.Join(err, copyErr, missing))
				continue
			}
			w.refused(err, api.Refused, "held back")
			w.refused(copyErr, api.Refused, "held back")
			if !errors.Is(missing, fs.ErrNotExist) {
				t.Errorf("export below %s wrote a control file", dir)
			}
			if named := heldLines(err); slices.ContainsFunc(want, func(p string) bool { return !strings.Contains(named, p+": ") }) {
				t.Errorf("%s: it names %q", dir, named)
			}
		}
	}
}

// TestRepositoryInParts: what makes a repository of a directory is held back where the
// directory has a setting or a hook already, which an earlier way out did not see as one.
func TestRepositoryInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.sh("demo", "mkdir -p sub/objects; echo x > sub/config; echo x > HEAD", acceptOnSuccess)
	_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.ok(err)
	_, err = w.e.CopyOut(w.ctx, api.CopyRequest{Cell: "demo", Path: "HEAD", Host: filepath.Join(w.source, "sub")})
	w.refused(err, api.Refused, "held back")
	if held := heldLines(err); held != "HEAD: makes . a git repository, with config that is there already" {
		t.Error(held)
	}
	w.sh("demo", "mkdir sub/refs; echo x > sub/HEAD", acceptOnSuccess)
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "held back")
	if held := heldLines(err); !strings.Contains(held, "sub/HEAD: makes sub a git repository, with config that is there already") {
		t.Error(held)
	}
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", AllowControl: []string{"sub/"}})
	w.ok(err)
}

// TestNamedPrograms: what the settings of the directory name as a program, or as further
// settings, is a control file in every way out.
func TestNamedPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := map[string]string{
		".git/config":           "[core]\n\thooksPath = tools/hooks\n\tfsmonitor = " + w.source + "/tools/watch\n[include]\n\tpath = ../conf/git.inc\n[filter \"x\"]\n\tclean = sh tools/clean.sh %f\n",
		"conf/git.inc":          "[core]\n\tpager = ./tools/pager\n",
		".husky/pre-commit":     "node scripts/check.js\n",
		"lefthook.yml":          "pre-commit:\n  commands:\n    x:\n      run: scripts/lint.sh {files}\n",
		".vscode/tasks.json":    `{"tasks":[{"command":"${workspaceFolder}/tools/task","runOptions":{"runOn":"folderOpen"}}]}`,
		".envrc":                "source_env env/dev.sh\nPATH_add bin\n",
		".claude/settings.json": `{"hooks":{"Stop":[{"hooks":[{"command":"\"$CLAUDE_PROJECT_DIR\"/agents/stop.py"}]}]}}`,
	}
	for name, text := range settings {
		w.ok(os.MkdirAll(filepath.Dir(filepath.Join(w.source, name)), 0o755))
		w.ok(os.WriteFile(filepath.Join(w.source, name), []byte(text), 0o600))
	}
	w.init("demo", "overlay")
	named := map[string]string{
		"tools/hooks/pre-push": ".git/config", "tools/watch": ".git/config", "tools/clean.sh": ".git/config", "conf/git.inc": ".git/config",
		"tools/pager": "conf/git.inc", "scripts/check.js": ".husky/pre-commit", "scripts/lint.sh": "lefthook.yml", "tools/task": ".vscode/tasks.json",
		"env/dev.sh": ".envrc", "bin/make": ".envrc", "agents/stop.py": ".claude/settings.json",
	}
	others := []string{"tools/other", "scripts/other.sh", "env/other", "conf/other"}
	script := "set -e; mkdir -p tools/hooks scripts env bin agents"
	for p := range named {
		script += "; echo '# x' >> " + p
	}
	for _, p := range others {
		script += "; echo x > " + p
	}
	w.sh("demo", script, acceptOnSuccess)
	_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "changes held back")
	out := filepath.Join(w.TempDir(), "out")
	res, exportErr := w.e.Export(w.ctx, api.ExportRequest{Cell: "demo", Output: out})
	w.ok(exportErr)
	notes := strings.Join(res.Notes, "\n")
	for p, by := range named {
		if !strings.Contains(heldLines(err), p+": named by "+by) {
			t.Errorf("apply does not name %s:\n%s", p, heldLines(err))
		}
		if !strings.Contains(notes, p+", which the cell changed: named by "+by) {
			t.Errorf("export does not name %s:\n%s", p, notes)
		}
		to := filepath.Join(w.source, filepath.Dir(p))
		w.ok(os.MkdirAll(to, 0o755))
		_, err := w.e.CopyOut(w.ctx, api.CopyRequest{Cell: "demo", Path: p, Host: to})
		w.refused(err, api.Refused, "held back")
	}
	for _, p := range others {
		if strings.Contains(heldLines(err)+notes, p) {
			t.Errorf("%s is held back", p)
		}
		if _, err := os.Lstat(filepath.Join(out, p)); err != nil {
			t.Error(err)
		}
	}
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", AllowControl: []string{"**"}})
	w.ok(err)
}
