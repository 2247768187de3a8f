package engine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

func masked(r *api.RunRequest) { r.Control = &api.ControlRequest{} }

// hostileConfig are settings of git that run programs, and some that do not.
const hostileConfig = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = \"touch fired; false\"\n\thooksPath = evil\n[alias]\n\tst = !touch fired\n[user]\n\tname = A\n\temail = a@b\n"

// hostile makes the source a repository with control files of every kind.
func (w *world) hostile() {
	w.Helper()
	w.repository("")
	for _, p := range []string{
		".claude/settings.json", ".codex/config.toml", ".gemini/settings.json", ".opencode/plugin/x.js", "opencode.json", ".mcp.json",
		".github/hooks/x.json", ".github/copilot/settings.json", ".cursor/mcp.json", "deep/er/.claude/settings.json", ".Claude/settings.json",
		".vscode/mcp.json", "sub/.MCP.json", "bare/hooks/x", "nested/.git/hooks/pre-commit",
	} {
		w.write(p, "EVIL "+p+"\n")
	}
	w.write(".vscode/settings.json", "editor\n")
	w.write(".envrc", "environment\n")
	w.write("deep/er/.envrc", "environment\n")
	w.write(".git/config", hostileConfig)
	w.write(".git/hooks/pre-commit", "#!/bin/sh\ntouch fired\n")
	w.ok(os.Chmod(filepath.Join(w.source, ".git/hooks/pre-commit"), 0o755))
	// A repository under another name, one in a subdirectory, and a submodule.
	for _, repo := range []string{"bare", "nested/.git", ".git/modules/mod"} {
		w.write(repo+"/HEAD", "ref: refs/heads/main\n")
		w.write(repo+"/config", strings.Replace(hostileConfig, "[alias]", "[core]\n\tworktree = ../../../mod\n[alias]", 1))
		w.ok(os.MkdirAll(filepath.Join(w.source, repo, "objects"), 0o755))
		w.ok(os.MkdirAll(filepath.Join(w.source, repo, "refs"), 0o755))
	}
	// Repositories that git finds by other layouts: HEAD is a link, or the settings
	// are in a directory that another one names.
	w.write("bylink/config", hostileConfig)
	w.write("shared/config", hostileConfig)
	w.write("apart/HEAD", "ref: refs/heads/main\n")
	w.write("apart/commondir", "../shared\n")
	for _, repo := range []string{"bylink", "shared"} {
		w.ok(os.MkdirAll(filepath.Join(w.source, repo, "objects"), 0o755))
		w.ok(os.MkdirAll(filepath.Join(w.source, repo, "refs/heads"), 0o755))
	}
	w.ok(os.Symlink("refs/heads/main", filepath.Join(w.source, "bylink/HEAD")))
	w.write("mod/.git", "gitdir: ../.git/modules/mod\n")
	// Links to what is masked, and links in its place.
	w.write("evil/settings.json", "by a link\n")
	w.ok(os.Symlink("evil", filepath.Join(w.source, ".qwen")))
	w.ok(os.Symlink(".claude", filepath.Join(w.source, "linked")))
	w.ok(os.Symlink("deep", filepath.Join(w.source, "way")))
	w.ok(os.Link(filepath.Join(w.source, ".git/config"), filepath.Join(w.source, "config-by-another-name")))
}

