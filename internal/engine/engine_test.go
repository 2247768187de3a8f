package engine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
	_ "github.com/forkcell/forkcell/internal/sandbox/driver/first" // cells of these tests
)

func TestMain(m *testing.M) {
	if code, is := local.Helper(); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// world is one home with one source directory.
type world struct {
	*testing.T
	ctx    context.Context
	e      *engine.Engine
	home   string
	source string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{T: t, ctx: t.Context(), home: filepath.Join(dir, "home"), source: filepath.Join(dir, "src")}
	w.write("hello.txt", "hello\n")
	w.write("docs/a.md", "a\n")
	w.write("docs/b.md", "b\n")
	w.open()
	return w
}

func (w *world) open() {
	w.Helper()
	e, release, err := local.Open(w.home, local.Create, tester())
	w.ok(err)
	w.e = e
	w.Cleanup(func() { _ = release() })
}

func (w *world) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.source, name)
	w.ok(os.MkdirAll(filepath.Dir(path), 0o755))
	w.ok(os.WriteFile(path, []byte(text), 0o644))
}

func (w *world) read(name string) string {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(w.source, name))
	w.ok(err)
	return string(data)
}

func (w *world) ok(err error) {
	w.Helper()
	if e, is := errors.AsType[*api.Error](err); is && len(e.Details) > 0 {
		w.Log(strings.Join(e.Details, "\n"))
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) refused(err error, kind api.Kind, part string) {
	w.Helper()
	if err == nil || api.KindOf(err) != kind || !strings.Contains(err.Error(), part) {
		w.Fatalf("got error %v (kind %s), want kind %s with %q", err, api.KindOf(err), kind, part)
	}
}

func (w *world) init(name, backend string) *api.InitResult {
	w.Helper()
	res, err := w.e.Init(w.ctx, api.InitRequest{Name: name, From: w.source, Backend: backend})
	w.ok(err)
	return res
}

// sh runs a shell script in a cell and returns the result and what it printed.
func (w *world) sh(name, script string, change ...func(*api.RunRequest)) (*api.RunResult, string) {
	w.Helper()
	req := api.RunRequest{Cell: name, Args: []string{"sh", "-c", script}, RunOptions: api.RunOptions{Grants: everything()}}
	for _, c := range change {
		c(&req)
	}
	var out, errs bytes.Buffer
	res, err := w.e.Run(w.ctx, req, engine.Stdio{Out: &out, Err: &errs})
	if err != nil {
		w.Fatalf("run %q: %v\n%s", script, err, errs.String())
	}
	return res, out.String() + errs.String()
}

// everything grants all that the policies of tests list; grants are tested by
// scripts.
func everything() api.GrantRequest {
	return api.GrantRequest{Paths: []string{"/var:rw", "/tmp:rw", "/srv:rw"}, Env: []string{"SEEN", "UNSET"}, Syscalls: []string{"unshare"}}
}

func restoreOnFail(r *api.RunRequest)   { r.RestoreOnFail = true }
func acceptOnSuccess(r *api.RunRequest) { r.AcceptOnSuccess = true }

func (w *world) wantInside(name, path, want string) {
	w.Helper()
	_, got := w.sh(name, "cat "+path+" 2>/dev/null || echo absent")
	if got != want {
		w.Fatalf("in cell %s, %s holds %q, want %q", name, path, got, want)
	}
}

// sound checks the invariants that must hold at the end of every test.
func (w *world) sound(names ...string) {
	w.Helper()
	for _, n := range names {
		if res, err := w.e.Verify(w.ctx, n, "", true); err != nil {
			w.Fatalf("verify %s: %v %+v", n, err, res)
		}
	}
	if res, err := w.e.ReceiptVerify(w.ctx, "", "", true, ""); err != nil {
		w.Fatalf("receipts: %v %+v", err, res)
	}
	left, err := os.ReadDir(filepath.Join(w.home, "pending"))
	w.ok(err)
	if len(left) > 0 {
		w.Fatalf("pending holds %v", left)
	}
}

var backends = []string{"overlay", "clone", "delta"}

func eachBackend(t *testing.T, fn func(w *world, backend string)) {
	for _, b := range backends {
		t.Run(b, func(t *testing.T) {
			t.Parallel()
			fn(newWorld(t), b)
		})
	}
}

func TestFailedRunIsRestored(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		res, _ := w.sh("demo", "echo changed > hello.txt; rm -r docs; exit 7", restoreOnFail)
		if res.Outcome != "failed" || res.ExitCode != 7 || res.Decision != "restored" || res.ChangedFiles != 4 {
			t.Fatalf("got %+v", res)
		}
		w.wantInside("demo", "hello.txt", "hello\n")
		w.wantInside("demo", "docs/a.md", "a\n")
		diff, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: "demo", Run: res.RunID})
		w.ok(err)
		if len(diff.Changes) != 4 {
			t.Fatalf("the restored run's diff has %+v", diff.Changes)
		}
		w.sound("demo")
	})
}

