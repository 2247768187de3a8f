package drivertest

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

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

func testStreams(t *testing.T, f *Fixture) {
	data := make([]byte, 10<<20)
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(data)
	stdout, stderr, out, err := f.Try(bytes.NewReader(data), "/bin/sh", "-c", "tee /dev/stderr")
	if err != nil || out.Code != 0 {
		t.Fatal(out, err)
	}
	for name, got := range map[string]string{"stdout": stdout, "stderr": stderr} {
		if sha256.Sum256([]byte(got)) != sha256.Sum256(data) {
			t.Errorf("%s: %d bytes differ from the %d sent", name, len(got), len(data))
		}
	}
	Want(t, "no input", f.Shell("wc -c; readlink /proc/self/fd/0"), "0\n/dev/null")
	if f.suite.claims(Isolation) {
		Want(t, "open descriptors", f.Shell("exec ls /proc/self/fd"), "0\n1\n2\n3") // 3 is ls reading the directory
	}
	if _, _, out, err := f.Try(neverEnds{t.Context()}, "true"); err != nil || out.Code != 0 {
		t.Error("input that nobody reads:", out, err)
	}
	if _, _, out, err := f.Try(bytes.NewReader(data), "head", "-c", "1"); err != nil || out.Code != 0 {
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

func testBrokenOutput(t *testing.T, f *Fixture) {
	s := f.Spec
	s.Args, s.Timeout = []string{"/usr/bin/yes"}, 50*time.Second
	out, err := f.Run(t.Context(), s, driver.Stdio{Out: brokenWriter{}})
	if err != nil || out.Signal != int(unix.SIGPIPE) {
		t.Errorf("%+v, %v", out, err)
	}
}

func testSignals(t *testing.T, f *Fixture) {
	signals := make(chan os.Signal, 1)
	ready := &trigger{text: "ready", do: func() { signals <- syscall.SIGUSR1 }}
	s := f.Spec
	s.Args = []string{"/bin/sh", "-c", "trap 'echo got it; exit 7' USR1; echo ready; while :; do sleep 0.05; done"}
	out, err := f.Run(t.Context(), s, driver.Stdio{Out: ready, Signals: signals})
	if err != nil || out.Code != 7 || !strings.Contains(ready.seen.String(), "got it") {
		t.Errorf("%+v, %v, %q", out, err, ready.seen.String())
	}
	if !f.suite.claims(Isolation) {
		return
	}
	// The cell's own processes cannot end its first process.
	for range 5 {
		Want(t, "signals to pid 1", f.Shell("for s in TERM INT HUP QUIT ABRT SEGV USR1 KILL STOP; do kill -$s 1 2>/dev/null; done; echo alive"), "alive")
	}
	// Binaries with the race detector keep signal 33, the C library's, blocked.
	// A kernel without these lines tells the process itself: see testInheritedSignals.
	Want(t, "ignored and blocked signals", f.Shell("exec 3</proc/self/status; grep -E '^Sig(Ign|Blk)' <&3 | awk '{print $2}' | sed s/0000000100000000/0000000000000000/ | grep -v 0000000000000000; umask; ulimit -c"),
		"0022\n0")
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

// testTimeoutKillsEverything gives the command longer until it has something to
// kill.
func testTimeoutKillsEverything(t *testing.T, f *Fixture) {
	for limit := time.Second; ; limit *= 4 {
		held := false
		s := f.Spec
		s.Args, s.Timeout = []string{"/bin/sh", "-c", f.hold()}, limit
		out, err := f.Run(t.Context(), s, driver.Stdio{Out: &trigger{text: "ready", do: func() { held = f.isHeld() }}})
		if err != nil || !out.TimedOut || out.Killed || out.Code != 124 {
			t.Fatalf("%+v, %v", out, err)
		}
		if held {
			break
		}
		if limit > 10*time.Second {
			t.Fatalf("nothing ran after %v", limit)
		}
	}
	if f.isHeld() {
		t.Error("a process of the cell is still there")
	}
}

func testCancel(t *testing.T, f *Fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	s := f.Spec
	s.Args = []string{"/bin/sh", "-c", "echo ready; exec sleep 1000"}
	out, err := f.Run(ctx, s, driver.Stdio{Out: &trigger{text: "ready", do: cancel}})
	if err != nil || !out.Killed || out.TimedOut || out.Code != 137 {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err = f.Run(ctx, s, driver.Stdio{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before the start: %v", err)
	}
	s.Started = func(driver.Record) error { return io.ErrShortWrite }
	if _, err = f.Run(t.Context(), s, driver.Stdio{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("refused by Started: %v", err)
	}
}

func testDaemonDiesWithCommand(t *testing.T, f *Fixture) {
	begin := time.Now()
	stdout, _, out, err := f.Try(nil, "/bin/sh", "-c", "(setsid sh -c 'echo $$; exec sleep 1000' &) | head -1; echo done")
	if err != nil || out.Code != 0 || !strings.Contains(stdout, "done") {
		t.Fatalf("%+v, %v, %q", out, err, stdout)
	}
	if time.Since(begin) > 100*time.Second {
		t.Error("the run waited for a daemon")
	}
}

func testManyAtOnce(t *testing.T, f *Fixture) {
	f.Spec.Mounts.Overlays = nil
	f.Spec.Workdir = "/"
	results := make(chan string, 8)
	for i := range cap(results) {
		go func() {
			var out bytes.Buffer
			s := f.Spec
			s.Args = []string{"echo", strconv.Itoa(i)}
			if _, err := f.Run(t.Context(), s, driver.Stdio{Out: &out}); err != nil {
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