// TestMaskedControlFiles: control files of a hostile repository have no effect in a
// cell, the cell cannot change them, and its state has them as they were.
func TestMaskedControlFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hostile()
	w.init("demo", "overlay")
	res, out := w.sh("demo", `
grep -rs EVIL . ; for p in .claude .codex .gemini .opencode opencode.json .mcp.json .cursor .qwen .Claude .windsurf .idea .github/hooks .git/hooks way/er/.claude; do test -e $p -o -L $p && echo "$p is there"; done
ls linked/ && echo followed
cat .envrc .vscode/settings.json
git config --list --local | sort
git -C nested config --list --local | grep -c -e fsmonitor -e alias
git -C mod config --get core.worktree
for repo in bylink apart; do git -C $repo rev-parse --git-dir; git -C $repo config --list --local | grep -c -e fsmonitor -e alias; done
git -c safe.directory='*' status --short >/dev/null; git commit --quiet --allow-empty -m x; test -e fired && echo fired
mkdir .claude .windsurf .idea .git/hooks; echo x > .mcp.json; ln -s evil .claude; mv evil .cursor; echo x > .envrc; echo x > .vscode/tasks.json
git config core.fsmonitor evil; rm -rf .git/config; mv -T .vscode gone; umount .vscode; mount --bind evil .claude; rm .envrc
test -e .claude -o -e .windsurf -o -e .idea -o -e .git/hooks -o -e .mcp.json -o -e .cursor && echo made
`+"grep -rs EVIL . ; cat .envrc; git config --list --local | grep -c fsmonitor; "+
		`perl -e 'rename($_, "moved") && print "renamed $_\n" for ".git", "nested", "deep", ".github"'; rm -rf nested; test -e nested/.git/config && echo kept`, masked)
	_, got, _ := strings.Cut("\n"+out, "\n")
	var lines []string
	for line := range strings.SplitSeq(got, "\n") {
		if line != "" && !strings.Contains(line, ": ") && !strings.Contains(line, "dmesg") { // what tools complain about
			lines = append(lines, line)
		}
	}
	want := []string{
		"environment", "editor", "core.bare=false", "core.repositoryformatversion=0", "user.email=a@b", "user.name=A", "0", "../../../mod", ".", "0", ".", "0", "environment", "0", "kept",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the cell says\n%s\nin all:\n%s", strings.Join(lines, "\n"), out)
	}
	w.sound("demo")
	changed := map[string]bool{}
	diff, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: "demo"})
	w.ok(err)
	for _, ch := range diff.Changes {
		changed[ch.Path] = true
	}
	for p := range changed {
		if strings.Contains(p, "claude") || strings.Contains(p, "config") || strings.Contains(p, "hooks") {
			t.Errorf("the cell changed %s", p)
		}
	}
	// Without masks the cell sees what it did, and so does the receipt.
	_, plain := w.sh("demo", "cat .claude/settings.json .mcp.json deep/er/.claude/settings.json; git config --get core.hookspath")
	if !strings.Contains(plain, "EVIL .claude/settings.json") || !strings.Contains(plain, "EVIL deep/er/.claude/settings.json") || !strings.Contains(plain, "evil") {
		t.Errorf("without masks: %s", plain)
	}
	files := w.receiptControl(res.ReceiptID)
	if files == nil || !slices.Contains(files.Hidden, ".mcp.json") || !slices.Contains(files.Missing, ".windsurf") || !slices.Contains(files.ReadOnly, ".envrc") {
		t.Errorf("receipt: %+v", files)
	}
}

// receiptControl returns the masks in a receipt.
func (w *world) receiptControl(id string) *api.ControlFiles {
	w.Helper()
	doc, err := w.e.Receipt(w.ctx, id, "", false)
	w.ok(err)
	var said struct {
		Receipt struct {
			Predicate struct {
				Controls struct {
					Asked struct {
						Control *api.ControlFiles `json:"control_files"`
					}
				}
			}
		}
	}
	w.ok(json.Unmarshal(doc.JSON, &said))
	return said.Receipt.Predicate.Controls.Asked.Control
}

// TestSetAside: what a session writes to control files is listed apart, and written
// by an apply only if it is allowed.
func TestSetAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hostile()
	w.init("demo", "overlay")
	w.sh("demo", `mkdir -p new/.claude docs/.vscode .git/opencode && echo hook > new/.claude/settings.json && echo task > docs/.vscode/tasks.json
echo state > .git/opencode/db; echo work > new/work; mv docs/a.md docs/.envrc; rm -rf sub; echo rc > .npmrc`, masked, func(r *api.RunRequest) {
		r.Control.State = []string{"**/.git/opencode"}
	}, acceptOnSuccess)
	diff, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: "demo"})
	w.ok(err)
	wantPaths(t, "changes", changed(diff.Changes), ".npmrc", "docs/a.md", "new", "new/work", "sub")
	wantPaths(t, "set aside", changed(diff.SetAside), "docs/.envrc", "docs/.vscode", "docs/.vscode/tasks.json",
		"new/.claude", "new/.claude/settings.json", "sub/.MCP.json")

	// A control file that is not masked is still refused.
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "held back")
	res, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", Except: []string{".npmrc"}})
	w.ok(err)
	var aside []string
	for _, n := range res.SetAside {
		aside = append(aside, n.Path)
	}
	wantPaths(t, "set aside by apply", aside, changed(diff.SetAside)...)
	if w.read("new/work") != "work\n" || w.read("sub/.MCP.json") == "" {
		t.Error("apply wrote something else")
	}
	for _, p := range []string{"new/.claude", "docs/.vscode", "docs/.envrc", "docs/a.md", ".git/opencode"} {
		if _, err := os.Lstat(filepath.Join(w.source, p)); err == nil {
			t.Errorf("%s is there", p)
		}
	}
	res, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", Except: []string{".npmrc"}, AllowControl: []string{"new/.claude"}})
	w.ok(err)
	if w.read("new/.claude/settings.json") != "hook\n" || len(res.Written) == 0 {
		t.Errorf("an allowed file is not written: %+v", res)
	}
	w.sound("demo")
	w.loseDatabase()
	w.ok(w.recover())
	w.open()
	again, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: "demo", From: "base"})
	w.ok(err)
	if len(again.SetAside) != len(diff.SetAside) {
		t.Errorf("after a recovery: %v", changed(again.SetAside))
	}
}