func TestAcceptAndApply(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		w.sh("demo", "echo changed > hello.txt; mkdir new; echo n > new/file; rm docs/b.md")
		_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
		if backend != "delta" {
			w.refused(err, api.Refused, "only accepted changes are applied")
			if got := w.read("hello.txt"); got != "hello\n" {
				t.Fatalf("the source was written: %q", got)
			}
		}
		res, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Reason: "looks right", Apply: true})
		w.ok(err)
		if res.Decision != "accepted" || res.Applied == nil {
			t.Fatalf("got %+v", res)
		}
		if got := w.read("hello.txt") + w.read("new/file"); got != "changed\nn\n" {
			t.Fatalf("the source holds %q", got)
		}
		if _, err := os.Lstat(filepath.Join(w.source, "docs/b.md")); !os.IsNotExist(err) {
			t.Fatalf("docs/b.md: %v", err)
		}
		w.sound("demo")
	})
}

func TestUndo(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"overlay", "clone"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.init("demo", backend)
			w.sh("demo", "echo changed > hello.txt; rm docs/b.md", acceptOnSuccess)
			_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
			w.ok(err)
			_, err = w.e.Undo(w.ctx, api.UndoRequest{Cell: "demo"})
			w.ok(err)
			if got := w.read("hello.txt") + w.read("docs/b.md"); got != "hello\nb\n" {
				t.Fatalf("the source holds %q", got)
			}
			_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
			w.ok(err)
			if got := w.read("hello.txt"); got != "changed\n" {
				t.Fatalf("applied again, the source holds %q", got)
			}
			w.sound("demo")
		})
	}
}

func TestForkIsIndependent(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		w.sh("demo", "echo one > hello.txt")
		_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "try"})
		w.ok(err)
		w.sh("try", "echo two > hello.txt")
		w.wantInside("demo", "hello.txt", "one\n")
		w.wantInside("try", "hello.txt", "two\n")
		_, err = w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "try"})
		w.refused(err, api.Refused, "cell try exists already")
		w.sound("demo", "try")
	})
}

func TestRestoreToAnyState(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		first := w.init("demo", backend)
		one, _ := w.sh("demo", "echo one > hello.txt")
		two, _ := w.sh("demo", "echo two > hello.txt")
		res, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
		w.ok(err)
		if res.CheckpointID != one.CheckpointAfter || res.RunID != two.RunID {
			t.Fatalf("got %+v", res)
		}
		w.wantInside("demo", "hello.txt", "one\n")
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: first.CheckpointID})
		w.ok(err)
		w.wantInside("demo", "hello.txt", "hello\n")
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: two.CheckpointAfter})
		w.ok(err)
		w.wantInside("demo", "hello.txt", "two\n")
		w.sound("demo")
	})
}

func TestPartialAccept(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		w.sh("demo", "echo changed > hello.txt; echo changed > docs/a.md; rm docs/b.md")
		res, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Only: []string{"docs/"}})
		w.ok(err)
		if res.Decision != "partial" {
			t.Fatalf("got %+v", res)
		}
		w.wantInside("demo", "hello.txt", "hello\n")
		w.wantInside("demo", "docs/a.md", "changed\n")
		w.wantInside("demo", "docs/b.md", "absent\n")
		w.sound("demo")
	})
}

