package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// elsewhere moves the repository of the source to .bare, with a file or a link that leads
// there.
func (w *world) elsewhere(lead string) {
	w.Helper()
	w.repository("")
	w.ok(os.Rename(filepath.Join(w.source, ".git"), filepath.Join(w.source, ".bare")))
	if lead == "a link" {
		w.ok(os.Symlink(".bare", filepath.Join(w.source, ".git")))
		return
	}
	w.write(".git", "gitdir: .bare\n")
}

// commitIn are the arguments of a commit in a cell.
const commitIn = "git -c user.name=t -c user.email=t@example.org commit -q "

// TestRepositoryUnderAnotherName: apply, its undo and a partial acceptance treat a
// repository by what is in its directory, whatever that is called.
func TestRepositoryUnderAnotherName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.elsewhere("a file")
	w.write(".env", "SECRET=1\n")
	w.init("demo", "")

	// What makes git track a left-out path.
	w.sh("demo", "set -e; echo fake > .env; git add -f .env; rm .env", acceptOnSuccess)
	_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "held back")
	if held := heldLines(err); !strings.Contains(held, ".bare/index: makes git track .env, which the rule .env leaves out") {
		t.Error(held)
	}
	w.sh("demo", "set -e; "+commitIn+"-m evil; git branch evil; git reset -q --hard HEAD~1", acceptOnSuccess)
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "held back")
	if held := heldLines(err); !strings.Contains(held, ".bare/refs/heads/evil: makes git track .env") {
		t.Error(held)
	}
	_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: "base"})
	w.ok(err)

	// An index that both sides wrote anew.
	w.sh("demo", "set -e; touch -d 2002-02-03 hello.txt; echo two > docs/b.md; git status -s; echo x > new", acceptOnSuccess)
	w.ok(os.Chtimes(filepath.Join(w.source, "hello.txt"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	w.git("update-index", "--refresh")
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", Except: []string{"docs"}})
	w.ok(err)

	// Objects that a newer branch needs.
	w.sh("demo", "set -e; git add new; "+commitIn+"-m work new", acceptOnSuccess)
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", Except: []string{"docs"}})
	w.ok(err)
	w.git("branch", "keep")
	undone, err := w.e.Undo(w.ctx, api.UndoRequest{Cell: "demo", DryRun: true})
	w.ok(err)
	if len(undone.Kept) != 1 || undone.Kept[0].Path != ".bare/objects" {
		t.Errorf("an undo keeps %v", undone.Kept)
	}
	_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: "base"})
	w.ok(err)
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "held back")
	if held := heldLines(err); !strings.Contains(held, ".bare/refs/heads/keep: is newer than the last apply") {
		t.Error(held)
	}
}

// TestSettingsElsewhere: what the settings of a repository name is a control file, where a
// file or a link called .git leads to the repository, and in a linked work tree.
func TestSettingsElsewhere(t *testing.T) {
	t.Parallel()
	for _, lead := range []string{"a file", "a link", "a linked work tree"} {
		t.Run(lead, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if lead == "a linked work tree" {
				w.repository("")
				w.git("config", "core.hooksPath", "tools/hooks")
				w.git("worktree", "add", "-q", w.source+"-tree")
				w.source += "-tree"
			} else {
				w.elsewhere(lead)
				w.git("config", "core.hooksPath", "tools/hooks")
			}
			w.init("demo", "")
			w.sh("demo", "set -e; mkdir -p tools/hooks; echo x > tools/hooks/pre-push; echo x > tools/other", acceptOnSuccess)
			_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
			w.refused(err, api.Refused, "held back")
			if held := heldLines(err); !strings.Contains(held, "tools/hooks/pre-push: named by ") || strings.Contains(held, "other") {
				t.Error(held)
			}
		})
	}
}