// TestMasksOfLaterRuns: the engine keeps which runs masked something, and sees those
// that come after.
func TestMasksOfLaterRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.repository("")
	w.init("demo", "overlay")
	asides := func(want ...string) {
		w.Helper()
		diff, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: "demo", From: "base"})
		w.ok(err)
		wantPaths(t, "set aside", changed(diff.SetAside), want...)
	}
	w.sh("demo", "echo work > work", acceptOnSuccess)
	asides()
	paths := []string{"one/file", "two/file"}
	for i, path := range paths {
		res, _ := w.sh("demo", "mkdir "+filepath.Dir(path)+" && echo x > "+path, masked, func(r *api.RunRequest) {
			r.Control.Also = api.Texts{path}
		}, acceptOnSuccess)
		if res.Outcome != "succeeded" {
			t.Fatalf("%+v", res)
		}
		asides(paths[:i+1]...)
	}
}

func changed(list []api.ChangeJSON) (paths []string) {
	for _, ch := range list {
		paths = append(paths, ch.Path)
	}
	slices.Sort(paths)
	return paths
}

func wantPaths(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestCommittedInstructions: a session follows the instruction files of the last
// commit, and an apply does not touch those of the work tree unless it changed them.
func TestCommittedInstructions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("AGENTS.md", "committed\n")
	w.ok(os.Symlink("AGENTS.md", filepath.Join(w.source, "QWEN.md")))
	w.ok(os.Symlink("AGENTS.md", filepath.Join(w.source, "CRUSH.md")))
	w.repository("")
	w.ok(os.Remove(filepath.Join(w.source, "CRUSH.md")))
	w.write("CRUSH.md", "EVIL\n")
	w.git("gc", "--quiet") // the objects are packed
	w.write("AGENTS.md", "EVIL\n")
	w.write("CLAUDE.md", "EVIL\n")
	w.init("demo", "overlay")
	res, out := w.sh("demo", "cat AGENTS.md QWEN.md CRUSH.md; readlink CRUSH.md; test -e CLAUDE.md || echo absent; echo work > work", masked, acceptOnSuccess)
	if out != "committed\ncommitted\ncommitted\nAGENTS.md\nabsent\n" {
		t.Errorf("the cell sees %q", out)
	}
	if files := w.receiptControl(res.ReceiptID); !slices.Equal(files.Instructions, []string{"AGENTS.md", "CLAUDE.md", "CRUSH.md"}) {
		t.Errorf("receipt: %+v", files)
	}
	applied, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.ok(err)
	wantPaths(t, "written", changed(applied.Written), "work")
	if w.read("AGENTS.md") != "EVIL\n" || w.read("CLAUDE.md") != "EVIL\n" {
		t.Error("apply changed the work tree's own files")
	}
	_, out = w.sh("demo", "cat AGENTS.md; echo mine > GEMINI.md", masked, acceptOnSuccess)
	if out != "committed\n" {
		t.Errorf("the second run sees %q", out)
	}
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.ok(err)
	if w.read("GEMINI.md") != "mine\n" {
		t.Error("a change of an instruction file is not applied")
	}
	w.sound("demo")
}

// TestUnreadableCommit: a session of a repository that cannot be read begins with the
// instruction files of the work tree, and the receipt says so.
func TestUnreadableCommit(t *testing.T) {
	t.Parallel()
	for name, repository := range map[string]func(w *world){
		".git is no directory": func(w *world) {
			w.git("init", "--quiet", "--separate-git-dir", w.source+"-repository")
		},
		"is not an object id": func(w *world) {
			w.git("init", "--quiet", "--object-format=sha256")
			w.git("add", "--all")
			w.git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "--quiet", "-m", "base")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			repository(w)
			w.write("AGENTS.md", "as it is\n")
			w.init("demo", "overlay")
			res, out := w.sh("demo", "cat AGENTS.md", masked)
			if all := strings.Join(res.Degraded, "\n"); out != "as it is\n" || !strings.Contains(all, "instruction files are those of the work tree") || !strings.Contains(all, name) {
				t.Errorf("it prints %q, degraded: %s", out, all)
			}
		})
	}
}
