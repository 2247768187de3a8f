package cell_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/app"
	"github.com/forkcell/forkcell/internal/cell"
)

// disk is set in a process that has a small file system at this path.
const disk = "FORKCELL_TEST_DISK"

// onSmallDisk runs a test with a small file system for the home of its world.
// The test of an ordinary user runs in another process, in a user namespace in
// which it was mounted; the process gets no rights from that.
func onSmallDisk(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	at := os.Getenv(disk)
	if at == "" {
		at = filepath.Join(dir, "disk")
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() != 0 {
			asUserOnDisk(t, at)
			return
		}
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=96m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	w := &world{T: t, ctx: t.Context(), home: filepath.Join(at, "home"), source: filepath.Join(dir, "src")}
	w.write("hello.txt", "hello\n")
	w.open()
	test(w)
}

// asUserOnDisk runs the present test again in a process with a small file
// system.
func asUserOnDisk(t *testing.T, at string) {
	t.Helper()
	const script = `mount -t tmpfs -o size=96m,mode=700 disk "$0" && exec setpriv --ambient-caps -all --inh-caps -all "$@"`
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--map-current-user", "--mount", "--keep-caps", "sh", "-c", script, at,
		self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), disk+"="+at)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
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

// TestFullDiskHasAWayOut: a command fills the disk. The reserve is enough to
// record its work, reading verbs work, and removing work frees space.
func TestFullDiskHasAWayOut(t *testing.T) { onSmallDisk(t, (*world).fullDiskHasAWayOut) }

func (w *world) fullDiskHasAWayOut() {
	w.init("demo", "overlay")
	w.init("other", "overlay")
	res, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "echo go; dd if=/dev/zero of=big bs=1M; dd if=/dev/zero of=small bs=1k"}}, cell.Stdio{})
	w.Logf("the run that fills the disk: %+v, %v", res, err)
	w.fill()

	e, release, err := app.Open(w.home, app.Read, tester())
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

	_, _, err = app.Open(w.home, app.Run, tester())
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
		w.Errorf("the receipt has %q", res.Degraded)
	}
	w.sound("demo")
}
