package native

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// TestPackages: a package manager runs as the cell's root if the host side agrees, and
// the command that asked for it does not.
func TestPackages(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a root caller's cell can have a root")
	}
	if !present("/usr/bin/dpkg") {
		t.Skip("this host has no dpkg")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var asked, ended []string
	var refused atomic.Bool
	refused.Store(true)
	f := newFixture(t, Options{})
	s := f.Spec
	s.Mounts.Overlays = append(slices.Clone(s.Mounts.Overlays), writableSystem(t))
	s.System.Own = true
	s.Packages = &driver.Packages{
		Shim: self,
		Asked: func(args []string) error {
			asked = append(asked, strings.Join(args, " "))
			if refused.Load() {
				return errors.New("not today")
			}
			return nil
		},
		Ended: func(args []string, code int, failed error) {
			ended = append(ended, strings.Join(args, " "))
			if code != 2 || failed != nil {
				t.Errorf("ended with %d, %v", code, failed)
			}
		},
	}
	c, err := f.native.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() // again, if a check fails
	exec := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		cmd := f.Command("")
		cmd.Args = args
		o, err := c.Exec(t.Context(), cmd, driver.Stdio{Out: &out, Err: &errs})
		if err != nil {
			t.Fatal(err)
		}
		return o.Code, out.String() + errs.String()
	}
	if code, out := exec("/usr/bin/dpkg", "-i", "/none.deb"); code == 0 || !strings.Contains(out, "superuser") {
		t.Errorf("as the sandbox user: %d, %s", code, out)
	}
	if code, out := exec(driver.PackagesDir+"/dpkg", "-i", "/none.deb"); code != 126 || !strings.Contains(out, "not today") {
		t.Errorf("refused: %d, %s", code, out)
	}
	refused.Store(false)
	if code, out := exec(driver.PackagesDir+"/dpkg", "-i", "/none.deb"); code != 2 || strings.Contains(out, "superuser") {
		t.Errorf("as root: %d, %s", code, out)
	}
	if code, out := exec(driver.PackagesDir+"/dpkg", "--print-architecture"); code != 0 {
		t.Errorf("what only reads: %d, %s", code, out)
	}
	if code, out := exec("sh", "-c", "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status"); code != 0 || !strings.HasPrefix(out, "1000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n") {
		t.Errorf("a command: %d, %s", code, out)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	const want = "/usr/bin/dpkg -i /none.deb"
	if !slices.Equal(asked, []string{want, want}) || !slices.Equal(ended, []string{want}) {
		t.Errorf("asked %q, ended %q", asked, ended)
	}
}

// writableSystem shows the host's programs with their owners, as far as a cell can have
// them.
func writableSystem(t *testing.T) mount.Overlay {
	t.Helper()
	dir := drivertest.OpenDirectory(t)
	for _, d := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return mount.Overlay{Target: "/usr", Lower: []string{"/usr"}, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work"), HostLower: true, System: true}
}

// TestPackagesNeedRoot: nobody else gets a cell that could not keep the promise.
func TestPackagesNeedRoot(t *testing.T) {
	f := newFixture(t, Options{})
	s := f.Spec
	s.Packages = &driver.Packages{Shim: "/bin/true"}
	s.AsRoot = os.Geteuid() == 0
	_, err := f.native.Resolve(s)
	if _, ok := errors.AsType[*driver.UnenforceableError](err); !ok {
		t.Errorf("got %v", err)
	}
}
