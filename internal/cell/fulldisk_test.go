package cell_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/app"
	"github.com/forkcell/forkcell/internal/cell"
)

// smallDisk is a file system of its own for the home of a world.
func smallDisk(t *testing.T) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user cannot mount a small file system for the home")
	}
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	w := &world{T: t, ctx: t.Context(), home: filepath.Join(disk, "home"), source: filepath.Join(dir, "src")}
	w.ok(os.Mkdir(disk, 0o755))
	w.ok(unix.Mount("tmpfs", disk, "tmpfs", 0, "size=96m"))
	t.Cleanup(func() { w.ok(unix.Unmount(disk, unix.MNT_DETACH)) })
	w.write("hello.txt", "hello\n")
	w.open()
	return w
}

// fill leaves no room on the disk.
func (w *world) fill() {
	w.Helper()
	f, err := os.Create(filepath.Join(filepath.Dir(w.home), "filler"))
	w.ok(err)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else {
			w.ok(err)
		}
	}
}

// TestFullDiskHasAWayOut: a command fills the disk. What it did is recorded with
// the reserve, reading works, and what removes work makes room again.
func TestFullDiskHasAWayOut(t *testing.T) {
	t.Parallel()
	w := smallDisk(t)
	w.init("demo", "overlay")
	w.init("other", "overlay")
	res, err := w.e.Run(w.ctx, cell.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "echo go; dd if=/dev/zero of=big bs=1M; dd if=/dev/zero of=small bs=1k"}}, cell.Stdio{})
	t.Logf("the run that fills the disk: %+v, %v", res, err)
	w.fill()

	e, release, err := app.Open(w.home, app.Read)
	w.ok(err)
	for what, err := range map[string]error{
		"ls": errorOf(e.List(w.ctx)), "status": errorOf(e.Status(w.ctx, "demo")), "log": errorOf(e.Log(w.ctx, "demo")),
		"graph": errorOf(e.Graph(w.ctx)), "receipt verify": errorOf(e.ReceiptVerify(w.ctx, "", "", true, "")),
	} {
		if err != nil {
			t.Errorf("%s on a full disk: %v", what, err)
		}
	}
	w.ok(release())

	_, _, err = app.Open(w.home, app.Run)
	if err == nil || !strings.Contains(err.Error(), "full") || !strings.Contains(hintOf(err), "rm --force") {
		t.Errorf("run on a full disk: %v; %s", err, hintOf(err))
	}
	w.open() // another process, which gives the reserve back
	w.ok(w.e.Remove(w.ctx, "demo", true))
	_, err = w.e.GC(w.ctx, cell.GCRequest{})
	w.ok(err)
	w.ok(os.Remove(filepath.Join(filepath.Dir(w.home), "filler")))
	w.open()
	w.sh("other", "echo on > hello.txt")
	w.sound("other")
	if info, err := os.Stat(filepath.Join(w.home, "reserve")); err != nil || info.Size() == 0 {
		t.Errorf("the reserve was not taken again: %v", err)
	}
}

// TestRestoreOnAFullDisk: a run can be taken back when nothing fits any more.
func TestRestoreOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := smallDisk(t)
	w.init("demo", "overlay")
	w.sh("demo", "echo bad > hello.txt")
	w.fill()
	w.open()
	_, err := w.e.Restore(w.ctx, cell.RestoreRequest{Cell: "demo"})
	w.ok(err)
	w.ok(os.Remove(filepath.Join(filepath.Dir(w.home), "filler")))
	w.wantInside("demo", "hello.txt", "hello\n")
	w.sound("demo")
}

// TestEvidenceGap: what a full disk did not take is counted in the receipt.
func TestEvidenceGap(t *testing.T) {
	t.Parallel()
	w := smallDisk(t)
	w.init("demo", "overlay")
	begun, ended := make(chan struct{}), make(chan error)
	in, feed := pipe()
	var res *cell.RunResult
	go func() {
		var err error
		res, err = w.e.Run(w.ctx, cell.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "echo go; read x; seq 100000; exit 3"}},
			cell.Stdio{In: in, Out: &trigger{on: begun}})
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
		t.Errorf("the receipt has %q", res.Degraded)
	}
	w.sound("demo")
}
