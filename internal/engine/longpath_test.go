package engine_test

import (
	"os"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// deeper is a script that makes 20 levels of directories with long names, from the
// inside out. The path of the innermost is longer than any that the kernel takes.
const deeper = "set -e; long=$(printf 'x%.0s' $(seq 250)); mkdir d; echo x > d/file; " +
	"for i in $(seq 20); do mkdir next; mv d next/$long; mv next d; done; exit $EXIT"

// TestLongPaths: a tree that is too deep to be listed is refused only where it
// must be listed; everything else works.
func TestLongPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.sh("demo", strings.ReplaceAll(deeper, "$EXIT", "0"), acceptOnSuccess)
	_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "path of more than 4095 bytes")
	w.sh("demo", "rm -r d", acceptOnSuccess)
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.ok(err)
}

// TestLongPathsInLiveDirectory: a run that cannot be undone stays pending, and
// the result says so.
func TestLongPathsInLiveDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "delta")
	res, _ := w.sh("demo", strings.ReplaceAll(deeper, "$EXIT", "1"), func(r *api.RunRequest) { r.RestoreOnFail = true })
	if res.Decision != "pending" || !strings.Contains(strings.Join(res.Notes, "; "), "could not be taken back") {
		t.Errorf("%+v", res)
	}
	_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
	w.refused(err, api.Refused, "path of more than 4095 bytes")
	w.ok(os.RemoveAll(w.source + "/d"))
	if _, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"}); err != nil {
		t.Error(err)
	}
}
