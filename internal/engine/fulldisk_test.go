package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/testkit/disktest"
)

// onSmallDisk runs a test with a small file system for the home of its world.
func onSmallDisk(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	if at := disktest.Mount(t, dir); at != "" {
		testAt(t, dir, at, test)
	}
}

// onFewInodes runs a test with a file system for the home of its world that has room for
// so many files.
func onFewInodes(t *testing.T, inodes int, test func(w *world)) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	if at := disktest.MountFewInodes(t, dir, inodes); at != "" {
		testAt(t, dir, at, test)
	}
}

func testAt(t *testing.T, dir, at string, test func(w *world)) {
	t.Helper()
	w := &world{T: t, ctx: t.Context(), home: filepath.Join(at, "home"), source: filepath.Join(dir, "src")}
	w.write("hello.txt", "hello\n")
	w.open()
	test(w)
}

// fill leaves no room on the disk.
func (w *world) fill() {
	w.Helper()
	disktest.Fill(w.T, filepath.Dir(w.home))
}

// TestFullDiskHasAWayOut: a command fills the disk. The reserve is enough to
// record its work, reading verbs work, and removing work frees space.
func TestFullDiskHasAWayOut(t *testing.T) { onSmallDisk(t, (*world).fullDiskHasAWayOut) }

func (w *world) fullDiskHasAWayOut() {
	w.init("demo", "overlay")
	w.init("other", "overlay")
	res, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "echo go; dd if=/dev/zero of=big bs=1M; dd if=/dev/zero of=small bs=1k"}}, engine.Stdio{})
	w.Logf("the run that fills the disk: %+v, %v", res, err)
	w.fill()

	e, release, err := local.Open(w.home, local.Read, tester())
	w.ok(err)
	for what, err := range map[string]error{
		"ls": errorOf(e.List(w.ctx)), "status": errorOf(e.Status(w.ctx, "demo")), "log": errorOf(e.Log(w.ctx, "demo")),
		"graph": errorOf(e.Graph(w.ctx)), "receipt verify": errorOf(e.ReceiptVerify(w.ctx, "", "", true, "")),
	} {
		if err != nil {
			w.Errorf("%s on a full disk: %v", what, err)
		}
	}
	w.ok(release())

	_, _, err = local.Open(w.home, local.Run, tester())
	if err == nil || !strings.Contains(err.Error(), "full") || !strings.Contains(hintOf(err), "rm --force") {
		w.Errorf("run on a full disk: %v; %s", err, hintOf(err))
	}
	w.open() // another process, which gives the reserve back
	w.ok(w.e.Remove(w.ctx, "demo", true))
	_, err = w.e.GC(w.ctx, api.GCRequest{})
	w.ok(err)
	w.ok(os.Remove(filepath.Join(filepath.Dir(w.home), "filler")))
	w.open()
	w.sh("other", "echo on > hello.txt")
	w.sound("other")
	if info, err := os.Stat(filepath.Join(w.home, "reserve")); err != nil || info.Size() == 0 {
		w.Errorf("the reserve was not taken again: %v", err)
	}
}

// TestRestoreOnAFullDisk: a run can be restored on a full disk.
func TestRestoreOnAFullDisk(t *testing.T) { onSmallDisk(t, (*world).restoreOnAFullDisk) }

func (w *world) restoreOnAFullDisk() {
	w.init("demo", "overlay")
	w.sh("demo", "echo bad > hello.txt")
	w.fill()
	w.open()
	_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
	w.ok(err)
	w.ok(os.Remove(filepath.Join(filepath.Dir(w.home), "filler")))
	w.wantInside("demo", "hello.txt", "hello\n")
	w.sound("demo")
}

// TestEvidenceGap: the receipt counts what a full disk could not store.
func TestEvidenceGap(t *testing.T) { onSmallDisk(t, (*world).evidenceGap) }

func (w *world) evidenceGap() {
	w.init("demo", "overlay")
	begun, ended := make(chan struct{}), make(chan error)
	in, feed := pipe()
	var res *api.RunResult
	go func() {
		var err error
		res, err = w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "echo go; read x; seq 100000; exit 3"}},
			engine.Stdio{In: in, Out: &trigger{on: begun}})
		ended <- err
	}()
	w.started(begun, ended)
	w.fill()
	_, err := feed.Write([]byte("on\n"))
	w.ok(err)
	w.ok(<-ended)
	w.ok(os.Remove(filepath.Join(filepath.Dir(w.home), "filler")))
	doc, err := w.e.Receipt(w.ctx, res.ReceiptID, "", false)
	w.ok(err)
	if all := strings.Join(res.Degraded, "\n"); !strings.Contains(all, "bytes of output could not be stored") || !strings.Contains(string(doc.JSON), "bytes of output could not be stored") {
		w.Errorf("the receipt has %q", res.Degraded)
	}
	w.sound("demo")
}

// TestFullInodesHaveAWayOut: a command makes empty files until there is no inode left. It
// is stopped, its work is recorded, and removing the cell frees the inodes.
func TestFullInodesHaveAWayOut(t *testing.T) {
	onFewInodes(t, 3000, (*world).fullInodesHaveAWayOut)
}

func (w *world) fullInodesHaveAWayOut() {
	w.init("demo", "overlay")
	w.init("other", "overlay")
	res, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "i=0; while i=$((i+1)); do (: > f$i) 2> /dev/null; done"}, RunOptions: api.RunOptions{Timeout: time.Minute}}, engine.Stdio{})
	w.ok(err)
	if res.Outcome != "killed" || !strings.Contains(res.Error, "inodes") {
		w.Errorf("the run that uses up the inodes: %+v", res)
	}
	disktest.FillInodes(w, filepath.Dir(w.home))
	_, _, err = local.Open(w.home, local.Run, tester())
	if err == nil || !strings.Contains(err.Error(), "inodes") || !strings.Contains(hintOf(err), "rm --force") {
		w.Errorf("run without an inode: %v; %s", err, hintOf(err))
	}
	w.open() // another process, which gives the reserve back
	_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
	w.ok(err)
	w.ok(w.e.Remove(w.ctx, "demo", true))
	_, err = w.e.GC(w.ctx, api.GCRequest{})
	w.ok(err)
	w.open()
	w.sh("other", "echo on > hello.txt")
	w.sound("other")
}
