package engine_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// alone is set in a process that has its own mount namespace.
const alone = "FORKCELL_TEST_ALONE"

// TestDiskFull: a run that fills the home's file system is finished when there
// is space again, and nothing is lost.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs a mount of its own")
	}
	t.Parallel()
	for _, what := range []string{"files", "output"} {
		for _, backend := range backends {
			t.Run(what+"/"+backend, func(t *testing.T) {
				t.Parallel()
				child(t, "TestDiskFullAlone", unix.CLONE_NEWNS, alone+"="+what+"|"+backend)
			})
		}
	}
}

// TestDiskFullAlone is started by TestDiskFull.
func TestDiskFullAlone(t *testing.T) {
	what, backend, set := strings.Cut(os.Getenv(alone), "|")
	if !set {
		return
	}
	w, disk := newSmallWorld(t)
	w.init("demo", backend)
	w.sh("demo", "echo first > hello.txt", acceptOnSuccess)
	script := "echo said; echo second > hello.txt; head -c 20000000 /dev/zero > big"
	if what == "output" {
		script = "echo second > hello.txt; echo big > big; head -c 20000000 /dev/zero | tr '\\0' x"
	}
	res, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", script}}, engine.Stdio{Out: io.Discard})
	switch {
	case err == nil && what == "files":
		// The reserve was enough to seal and record it.
		if !strings.Contains(strings.Join(res.Degraded, " "), "could not be") {
			t.Fatalf("a full disk was not noticed: %+v", res)
		}
	case err == nil:
		if !strings.Contains(strings.Join(res.Notes, " "), "are stored: ") {
			t.Fatalf("the loss of output is not said: %+v", res)
		}
	case api.KindOf(err) != api.Failed || !strings.Contains(err.Error(), "no space left") && !strings.Contains(err.Error(), "full"):
		t.Fatalf("kind %s: %v", api.KindOf(err), err)
	}
	t.Logf("%v", err)
	w.stillReadable()
	w.ok(unix.Mount("", disk, "tmpfs", unix.MS_REMOUNT, "size=200m"))

	// Any command that changes the cell finishes it.
	w.open()
	w.ok(w.settle("demo"))
	info, err := w.e.Status(w.ctx, "demo")
	w.ok(err)
	if info.Runs != 2 {
		t.Fatalf("got %+v", info)
	}
	list, err := w.e.ReceiptList(w.ctx, "demo")
	w.ok(err)
	if len(list) != 2 || !slices.Contains([]string{"succeeded", "failed", "interrupted"}, list[1].Outcome) {
		t.Fatalf("the receipts are %+v", list)
	}
	diff, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: "demo"})
	w.ok(err)
	if text := fmt.Sprint(diff.Changes); !strings.Contains(text, "big") || !strings.Contains(text, "hello.txt") {
		t.Fatalf("the run's work is lost: %s", text)
	}
	w.outputIsAccountedFor()
	w.wantInside("demo", "hello.txt", "second\n")
	_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Run: list[1].RunID})
	w.ok(err)
	w.wantInside("demo", "hello.txt", "first\n")
	_, err = w.e.GC(w.ctx, api.GCRequest{})
	w.ok(err)
	w.onlyMount(disk)
	w.sound("demo")
}

// outputIsAccountedFor: the output of the last run is kept, or the receipt says
// that it is not.
func (w *world) outputIsAccountedFor() {
	w.Helper()
	stdout, stderr, err := w.e.Logs(w.ctx, "demo", "")
	w.ok(err)
	text, err := io.ReadAll(stdout)
	w.ok(errors.Join(err, stdout.Close(), stderr.Close()))
	doc, err := w.e.Receipt(w.ctx, "", "demo", true)
	w.ok(err)
	page := string(doc.Markdown)
	if len(text) == 0 && !strings.Contains(page, "output") {
		w.Errorf("the output is lost, and nothing says so:\n%s", page)
	}
}

