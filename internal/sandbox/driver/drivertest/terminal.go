package drivertest

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

func testTerminal(t *testing.T, f *Fixture) {
	f.Spec.TTY, f.Spec.Size = true, driver.WindowSize{Rows: 33, Cols: 77}
	script, expected := "test -t 0 && test -t 1 && test -t 2 && echo is a tty; stty size; echo x > /dev/tty", "is a tty\n33 77\nx"
	if f.suite.claims(Isolation) {
		script, expected = script+"; tty; ls -1 /dev/pts; stat -c %U $(tty)", expected+"\n/dev/pts/0\n0\nptmx\nsandbox"
	}
	stdout, _, out, err := f.Try(strings.NewReader(""), "/bin/sh", "-c", script)
	if err != nil || out.Code != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	lines := strings.ReplaceAll(stdout, "^D\b\b", "")
	Want(t, "terminal", strings.ReplaceAll(lines, "\r", ""), expected)

	stdout, _, out, err = f.Try(strings.NewReader("hello"), "cat")
	if err != nil || out.Code != 0 || !strings.Contains(stdout, "hello") {
		t.Errorf("input that ends: %+v, %v, %q", out, err, stdout)
	}
	stdout, _, out, err = f.Try(nil, "/bin/sh", "-c", "cat; echo done")
	if err != nil || out.Code != 0 || !strings.Contains(stdout, "done") {
		t.Errorf("no input: %+v, %v, %q", out, err, stdout)
	}
	stdout, _, out, err = f.Try(nil, "seq", "1", "20000")
	if err != nil || !strings.HasSuffix(stdout, "20000\r\n") {
		t.Errorf("much output: %+v, %v, %d bytes", out, err, len(stdout))
	}
}

func testTerminalInterruptAndResize(t *testing.T, f *Fixture) {
	r, w := io.Pipe()
	defer w.Close()
	s := f.Spec
	s.TTY, s.Timeout = true, 2*time.Minute
	resize := make(chan driver.WindowSize, 1)
	ended := make(chan struct{})
	defer close(ended)
	done := &trigger{text: "24 80", do: func() { go typeInterrupts(w, ended) }}
	screen := &trigger{text: "ready", do: func() { resize <- driver.WindowSize{Rows: 24, Cols: 80} }}
	s.Args = []string{"/bin/bash", "-c", "stty noflsh; trap 'stty size' WINCH; trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done"}
	out, err := f.Run(t.Context(), s, driver.Stdio{In: r, Out: io.MultiWriter(screen, done), Resize: resize})
	if err != nil || out.Code != 5 || !strings.Contains(done.seen.String(), "interrupted") {
		t.Errorf("%+v, %v, %q", out, err, done.seen.String())
	}
}

// typeInterrupts types Ctrl-C until the command has ended. Bash ignores one that comes
// while its child ends.
func typeInterrupts(keys io.Writer, ended <-chan struct{}) {
	again := time.NewTicker(2 * time.Second)
	defer again.Stop()
	for {
		if _, err := keys.Write([]byte{3}); err != nil {
			return
		}
		select {
		case <-again.C:
		case <-ended:
			return
		}
	}
}

func testExecTerminal(t *testing.T, f *Fixture) {
	c := f.Start()
	cmd := f.Command("tty; stty size; stty size < /dev/tty")
	cmd.TTY, cmd.Size = true, driver.WindowSize{Rows: 33, Cols: 101}
	for range 2 {
		var out bytes.Buffer
		o, err := c.Exec(t.Context(), cmd, driver.Stdio{Out: &out})
		// The kernel gives a number away again when it comes to it.
		rest, is := strings.CutPrefix(out.String(), "/dev/pts/")
		number, sizes, _ := strings.Cut(rest, "\r\n")
		if _, bad := strconv.Atoi(number); err != nil || o.Code != 0 || !is || bad != nil || sizes != "33 101\r\n33 101\r\n" {
			t.Fatalf("%+v, %v, %q", o, err, out.String())
		}
	}
}
