package gvisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/frames"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// warm is a process that answers with what it has in memory and in a file.
const warm = `cd /dev/shm && mkfifo in out && cd - >/dev/null && echo one > word &&
	(setsid sh -c 'x=memory-$$; while read q </dev/shm/in; do echo "$q $x $(cat word)" >/dev/shm/out; done' >/dev/null 2>&1 &)`

// ask asks it.
func ask(t *testing.T, f *drivertest.Fixture, c driver.Cell, question string) string {
	t.Helper()
	var out bytes.Buffer
	o, err := c.Exec(t.Context(), f.Command("echo "+question+" >/dev/shm/in; cat /dev/shm/out"), driver.Stdio{Out: &out, Err: &out})
	if err != nil || o.Code != 0 {
		t.Fatalf("%s: %+v, %v, %s", question, o, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

func script(t *testing.T, f *drivertest.Fixture, c driver.Cell, text string) {
	t.Helper()
	var out bytes.Buffer
	if o, err := c.Exec(t.Context(), f.Command(text), driver.Stdio{Out: &out, Err: &out}); err != nil || o.Code != 0 {
		t.Fatalf("%s: %+v, %v, %s", text, o, err, out.String())
	}
}

// saved saves a cell with a copy of its files.
func saved(t *testing.T, f *drivertest.Fixture, c driver.Cell) (image, files string, s driver.Saved) {
	t.Helper()
	image, files = t.TempDir(), t.TempDir()
	pending := filepath.Dir(f.Upper)
	s, err := c.(driver.Saver).Save(t.Context(), image, func() error {
		out, err := exec.CommandContext(t.Context(), "cp", "-a", f.Upper, filepath.Join(pending, "home"), f.Shared, files).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if err != nil || s.Pause <= 0 || s.Bytes <= 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	return image, files, s
}

// restored makes a cell of a saved one, with its own copy of the files.
func restored(t *testing.T, f *drivertest.Fixture, image, files, name string) (driver.Cell, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pending")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", files, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := f.Spec
	s.Hostname = name
	s.Mounts.Binds = []mount.Bind{{Target: f.SharedInside, Source: filepath.Join(dir, "tmp"), Owned: true}}
	s.Mounts.Overlays = slices.Clone(f.Spec.Mounts.Overlays)
	for i, o := range s.Mounts.Overlays {
		s.Mounts.Overlays[i].Upper = filepath.Join(dir, filepath.Base(o.Upper))
		s.Mounts.Overlays[i].Work = filepath.Join(dir, "scratch", filepath.Base(o.Upper))
		if err := os.MkdirAll(s.Mounts.Overlays[i].Work, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { removeScratch(t, filepath.Join(dir, "scratch")) })
	c, err := f.Driver.(driver.Restorer).Restore(t.Context(), s, image)
	if err == nil {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return c, err
}

// removeScratch removes what the kernel has made for overlays, which nobody may enter.
func removeScratch(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command("sh", "-c", `chmod -R u+rwx "$1"; rm -rf "$1"`, "sh", dir).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestSaveAndRestore: children have the processes, the memory and the files of one
// moment, and nothing of theirs is shared with the source or with each other.
func TestSaveAndRestore(t *testing.T) {
	needRuntime(t)
	f := suite().Fixture(t)
	c := f.Start()
	script(t, f, c, warm)
	first := ask(t, f, c, "source")
	image, files, s := saved(t, f, c)
	t.Logf("paused %v, %d bytes", s.Pause, s.Bytes)
	memory := strings.TrimPrefix(first, "source ")
	script(t, f, c, "echo two > word")
	drivertest.Want(t, "the source", ask(t, f, c, "later"), "later "+strings.Replace(memory, "one", "two", 1))
	for _, name := range []string{"left", "right"} {
		child, err := restored(t, f, image, files, name)
		if err != nil {
			t.Fatal(err)
		}
		drivertest.Want(t, "a child", ask(t, f, child, name), name+" "+memory)
		script(t, f, child, "test $(uname -n) = "+name+"; echo "+name+" > word")
		drivertest.Want(t, "a child with its own file", ask(t, f, child, "again"), "again "+strings.Replace(memory, "one", name, 1))
		script(t, f, child, "test -z \"$(ls -A /.forkcell/image)\"")
	}
	drivertest.Want(t, "the source in the end", ask(t, f, c, "end"), "end "+strings.Replace(memory, "one", "two", 1))
}

// TestRestoreRefuses what was not saved by these programs, or is not whole.
func TestRestoreRefuses(t *testing.T) {
	needRuntime(t)
	f := suite().Fixture(t)
	c := f.Start()
	script(t, f, c, "true")
	image, files, _ := saved(t, f, c)
	guest := filepath.Join(image, guestFile)
	whole, err := os.ReadFile(guest)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"another version": strings.Replace(string(whole), `"runtime":"`, `"runtime":"0`, 1), "other arguments": strings.Replace(string(whole), `"shape":"`, `"shape":"0`, 1), "no document": "x"} {
		if err := os.WriteFile(guest, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := restored(t, f, image, files, "child"); !errors.As(err, new(*driver.StartError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(os.WriteFile(guest, whole, 0o600), os.Truncate(filepath.Join(image, "checkpoint.img"), 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := restored(t, f, image, files, "child"); !errors.As(err, new(*driver.StartError)) {
		t.Errorf("cut off: %v", err)
	}
	// The source is unharmed, also by a capture that fails.
	failed := errors.New("no space")
	if _, err := c.(driver.Saver).Save(t.Context(), t.TempDir(), func() error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	script(t, f, c, "true")
}

// TestRestoreKeepsOpenFiles: the processes of a saved guest keep their limit of open files.
// Another one is refused, or said to be missing.
func TestRestoreKeepsOpenFiles(t *testing.T) {
	needRuntime(t)
	f := suite().Fixture(t)
	f.Spec.Limits.OpenFiles = 100
	c := f.Start()
	script(t, f, c, "test $(ulimit -Hn) = 100")
	image, files, _ := saved(t, f, c)
	same, err := restored(t, f, image, files, "same")
	if err != nil {
		t.Fatal(err)
	}
	script(t, f, same, "test $(ulimit -Hn) = 100")

	f.Spec.Limits.OpenFiles = 64
	_, err = restored(t, f, image, files, "fewer")
	if no, ok := errors.AsType[*driver.UnenforceableError](err); !ok || no.Control != "limit open_files" {
		t.Errorf("another limit: %v", err)
	}
	f.Spec.Guard.AllowDegraded = true
	fewer, err := restored(t, f, image, files, "fewer")
	if err != nil {
		t.Fatal(err)
	}
	const want = "limit open_files is not enforced as 64: "
	if list := fewer.Controls().Degraded; !slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, want) }) {
		t.Errorf("degraded: %q", list)
	}
	if limits := fewer.Controls().Limits; limits != "open files 100" {
		t.Errorf("limits %q are claimed", limits)
	}
}

// counter compares a number in memory with one in a file, whenever it counts. If the
// two were not of one moment it would say so.
const counter = `echo 0 > n; (setsid sh -c 'i=0; while :; do test "$(cat n)" = $i || echo "$i $(cat n)" >> bad; i=$((i+1)); echo $i > n; done' >/dev/null 2>&1 &)`

// moments is how often TestOneMoment saves a guest.
func moments(t *testing.T) int {
	t.Helper()
	text := os.Getenv("FORKCELL_TEST_MOMENTS")
	if text == "" {
		return 10
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOneMoment: memory and files of children are of the same moment.
func TestOneMoment(t *testing.T) {
	needRuntime(t)
	f := suite().Fixture(t)
	c := f.Start()
	script(t, f, c, counter)
	const counts = `from=$(cat n); while test "$(cat n)" -lt $((${from:-0}+20)) 2>/dev/null; do :; done; test ! -e bad`
	for i := range moments(t) {
		// Each has a test of its own, which removes its copies.
		if !t.Run(strconv.Itoa(i), func(t *testing.T) {
			script(t, f, c, counts)
			image, files, _ := saved(t, f, c)
			child, err := restored(t, f, image, files, "child")
			if err != nil {
				t.Fatal(err)
			}
			script(t, f, child, counts)
		}) {
			break
		}
	}
	script(t, f, c, counts)
}

// TestEndedInThePause: a guest that is killed while it stands still is reported, and
// nobody waits for it.
func TestEndedInThePause(t *testing.T) {
	needRuntime(t)
	f := suite().Fixture(t)
	c := f.Start()
	script(t, f, c, "true")
	_, err := c.(driver.Saver).Save(t.Context(), t.TempDir(), c.Close)
	if err == nil {
		t.Error("a guest that is gone was saved")
	}
	if _, err := c.Exec(t.Context(), f.Command("true"), driver.Stdio{}); err == nil {
		t.Error("a command ran in it")
	}
}

// TestScratch: what is saved is not in the memory of the cell, and the guest does not see
// where it is.
func TestScratch(t *testing.T) {
	needRuntime(t)
	f := suite().Fixture(t)
	f.Spec.Scratch = t.TempDir()
	if err := os.Chmod(f.Spec.Scratch, 0o700); err != nil {
		t.Fatal(err)
	}
	c := f.Start()
	script(t, f, c, "true")
	image := t.TempDir()
	_, err := c.(driver.Saver).Save(t.Context(), image, func() error {
		_, err := os.Stat(filepath.Join(f.Spec.Scratch, "image"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	guest, ok := c.(*Cell)
	if !ok {
		t.Fatalf("%T", c)
	}
	// It is removed while the caller goes on, and before anything else is saved.
	guest.saving.Lock()
	if _, err := os.Stat(filepath.Join(f.Spec.Scratch, "image")); !errors.Is(err, os.ErrNotExist) {
		t.Error("what was saved is still there:", err)
	}
	guest.leftover = errors.New("it could not be removed")
	guest.saving.Unlock()
	if _, err := guest.Save(t.Context(), t.TempDir(), func() error { return nil }); err != nil {
		t.Error("after a removal that failed:", err)
	}
	if err := os.WriteFile(filepath.Join(f.Spec.Scratch, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	script(t, f, c, `test -z "$(ls -A /.forkcell/scratch)"; ! touch /.forkcell/scratch/y 2>/dev/null`)
}

// TestSaveWhileCommandsSpeak: a guest is saved between two messages, however much its
// commands say, and the source loses none of it.
func TestSaveWhileCommandsSpeak(t *testing.T) {
	needRuntime(t)
	f := suite().Fixture(t)
	c := f.Start()
	said := make(chan int, 1)
	begun := make(chan struct{})
	cmd := f.Command("head -c 100000000 /dev/zero")
	cmd.Executed = func(int) { close(begun) }
	go func() {
		var out countingWriter
		if o, err := c.Exec(t.Context(), cmd, driver.Stdio{Out: &out}); err != nil || o.Code != 0 {
			t.Errorf("%+v, %v", o, err)
		}
		said <- int(out)
	}()
	<-begun
	for i := range 3 {
		image, files, _ := saved(t, f, c)
		child, err := restored(t, f, image, files, "child")
		if err != nil {
			t.Fatal(err)
		}
		script(t, f, child, fmt.Sprintf("test %d = %d", i, i))
		if err := child.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := <-said; n != 100_000_000 {
		t.Errorf("%d bytes came", n)
	}
}

// TestSaveWhileNobodyReads: a command whose output nobody takes waits in the source, and
// goes on in a child, where its output is dropped.
func TestSaveWhileNobodyReads(t *testing.T) {
	needRuntime(t)
	f := suite().Fixture(t)
	c := f.Start()
	// The first part fills the room of the stream and the pipe, to the last byte.
	cmd := f.Command("head -c " + strconv.Itoa(frames.Window+64<<10) + " /dev/zero; echo > half; head -c 1000000 /dev/zero; echo > whole")
	unread, take := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(t.Context(), cmd, driver.Stdio{Out: take})
		ended <- errors.Join(err, take.Close())
	}()
	script(t, f, c, "until test -e half; do sleep 0.1; done")
	image, files, _ := saved(t, f, c)
	child, err := restored(t, f, image, files, "child")
	if err != nil {
		t.Fatal(err)
	}
	script(t, f, child, "until test -e whole; do sleep 0.1; done")
	script(t, f, c, "test ! -e whole")
	n, err := io.Copy(io.Discard, unread)
	if err := errors.Join(err, <-ended); err != nil || n != frames.Window+64<<10+1000000 {
		t.Errorf("%d bytes came, %v", n, err)
	}
}

// countingWriter counts what is written.
type countingWriter int

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}
