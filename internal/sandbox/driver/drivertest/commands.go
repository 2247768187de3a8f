package drivertest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

func testExitStatus(t *testing.T, f *Fixture) {
	for script, expected := range map[string]driver.Outcome{
		"exit 0":             {Code: 0},
		"exit 42":            {Code: 42},
		"kill -TERM $$":      {Code: 143, Signal: 15},
		"kill -KILL $$":      {Code: 137, Signal: 9},
		"(exit 3); exit 255": {Code: 255},
	} {
		_, _, out, err := f.Try(nil, "/bin/sh", "-c", script)
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		if out.Code != expected.Code || out.Signal != expected.Signal || out.Killed || out.TimedOut {
			t.Errorf("%s: %+v", script, out)
		}
		if out.StartTook <= 0 || out.CommandTook <= 0 {
			t.Errorf("%s: no times in %+v", script, out)
		}
	}
}

// testCommandTime has a command that has nearly ended when the host takes notice of its
// start. How long it took is measured in the cell.
func testCommandTime(t *testing.T, f *Fixture) {
	const least = 300 * time.Millisecond
	s := f.Spec
	s.Args = []string{"/bin/sleep", "0.3"}
	s.Executed = func(int) { <-time.After(least) }
	begin := time.Now()
	out, err := f.Run(t.Context(), s, driver.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	if whole := time.Since(begin); out.CommandTook < least || out.StartTook+out.CommandTook > whole {
		t.Errorf("the start took %v and the command %v of %v, at least %v expected", out.StartTook, out.CommandTook, whole, least)
	}
}

// testInheritedSignals reads what the command itself has inherited, before any program
// could change it.
func testInheritedSignals(t *testing.T, f *Fixture) {
	status, _, _, err := f.Try(nil, "/bin/cat", "/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(status, "SigIgn:") {
		// This kernel does not show them, but tells the process itself.
		if text, _, _, err := f.Try(nil, "/usr/bin/env", "--list-signal-handling", "true"); err != nil || text != "" {
			t.Errorf("not the default: %q, %v", text, err)
		}
		return
	}
	for _, set := range []string{"SigPnd", "SigBlk", "SigIgn", "SigCgt"} {
		if !strings.Contains(status, set+":\t0000000000000000\n") {
			t.Errorf("%s is not empty:\n%s", set, status)
		}
	}
}

func testNotStarted(t *testing.T, f *Fixture) {
	f.Write("plain.txt", "not a program\n")
	f.Write("script", "echo no shebang\n")
	f.Write("orphan", "#!/nonexistent/interpreter\n")
	for _, name := range []string{"script", "orphan"} {
		if err := os.Chmod(f.Base+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name     string
		args     []string
		dir      string
		step     string
		notFound bool
		notExec  bool
		errno    error
	}{
		{"not in PATH", []string{"no-such-command"}, "", "exec", true, false, unix.ENOENT},
		{"no such path", []string{"./no-such"}, "", "exec", true, false, unix.ENOENT},
		{"below a file", []string{"/etc/passwd/x"}, "", "exec", true, false, unix.ENOENT},
		{"missing interpreter", []string{"./orphan"}, "", "exec", true, false, unix.ENOENT},
		{"no permission", []string{"./plain.txt"}, "", "exec", false, true, unix.EACCES},
		{"a directory", []string{"/usr"}, "", "exec", false, true, unix.EACCES},
		{"no format", []string{"./script"}, "", "exec", false, true, unix.ENOEXEC},
		{"no workdir", []string{"true"}, "/no/such", "workdir", false, false, unix.ENOENT},
		{"workdir is a file", []string{"true"}, "/etc/passwd", "workdir", false, false, unix.ENOTDIR},
	} {
		g := *f
		if c.dir != "" {
			g.Spec.Workdir = c.dir
		}
		_, _, _, err := g.Try(nil, c.args...)
		var se *driver.StartError
		if !errors.As(err, &se) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if se.Step != c.step || (se.Cause == driver.CauseNotFound) != c.notFound || (se.Cause == driver.CauseNotExecutable) != c.notExec || !errors.Is(err, c.errno) {
			t.Errorf("%s: %+v, %v", c.name, se, err)
		}
	}
}

func testPathSearch(t *testing.T, f *Fixture) {
	f.Write("a/tool", "not executable\n")
	f.Write("b/tool", "#!/bin/sh\necho found $0\n")
	if err := os.Chmod(f.Base+"/b/tool", 0o755); err != nil {
		t.Fatal(err)
	}
	f.Spec.Env = []string{"PATH=/none:" + f.Workspace + "/a::" + f.Workspace + "/b"}
	stdout, _, out, err := f.Try(nil, "tool")
	if err != nil || out.Code != 0 {
		t.Fatal(out, err)
	}
	Want(t, "output", stdout, "found "+f.Workspace+"/b/tool")
	f.Spec.Env = []string{"PATH=/none:" + f.Workspace + "/a"}
	_, _, _, err = f.Try(nil, "tool")
	var se *driver.StartError
	if !errors.As(err, &se) || se.Cause != driver.CauseNotExecutable {
		t.Errorf("a file without permission: %v", err)
	}
}

func testEnvironmentAndArguments(t *testing.T, f *Fixture) {
	f.Spec.Env = []string{"ONLY=this", "RAW=\xff\xfe", "EMPTY="}
	stdout, _, _, err := f.Try(nil, "/usr/bin/env")
	if err != nil {
		t.Fatal(err)
	}
	if stdout != "ONLY=this\nRAW=\xff\xfe\nEMPTY=\n" {
		t.Errorf("environment %q", stdout)
	}
	stdout, _, _, err = f.Try(nil, "/usr/bin/printf", "%s|", "a b", "", "\xc3\x28", "*")
	if err != nil || stdout != "a b||\xc3\x28|*|" {
		t.Errorf("arguments %q, %v", stdout, err)
	}
	Want(t, "working directory", f.Shell("/bin/pwd -P"), f.Workspace)
	if f.suite.claims(Isolation) {
		Want(t, "host name", f.Shell("uname -n; cat /etc/hostname"), "testcell\ntestcell")
	}
}

func testBadSpec(t *testing.T, f *Fixture) {
	for name, change := range map[string]func(*driver.Spec){
		"no command":       func(s *driver.Spec) { s.Args = nil },
		"relative workdir": func(s *driver.Spec) { s.Workdir = "x" },
		"unclean target":   func(s *driver.Spec) { s.Mounts.Binds = sharedBind("/a/../b", f.Shared) },
		"zero byte":        func(s *driver.Spec) { s.Env = []string{"A=\x00"} },
		"no lower": func(s *driver.Spec) {
			s.Mounts.Overlays = []mount.Overlay{{Target: "/a", Upper: f.Shared, Work: f.Shared}}
		},
		"over proc":         func(s *driver.Spec) { s.Mounts.Binds = sharedBind("/proc/x", f.Shared) },
		"relative readonly": func(s *driver.Spec) { s.ReadOnly = []string{"usr"} },
	} {
		s := f.Spec
		s.Args = []string{"true"}
		change(&s)
		if _, err := f.Run(t.Context(), s, driver.Stdio{}); !errors.Is(err, driver.ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := f.Driver.Resolve(s); !errors.Is(err, driver.ErrSpec) {
			t.Errorf("%s: resolve: %v", name, err)
		}
	}
	for _, path := range []string{"/", "/run", "/proc/1", "/no/such/path", "/var/run", "/sys/kernel"} {
		s := f.Spec
		s.Args, s.ReadOnly = []string{"true"}, []string{path}
		var se *driver.StartError
		if _, err := f.Run(t.Context(), s, driver.Stdio{}); !errors.As(err, &se) {
			t.Errorf("read-only %s: %v", path, err)
		}
	}
}
