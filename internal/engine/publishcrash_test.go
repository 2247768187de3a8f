//go:build failpoints

package engine_test

import (
	"context"
	"os/exec"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
)

// publishScenario is a publication with a push that is killed. The repository has
// the branch whole, or is as it was. What was pushed is in the log.
func publishScenario() scenario {
	return scenario{
		name: "publish", on: []string{"overlay"}, inCell: []string{"first\n"}, inHost: []string{"hello\n"},
		points: []string{
			"publish.fetched", "publish.committed", "publish.intent", "publish.pushed", "publish.packed", "publish.object", "publish.object@2",
			"publish.ref", "publish.branch", "log.written",
		},
		before: func(w *world) {
			w.repository("require_signed: false\n")
			w.sh("demo", "echo first > hello.txt", acceptOnSuccess)
		},
		do: func(ctx context.Context, e *engine.Engine, source string) error {
			return publishTo(ctx, e, source, "work")
		},
		after: publishKilled,
	}
}

func publishTo(ctx context.Context, e *engine.Engine, source, branch string) error {
	_, err := operator(e, source).Publish(ctx, api.PublishRequest{Cell: "demo", Branch: branch, Sign: "off", Push: true, Settings: source + "-settings"})
	return err
}

// publishKilled compares the repositories with what the log says.
func publishKilled(w *world) {
	here, there := w.branch(w.source), w.branch(w.source+"-origin.git")
	if here != "" && here != there {
		w.Errorf("the repository has %q and origin %q", here, there)
	}
	log, err := w.e.Log(w.ctx, "demo")
	w.ok(err)
	stated := 0
	for _, l := range log {
		if l.Kind == "publish" {
			stated++
		}
	}
	if there != "" && stated != 1 {
		w.Errorf("the branch was pushed, and the log has %d statements", stated)
	}
	w.git("fsck", "--strict")
	w.ok(publishTo(w.ctx, w.e, w.source, "again"))
	w.git("rev-parse", "--verify", "again")
}

func (w *world) branch(repo string) string {
	out, _ := exec.CommandContext(w.ctx, "git", "--git-dir", gitDir(repo), "rev-parse", "--verify", "--quiet", "work").Output()
	return strings.TrimSpace(string(out))
}

func gitDir(repo string) string {
	if strings.HasSuffix(repo, ".git") {
		return repo
	}
	return repo + "/.git"
}
