package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// defaultPath is where commands are looked for.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Fixture is a specification with the directories that a workspace would bring.
type Fixture struct {
	Driver driver.Driver
	Spec   driver.Spec
	// Base is the lower directory of the workspace, Upper the one that its changes
	// go to.
	Base, Upper string
	// Workspace is where it is in the cell, Shared a directory that the cell and
	// the host both see, and SharedInside where it is in the cell.
	Workspace, Shared, SharedInside string

	t     *testing.T
	suite Suite
}

// Fixture makes the directories for one test, which runs in parallel with others.
func (s Suite) Fixture(t *testing.T) *Fixture {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	mk := func(name string, mode os.FileMode) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(p, 0o755), os.Chmod(p, mode)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	f := &Fixture{t: t, suite: s, Driver: s.New()}
	f.Base, f.Shared = mk("base", 0o755), mk("pending/tmp", 0o1777)
	f.Spec = driver.Spec{
		ID: "run", Hostname: "testcell",
		Command: driver.Command{Env: []string{"PATH=" + defaultPath, "HOME=/home/sandbox"}},
	}
	f.Workspace, f.SharedInside = f.Base, f.Shared
	f.Spec.Guard.AllowDegraded = !s.claims(Isolation)
	if s.claims(Mounts) {
		f.Workspace, f.SharedInside = "/src/project", "/tmp"
		f.Upper = mk("pending/workspace", 0o755)
		f.Spec.Mounts = mount.Set{
			Binds: sharedBind(f.SharedInside, f.Shared),
			Overlays: []mount.Overlay{
				{Target: f.Workspace, Lower: []string{f.Base}, Upper: f.Upper, Work: mk("pending/work/workspace", 0o755)},
				{Target: "/home/sandbox", Lower: []string{mk("home", 0o755)}, Upper: mk("pending/home", 0o755), Work: mk("pending/work/home", 0o755)},
			},
		}
	}
	f.Spec.Workdir = f.Workspace
	return f
}

// Write puts a file into the workspace. No process is forked meanwhile: it would have the
// file open for writing until it executes its program, and the kernel executes no such
// file.
func (f *Fixture) Write(name, text string) {
	f.t.Helper()
	p := filepath.Join(f.Base, name)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
		f.t.Fatal(err)
	}
}

// Run runs the cell on new scratch directories: the kernel does not mount an
// overlay that was volatile a second time.
func (f *Fixture) Run(ctx context.Context, s driver.Spec, stdio driver.Stdio) (driver.Outcome, error) {
	f.t.Helper()
	f.ClearWork()
	f.t.Cleanup(f.ClearWork)
	return f.Driver.Run(ctx, s, stdio)
}

// ClearWork empties the scratch directories of the overlays.
func (f *Fixture) ClearWork() {
	for _, o := range f.Spec.Mounts.Overlays {
		if err := removeWork(o.Work); err != nil {
			f.t.Error(err)
		}
	}
}

// removeWork removes what the kernel made in the scratch directory of an overlay.
func removeWork(dir string) error {
	for _, name := range []string{"work", "work/incompat", "work/incompat/volatile"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, "work"))
}

// Try runs a command and returns whatever happens.
func (f *Fixture) Try(stdin io.Reader, args ...string) (stdout, stderr string, out driver.Outcome, err error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 60*time.Second)
	defer cancel()
	var o, e bytes.Buffer
	s := f.Spec
	s.Args = args
	out, err = f.Run(ctx, s, driver.Stdio{In: stdin, Out: &o, Err: &e})
	return o.String(), e.String(), out, err
}

// Shell runs a script that must succeed and returns its output.
func (f *Fixture) Shell(script string) string {
	f.t.Helper()
	stdout, stderr, out, err := f.Try(nil, "/bin/sh", "-c", script)
	if err != nil || out.Code != 0 {
		f.t.Fatalf("script %q: code %d, error %v\n%s%s", script, out.Code, err, stdout, stderr)
	}
	return stdout
}

// Start makes the fixture's cell without a command.
func (f *Fixture) Start() driver.Cell {
	f.t.Helper()
	f.ClearWork()
	f.t.Cleanup(f.ClearWork)
	c, err := f.Driver.Start(f.t.Context(), f.Spec)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return c
}

// Command returns a shell command as the fixture's cell runs it.
func (f *Fixture) Command(script string) driver.Command {
	c := f.Spec.Command
	c.Args = []string{"sh", "-c", script}
	return c
}

// Want compares trimmed text.
func Want(t *testing.T, what, got, expected string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(expected) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, expected)
	}
}

// sharedBind shows a directory of the host in the cell.
func sharedBind(target, source string) []mount.Bind {
	return []mount.Bind{{Target: target, Source: source, Owned: true}}
}
