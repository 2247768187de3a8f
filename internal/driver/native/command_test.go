package native

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/driver"
)

func TestExitStatus(t *testing.T) {
	f := newFixture(t, Options{})
	for script, expected := range map[string]driver.Outcome{
		"exit 0":             {Code: 0},
		"exit 42":            {Code: 42},
		"kill -TERM $$":      {Code: 143, Signal: 15},
		"kill -KILL $$":      {Code: 137, Signal: 9},
		"(exit 3); exit 255": {Code: 255},
	} {
		_, _, out, err := f.try(nil, "/bin/sh", "-c", script)
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

// TestInheritedSignals reads what the command itself has inherited, before any program
// could change it.
func TestInheritedSignals(t *testing.T) {
	f := newFixture(t, Options{})
	status, _, _, err := f.try(nil, "/bin/cat", "/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"SigPnd", "SigBlk", "SigIgn", "SigCgt"} {
		if !strings.Contains(status, set+":\t0000000000000000\n") {
			t.Errorf("%s is not empty:\n%s", set, status)
		}
	}
}

func TestNotStarted(t *testing.T) {
	f := newFixture(t, Options{})
	f.write("plain.txt", "not a program\n")
	f.write("script", "echo no shebang\n")
	f.write("orphan", "#!/nonexistent/interpreter\n")
	for _, name := range []string{"script", "orphan"} {
		if err := os.Chmod(f.base+"/"+name, 0o755); err != nil {
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
			g.spec.Workdir = c.dir
		}
		_, _, _, err := g.try(nil, c.args...)
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

func TestPathSearch(t *testing.T) {
	f := newFixture(t, Options{})
	f.write("a/tool", "not executable\n")
	f.write("b/tool", "#!/bin/sh\necho found $0\n")
	if err := os.Chmod(f.base+"/b/tool", 0o755); err != nil {
		t.Fatal(err)
	}
	f.spec.Env = []string{"PATH=/none:/src/project/a::/src/project/b"}
	stdout, _, out, err := f.try(nil, "tool")
	if err != nil || out.Code != 0 {
		t.Fatal(out, err)
	}
	want(t, "output", stdout, "found /src/project/b/tool")
	f.spec.Env = []string{"PATH=/none:/src/project/a"}
	_, _, _, err = f.try(nil, "tool")
	var se *driver.StartError
	if !errors.As(err, &se) || se.Cause != driver.CauseNotExecutable {
		t.Errorf("a file without permission: %v", err)
	}
}

func TestEnvironmentAndArguments(t *testing.T) {
	f := newFixture(t, Options{})
	f.spec.Env = []string{"ONLY=this", "RAW=\xff\xfe", "EMPTY="}
	stdout, _, _, err := f.try(nil, "/usr/bin/env")
	if err != nil {
		t.Fatal(err)
	}
	if stdout != "ONLY=this\nRAW=\xff\xfe\nEMPTY=\n" {
		t.Errorf("environment %q", stdout)
	}
	stdout, _, _, err = f.try(nil, "/usr/bin/printf", "%s|", "a b", "", "\xc3\x28", "*")
	if err != nil || stdout != "a b||\xc3\x28|*|" {
		t.Errorf("arguments %q, %v", stdout, err)
	}
	want(t, "working directory", f.sh("/bin/pwd -P"), f.ws)
	want(t, "host name", f.sh("uname -n; cat /etc/hostname"), "testcell\ntestcell")
}

func TestBadSpec(t *testing.T) {
	f := newFixture(t, Options{})
	for name, change := range map[string]func(*driver.Spec){
		"no command":        func(s *driver.Spec) { s.Args = nil },
		"relative workdir":  func(s *driver.Spec) { s.Workdir = "x" },
		"unclean target":    func(s *driver.Spec) { s.Mounts.Overlays[0].Target = "/a/../b" },
		"zero byte":         func(s *driver.Spec) { s.Env = []string{"A=\x00"} },
		"no lower":          func(s *driver.Spec) { s.Mounts.Overlays[0].Lower = nil },
		"over proc":         func(s *driver.Spec) { s.Mounts.Binds[0].Target = "/proc/x" },
		"relative readonly": func(s *driver.Spec) { s.ReadOnly = []string{"usr"} },
	} {
		s := f.spec
		s.Args = []string{"true"}
		s.Mounts.Overlays = append(s.Mounts.Overlays[:0:0], s.Mounts.Overlays...)
		s.Mounts.Binds = append(s.Mounts.Binds[:0:0], s.Mounts.Binds...)
		change(&s)
		if _, err := f.run(t.Context(), s, driver.Stdio{}); !errors.Is(err, driver.ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := f.native.Resolve(s); !errors.Is(err, driver.ErrSpec) {
			t.Errorf("%s: resolve: %v", name, err)
		}
	}
	for _, path := range []string{"/", "/run", "/proc/1", "/no/such/path", "/var/run", "/sys/kernel"} {
		s := f.spec
		s.Args, s.ReadOnly = []string{"true"}, []string{path}
		var se *driver.StartError
		if _, err := f.run(t.Context(), s, driver.Stdio{}); !errors.As(err, &se) {
			t.Errorf("read-only %s: %v", path, err)
		}
	}
}

func TestStreams(t *testing.T) {
	f := newFixture(t, Options{})
	data := make([]byte, 10<<20)
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(data)
	stdout, stderr, out, err := f.try(bytes.NewReader(data), "/bin/sh", "-c", "tee /dev/stderr")
	if err != nil || out.Code != 0 {
		t.Fatal(out, err)
	}
	for name, got := range map[string]string{"stdout": stdout, "stderr": stderr} {
		if sha256.Sum256([]byte(got)) != sha256.Sum256(data) {
			t.Errorf("%s: %d bytes differ from the %d sent", name, len(got), len(data))
		}
	}
	want(t, "no input", f.sh("wc -c; readlink /proc/self/fd/0"), "0\n/dev/null")
	want(t, "open descriptors", f.sh("exec ls /proc/self/fd"), "0\n1\n2\n3") // 3 is ls reading the directory
	if _, _, out, err := f.try(neverEnds{t.Context()}, "true"); err != nil || out.Code != 0 {
		t.Error("input that nobody reads:", out, err)
	}
	if _, _, out, err := f.try(bytes.NewReader(data), "head", "-c", "1"); err != nil || out.Code != 0 {
		t.Error("input that is not read to its end:", out, err)
	}
}

// neverEnds is a reader that blocks.
type neverEnds struct{ ctx context.Context }

func (n neverEnds) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, io.EOF
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestBrokenOutput(t *testing.T) {
	f := newFixture(t, Options{})
	s := f.spec
	s.Args, s.Timeout = []string{"/usr/bin/yes"}, 50*time.Second
	out, err := f.run(t.Context(), s, driver.Stdio{Out: brokenWriter{}})
	if err != nil || out.Signal != int(unix.SIGPIPE) {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestSignals(t *testing.T) {
	f := newFixture(t, Options{})
	signals := make(chan os.Signal, 1)
	ready := &trigger{text: "ready", do: func() { signals <- syscall.SIGUSR1 }}
	s := f.spec
	s.Args = []string{"/bin/sh", "-c", "trap 'echo got it; exit 7' USR1; echo ready; while :; do sleep 0.05; done"}
	out, err := f.run(t.Context(), s, driver.Stdio{Out: ready, Signals: signals})
	if err != nil || out.Code != 7 || !strings.Contains(ready.seen.String(), "got it") {
		t.Errorf("%+v, %v, %q", out, err, ready.seen.String())
	}
	// The cell's own processes cannot end its first process.
	for range 5 {
		want(t, "signals to pid 1", f.sh("for s in TERM INT HUP QUIT ABRT SEGV USR1 KILL STOP; do kill -$s 1 2>/dev/null; done; echo alive"), "alive")
	}
	// Binaries with the race detector keep signal 33, the C library's, blocked.
	want(t, "ignored and blocked signals", f.sh("exec 3</proc/self/status; grep -E '^Sig(Ign|Blk)' <&3 | awk '{print $2}' | sed s/0000000100000000/0000000000000000/; umask; ulimit -c"),
		"0000000000000000\n0000000000000000\n0022\n0")
}

// trigger acts once when it sees a text.
type trigger struct {
	seen bytes.Buffer
	text string
	do   func()
}

func (w *trigger) Write(p []byte) (int, error) {
	n, err := w.seen.Write(p)
	if w.do != nil && strings.Contains(w.seen.String(), w.text) {
		w.do()
		w.do = nil
	}
	return n, err
}

func TestTimeoutKillsEverything(t *testing.T) {
	f := newFixture(t, Options{})
	var initPID int
	pids := map[int]uint64{}
	ready := &trigger{text: "ready", do: func() { pids = processesUnder(t, initPID) }}
	s := f.spec
	s.Started = func(r driver.Record) error { initPID = recorded(t, r).PID; return nil }
	s.Args = []string{"/bin/sh", "-c", "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000' >/dev/null 2>&1 &); echo ready; exec sleep 1000"}
	s.Timeout = 500 * time.Millisecond
	out, err := f.run(t.Context(), s, driver.Stdio{Out: ready})
	if err != nil || !out.TimedOut || out.Killed || out.Code != 124 {
		t.Fatalf("%+v, %v", out, err)
	}
	if len(pids) < 2 {
		t.Fatalf("processes of the cell: %v", pids)
	}
	for pid, start := range pids {
		if now, err := startTime(pid); err == nil && now == start {
			t.Errorf("process %d is still there", pid)
		}
	}
}

func TestCancel(t *testing.T) {
	f := newFixture(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	s := f.spec
	s.Args = []string{"/bin/sh", "-c", "echo ready; exec sleep 1000"}
	out, err := f.run(ctx, s, driver.Stdio{Out: &trigger{text: "ready", do: cancel}})
	if err != nil || !out.Killed || out.TimedOut || out.Code != 137 {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err = f.run(ctx, s, driver.Stdio{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before the start: %v", err)
	}
	s.Started = func(driver.Record) error { return io.ErrShortWrite }
	if _, err = f.run(t.Context(), s, driver.Stdio{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("refused by Started: %v", err)
	}
}

func TestDaemonDiesWithCommand(t *testing.T) {
	f := newFixture(t, Options{})
	begin := time.Now()
	stdout, _, out, err := f.try(nil, "/bin/sh", "-c", "(setsid sh -c 'echo $$; exec sleep 1000' &) | head -1; echo done")
	if err != nil || out.Code != 0 || !strings.Contains(stdout, "done") {
		t.Fatalf("%+v, %v, %q", out, err, stdout)
	}
	if time.Since(begin) > 100*time.Second {
		t.Error("the run waited for a daemon")
	}
}

func TestManyAtOnce(t *testing.T) {
	f := newFixture(t, Options{})
	f.spec.Mounts.Overlays = nil
	f.spec.Workdir = "/"
	results := make(chan string, 8)
	for i := range cap(results) {
		go func() {
			var out bytes.Buffer
			s := f.spec
			s.Args = []string{"echo", strconv.Itoa(i)}
			if _, err := f.run(t.Context(), s, driver.Stdio{Out: &out}); err != nil {
				results <- err.Error()
				return
			}
			if strings.TrimSpace(out.String()) != strconv.Itoa(i) {
				results <- "wrong output " + out.String()
				return
			}
			results <- ""
		}()
	}
	for range cap(results) {
		if msg := <-results; msg != "" {
			t.Error(msg)
		}
	}
}
