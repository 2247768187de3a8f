package firstprogram

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	_ "github.com/forkcell/forkcell/internal/sandbox/driver/first" // this test is the program
	"github.com/forkcell/forkcell/internal/sandbox/driver/native"
)

// TestCell: the first process of a cell, also of one that has waited for it, is a
// program in memory, which nobody can write to.
func TestCell(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := seal(self)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.Pwrite(fd, []byte("x"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("write: %v", err)
	}
	if err := unix.Ftruncate(fd, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("truncate: %v", err)
	}
	if sealsMode(t) {
		if err := unix.Fchmod(fd, 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("change of mode: %v", err)
		}
	}
	n := native.New(native.Options{Executable: pathOf(fd)})
	for _, waiting := range []int{0, 1} {
		end, err := n.Keep(waiting)
		if err != nil {
			t.Fatal(err)
		}
		n.AwaitReady()
		var out bytes.Buffer
		got, err := n.Run(t.Context(), driver.Spec{
			Command: driver.Command{Args: []string{"/bin/sh", "-c", "echo here; exit 3"}, Workdir: "/"},
		}, driver.Stdio{Out: &out})
		end()
		if err != nil || got.Code != 3 || out.String() != "here\n" {
			t.Fatalf("%+v, %v, %q", got, err, out.String())
		}
	}
}

// sealsMode reports whether the kernel can seal the mode of a file in memory.
func sealsMode(t *testing.T) bool {
	t.Helper()
	fd, err := unix.MemfdCreate("forkcell-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_EXEC)
	return err == nil
}

// TestExecutes: a program that cannot be executed is not used, one that fails is.
func TestExecutes(t *testing.T) {
	program, err := os.ReadFile("/bin/false")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{string(program): true, "no program": false} {
		fd, err := seal([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := executes(pathOf(fd)); got != want {
			t.Errorf("%.10q: %v", text, got)
		}
		_ = unix.Close(fd)
	}
}

// TestOpenWithout: a program that was built without it has none.
func TestOpenWithout(t *testing.T) {
	if path, err := Open(); len(content) == 0 && (path != "" || err != nil) {
		t.Errorf("%q, %v", path, err)
	}
}