// newSmallWorld has its home on a file system of 16 MiB.
func newSmallWorld(t *testing.T) (*world, string) {
	t.Helper()
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	w := &world{T: t, ctx: t.Context(), home: filepath.Join(disk, "home"), source: filepath.Join(dir, "src")}
	w.ok(os.Mkdir(disk, 0o700))
	w.ok(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	w.ok(unix.Mount("disk", disk, "tmpfs", 0, "size=16m,mode=700"))
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	w.write("hello.txt", "hello\n")
	w.open()
	return w, disk
}

// stillReadable checks that reading verbs work on a full disk.
func (w *world) stillReadable() {
	w.Helper()
	e, release, err := local.Open(w.home, local.Read, tester())
	w.ok(err)
	list, err := e.List(w.ctx)
	w.ok(errors.Join(err, release()))
	if len(list) != 1 {
		w.Fatalf("cells: %+v", list)
	}
}

// onlyMount checks that nothing is mounted below a mount.
func (w *world) onlyMount(disk string) {
	w.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	w.ok(err)
	if n := strings.Count(string(data), disk); n != 1 {
		w.Fatalf("%d mounts at %s:\n%s", n, disk, data)
	}
}

// TestReadOnlyHome: a home that cannot be written can still be read.
func TestReadOnlyHome(t *testing.T) {
	t.Parallel()
	p := newPast(t, "")
	p.closeHome()
	if os.Geteuid() == 0 {
		child(t, "TestReadOnlyAlone", unix.CLONE_NEWNS, alone+"="+p.home)
	} else {
		p.ok(os.Chmod(p.home, 0o500))
		t.Cleanup(func() { _ = os.Chmod(p.home, 0o700) })
		readOnlyHome(t, p.home)
		p.ok(os.Chmod(p.home, 0o700))
	}
	p.reopen()
	p.sound("demo")
}

// TestReadOnlyAlone is started by TestReadOnlyHome.
func TestReadOnlyAlone(t *testing.T) {
	home := os.Getenv(alone)
	if home == "" {
		return
	}
	for _, err := range []error{
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount(home, home, "", unix.MS_BIND, ""),
		unix.Mount("", home, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	readOnlyHome(t, home)
}

func readOnlyHome(t *testing.T, home string) {
	t.Helper()
	for _, mode := range []local.Mode{local.Write, local.Create, local.Rescue} {
		_, _, err := local.Open(home, mode, tester())
		if err == nil || api.KindOf(err) != api.Refused || !strings.Contains(err.Error(), "cannot be written") {
			t.Errorf("opened for writing: %v", err)
		}
	}
	e, release, err := local.Open(home, local.Read, tester())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, out := t.Context(), t.TempDir()
	id := ""
	reads := map[string]func() error{
		"ls": func() error {
			list, err := e.List(ctx)
			if len(list) != 1 {
				t.Errorf("cells: %+v", list)
			}
			return err
		},
		"status": func() error { return errorOf(e.Status(ctx, "demo")) },
		"diff": func() error {
			d, err := e.Diff(ctx, api.DiffRequest{Cell: "demo"})
			if err == nil && len(d.Changes) != 1 {
				t.Errorf("changes: %+v", d.Changes)
			}
			return err
		},
		"log":   func() error { return errorOf(e.Log(ctx, "demo")) },
		"graph": func() error { return errorOf(e.Graph(ctx)) },
		"logs": func() error {
			stdout, stderr, err := e.Logs(ctx, "demo", "")
			if err != nil {
				return err
			}
			text, err := io.ReadAll(stdout)
			if string(text) != "said\n" {
				t.Errorf("logs: %q", text)
			}
			return errors.Join(err, stdout.Close(), stderr.Close())
		},
		"receipt show": func() error {
			doc, err := e.Receipt(ctx, "", "demo", true)
			if err == nil {
				id = doc.Info.ReceiptID
			}
			return err
		},
		"receipt list":   func() error { return errorOf(e.ReceiptList(ctx, "")) },
		"receipt verify": func() error { return errorOf(e.ReceiptVerify(ctx, "", "", true, "")) },
		"decisions":      func() error { return errorOf(e.Decisions(ctx, "demo", "")) },
		"verify":         func() error { return errorOf(e.Verify(ctx, "demo", "", true)) },
		"export":         func() error { return errorOf(e.Export(ctx, api.ExportRequest{Cell: "demo", Output: out + "/x.tar"})) },
		"export, files":  func() error { return errorOf(e.Export(ctx, api.ExportRequest{Cell: "demo", Output: out + "/x"})) },
		"key":            func() error { return errorOf(e.Key(ctx)) },
	}
	for what, read := range reads {
		if err := read(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errorOf(e.ReceiptExport(ctx, id, out+"/bundle.json")); err != nil {
		t.Errorf("receipt export: %v", err)
	}
	writes := map[string]error{
		"run":        errorOf(e.Run(ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}}, engine.Stdio{})),
		"restore":    errorOf(e.Restore(ctx, api.RestoreRequest{Cell: "demo"})),
		"accept":     errorOf(e.Accept(ctx, api.AcceptRequest{Cell: "demo"})),
		"fork":       errorOf(e.Fork(ctx, api.ForkRequest{Cell: "demo", Name: "f"})),
		"apply":      errorOf(e.Apply(ctx, api.ApplyRequest{Cell: "demo"})),
		"gc":         errorOf(e.GC(ctx, api.GCRequest{})),
		"key rotate": errorOf(e.KeyRotate(ctx)),
	}
	for what, err := range writes {
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }
