// Package disktest gives tests a small file system that they can fill. It knows nothing
// of what is tested.
package disktest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// place is set in a process that has a small file system at this path.
const place = "FORKCELL_TEST_DISK"

// Mount mounts a small file system below dir until the test ends, and returns its path.
//
// An ordinary user mounts it in a user namespace: the present test runs again in a
// process there, which gets no rights from that. Here Mount then returns "", and the
// caller has nothing left to do.
func Mount(t *testing.T, dir string) string {
	t.Helper()
	return mount(t, dir, "size=96m")
}

// MountFewInodes is Mount for a file system with room for so many files.
func MountFewInodes(t *testing.T, dir string, inodes int) string {
	t.Helper()
	return mount(t, dir, fmt.Sprintf("size=96m,nr_inodes=%d", inodes))
}

func mount(t *testing.T, dir, options string) string {
	t.Helper()
	if at := os.Getenv(place); at != "" {
		return at
	}
	at := filepath.Join(dir, "disk")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		runAgain(t, at, options)
		return ""
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

// runAgain runs the present test in a process that has a small file system.
func runAgain(t *testing.T, at, options string) {
	t.Helper()
	script := `mount -t tmpfs -o ` + options + `,mode=700 disk "$0" && exec setpriv --ambient-caps -all --inh-caps -all "$@"`
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--map-current-user", "--mount", "--keep-caps", "sh", "-c", script, at,
		self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), place+"="+at)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Fill leaves no room on the file system of a directory, until the returned function is
// called.
func Fill(t testing.TB, dir string) (remove func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// FillInodes leaves no room for another file on the file system of a directory, until
// the returned function is called.
func FillInodes(t testing.TB, dir string) (remove func()) {
	t.Helper()
	at := filepath.Join(dir, "files")
	if err := os.Mkdir(at, 0o700); err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	const most = 100_000 // a file system without a limit is not filled
	for i := range most {
		f, err := os.Create(filepath.Join(at, fmt.Sprint(i)))
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOENT) {
			return func() {
				if err := os.RemoveAll(at); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("%s has room for more than %d files", dir, most)
	return nil
}