// TestPartialTakenBack: an accepted part of a run is the run's work. It is
// undone when the run is rejected or an earlier state is restored.
func TestPartialTakenBack(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		first := w.init("demo", backend)
		accept := func() (run string) {
			w.sh("demo", "echo changed > hello.txt; echo changed > docs/a.md")
			res, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Only: []string{"docs/"}})
			w.ok(err)
			w.wantInside("demo", "docs/a.md", "changed\n")
			return res.RunID
		}
		res, err := w.e.Reject(w.ctx, "demo", accept(), "no")
		w.ok(err)
		if res.Decision != "rejected" || res.CheckpointID != first.CheckpointID {
			w.Errorf("reject: %+v", res)
		}
		w.wantInside("demo", "docs/a.md", "a\n")

		run := accept()
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: first.CheckpointID})
		w.ok(err)
		w.wantInside("demo", "docs/a.md", "a\n")
		_, err = w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Run: run})
		w.refused(err, api.Refused, "is not part of the present state")
		w.sound("demo")
		if backend == "delta" {
			return // its directory is the source
		}
		accept()
		_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
		w.ok(err)
		for name, want := range map[string]string{"docs/a.md": "changed\n", "hello.txt": "hello\n"} {
			if got, err := os.ReadFile(filepath.Join(w.source, name)); err != nil || string(got) != want {
				w.Errorf("applied %s: %q, %v", name, got, err)
			}
		}
	})
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		w.sh("demo", "echo cell > docs/a.md")
		w.write("hello.txt", "from the source\n")
		res, err := w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "demo"})
		w.ok(err)
		if len(res.Changed) != 1 {
			t.Fatalf("got %+v", res)
		}
		w.wantInside("demo", "hello.txt", "from the source\n")
		w.wantInside("demo", "docs/a.md", "cell\n")
		if backend != "delta" {
			w.write("docs/a.md", "source\n")
			_, err = w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "demo"})
			w.refused(err, api.Refused, "conflict")
		}
		w.sound("demo")
	})
}

func TestConflictWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	w.sh("demo", "echo cell > hello.txt; echo cell > docs/a.md", acceptOnSuccess)
	w.write("hello.txt", "mine\n")
	_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.refused(err, api.Refused, "1 conflict")
	if got := w.read("docs/a.md"); got != "a\n" {
		t.Fatalf("docs/a.md was written: %q", got)
	}
	_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", OnConflict: "ours"})
	w.ok(err)
	if got := w.read("hello.txt") + w.read("docs/a.md"); got != "mine\ncell\n" {
		t.Fatalf("the source holds %q", got)
	}
	w.sound("demo")
}

func TestRecoverFromALostDatabase(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		w.sh("demo", "echo one > hello.txt", acceptOnSuccess)
		w.sh("demo", "echo two > hello.txt; exit 1", restoreOnFail)
		_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "try"})
		w.ok(err)
		w.sh("try", "echo three > hello.txt")
		_, err = w.e.Checkpoint(w.ctx, "try", "third")
		w.ok(err)
		before, err := w.e.Status(w.ctx, "demo")
		w.ok(err)
		w.loseDatabase()
		w.ok(w.recover())
		w.open()
		after, err := w.e.Status(w.ctx, "demo")
		w.ok(err)
		if before.Head != after.Head || before.Root != after.Root || before.Runs != after.Runs || before.Applied != after.Applied {
			t.Fatalf("before %+v\nafter %+v", before, after)
		}
		w.wantInside("demo", "hello.txt", "one\n")
		w.wantInside("try", "hello.txt", "three\n")
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "try", Checkpoint: "third"})
		w.ok(err)
		w.sound("demo", "try")
	})
}

func (w *world) loseDatabase() {
	w.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(w.home, "forkcell.db"+suffix)); err != nil && !os.IsNotExist(err) {
			w.Fatal(err)
		}
	}
	_, _, err := local.Open(w.home, local.Create, tester())
	w.refused(err, api.Refused, "missing")
}

func (w *world) recover() error {
	w.Helper()
	e, release, err := local.Open(w.home, local.Rescue, tester())
	w.ok(err)
	res, err := e.Recover(w.ctx, false)
	if err == nil && len(res.Problems) > 0 {
		w.Fatalf("recover: %v", res.Problems)
	}
	w.ok(release())
	return err
}

func TestGC(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		w.sh("demo", "head -c 100000 /dev/urandom > big; exit 1", restoreOnFail)
		kept, err := w.e.GC(w.ctx, api.GCRequest{OlderThan: engine.DefaultOlderThan})
		w.ok(err)
		if len(kept.Checkpoints) != 0 {
			t.Fatalf("recent restored work was freed: %+v", kept)
		}
		dry, err := w.e.GC(w.ctx, api.GCRequest{DryRun: true})
		w.ok(err)
		gone, err := w.e.GC(w.ctx, api.GCRequest{})
		w.ok(err)
		if len(gone.Checkpoints) != 1 || len(dry.Checkpoints) != 1 || gone.Bytes < 100000 {
			t.Fatalf("dry %+v, real %+v", dry, gone)
		}
		w.wantInside("demo", "hello.txt", "hello\n")
		w.sound("demo")
	})
}
