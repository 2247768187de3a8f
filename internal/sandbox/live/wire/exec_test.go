package wire_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

func TestExec(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{})
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		cmd      wire.Command
		in       string
		out, err string
		exit     wire.Exit
		fails    error
	}{
		{name: "output", cmd: sh("echo out; echo err >&2"), out: "out\n", err: "err\n"},
		{name: "exit code", cmd: sh("exit 7"), exit: wire.Exit{Code: 7}},
		{name: "signal", cmd: sh("kill -TERM $$"), exit: wire.Exit{Code: 143, Signal: 15}},
		{name: "input ends", cmd: sh("wc -c"), in: "hello", out: "5\n"},
		{name: "empty input", cmd: sh("wc -c"), out: "0\n"},
		{name: "no input", cmd: wire.Command{Args: []string{"/bin/cat"}}, in: "not seen"},
		{name: "input unread", cmd: sh("exec 0<&-; echo x"), in: strings.Repeat("y", 1<<20), out: "x\n"},
		{name: "binary", cmd: sh("cat"), in: "\x00\xff\x1b\r\n\x03", out: "\x00\xff\x1b\r\n\x03"},
		{
			name: "binary arguments", out: "\xff\xfe|é|v\x80\n",
			cmd: wire.Command{Args: []string{"/bin/sh", "-c", `echo "$1|$2|$X"`, "sh", "\xff\xfe", "é"}, Env: []string{"X=v\x80"}},
		},
		{name: "workdir", cmd: wire.Command{Args: []string{"/bin/pwd"}, Workdir: "/dev"}, out: "/dev\n"},
		{
			name: "time-out", cmd: wire.Command{Args: []string{"/bin/sleep", "100"}, Timeout: 50 * time.Millisecond},
			exit: wire.Exit{Code: 137, Signal: 9, TimedOut: true},
		},
		{
			name: "not found", cmd: wire.Command{Args: []string{"/no/such"}},
			fails: &wire.StartError{Step: "exec", Message: "fork/exec /no/such: no such file or directory", NotFound: true},
		},
		{
			name: "not executable", cmd: wire.Command{Args: []string{plain}},
			fails: &wire.StartError{Step: "exec", Message: "fork/exec " + plain + ": permission denied", NotExecutable: true},
		},
		{name: "no command", fails: &api.Error{Kind: api.Usage, Code: api.CodeUsage, Message: "exec: no command"}},
		{
			name: "zero byte", cmd: wire.Command{Args: []string{"a\x00b"}},
			fails: &api.Error{Kind: api.Usage, Code: api.CodeUsage, Message: `exec: a zero byte in "a\x00b"`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			exit, err := f.Exec(t.Context(), c.cmd, wire.Streams{In: strings.NewReader(c.in), Out: &out, Err: &errs}, wire.Control{})
			if diff := cmp.Diff(c.fails, err); diff != "" {
				t.Fatalf("error (-want +got):\n%s", diff)
			}
			if exit != c.exit || out.String() != c.out || errs.String() != c.err {
				t.Errorf("exit %+v, %q, %q; want %+v, %q, %q", exit, out.String(), errs.String(), c.exit, c.out, c.err)
			}
		})
	}
}

// Many commands at once, each with its own data in both directions.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const commands, size = 64, 256<<10 + 12345
	f := serve(t, &realHost{}, wire.Options{})
	var wg sync.WaitGroup
	for i := range commands {
		wg.Go(func() {
			data := make([]byte, size)
			r := rand.NewChaCha8([32]byte{byte(i)})
			_, _ = r.Read(data)
			got := sha256.New()
			exit, err := f.Exec(t.Context(), wire.Command{Args: []string{"/bin/cat"}, Stdin: true},
				wire.Streams{In: bytes.NewReader(data), Out: got}, wire.Control{})
			if err != nil || exit.Code != 0 {
				t.Errorf("command %d: %+v, %v", i, exit, err)
			}
			if want := sha256.Sum256(data); !bytes.Equal(got.Sum(nil), want[:]) {
				t.Errorf("command %d: other bytes came back", i)
			}
		})
	}
	wg.Wait()
}

// The exit comes after the last byte of output, of both streams.
func TestExitComesLast(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{ReplayBytes: 4 << 10})
	var out, errs bytes.Buffer
	exit, err := f.Exec(t.Context(), sh("yes | head -c 3000000; yes 2>/dev/null | head -c 1000001 >&2; exit 3"),
		wire.Streams{Out: &out, Err: &errs}, wire.Control{})
	want(t, 3, exit, err)
	if out.Len() != 3000000 || errs.Len() != 1000001 {
		t.Errorf("%d and %d bytes", out.Len(), errs.Len())
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A signal is not stuck behind input that the command does not read.
func TestSignalPassesInput(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{})
	signals := make(chan int, 1)
	ctx := patient(t)
	out := newUntil(ctx, t)
	go func() {
		out.await("ready")
		signals <- int(syscall.SIGTERM)
	}()
	exit, err := f.Exec(ctx, sh("echo ready; exec sleep 1000"), wire.Streams{In: zeros{}, Out: out}, wire.Control{Signals: signals})
	want(t, 143, exit, err)
}

// A client whose own output is closed closes the command's.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{})
	r, w := io.Pipe()
	_ = r.Close()
	exit, err := f.Exec(t.Context(), wire.Command{Args: []string{"yes"}}, wire.Streams{Out: w}, wire.Control{})
	if err != nil || exit.Signal != int(syscall.SIGPIPE) && exit.Code != 1 {
		t.Errorf("%+v, %v", exit, err)
	}
	var errs bytes.Buffer
	exit, err = f.Exec(t.Context(), sh("(yes || :) 2>/dev/null; echo still here >&2"), wire.Streams{Out: w, Err: &errs}, wire.Control{})
	want(t, 0, exit, err)
	if errs.String() != "still here\n" {
		t.Errorf("stderr %q", errs.String())
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{})
	ctx := patient(t)
	in, keys := io.Pipe()
	defer keys.Close()
	resize := make(chan api.WindowSize)
	out := newUntil(ctx, t)
	cmd := wire.Command{
		Args: []string{"/bin/bash", "-c", "stty noflsh; trap 'stty size' WINCH; trap 'echo interrupted; exit 5' INT; stty size; echo ready; while :; do sleep 0.02; done"},
		TTY:  true, Size: api.WindowSize{Rows: 33, Cols: 77}, Stdin: true,
	}
	go func() {
		out.await("33 77\r\nready\r\n")
		resize <- api.WindowSize{Rows: 24, Cols: 101}
		out.await("24 101\r\n")
		// Bash ignores an interrupt that comes while its child ends.
		for ; ; <-time.After(2 * time.Second) {
			if _, err := keys.Write([]byte{3}); err != nil {
				return
			}
		}
	}()
	exit, err := f.Exec(ctx, cmd, wire.Streams{In: in, Out: out}, wire.Control{Resize: resize})
	want(t, 5, exit, err)
	if !strings.Contains(out.String(), "interrupted") {
		t.Errorf("%q", out.String())
	}
}

// A client that reads nothing delays its own command and no other, and
// costs the server no memory.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{})
	stuck, release := io.Pipe()
	started := make(chan wire.Session, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := f.Exec(ctx, wire.Command{Args: []string{"yes"}}, wire.Streams{Out: release},
			wire.Control{Started: func(s wire.Session) { started <- s }})
		done <- err
	}()
	id := (<-started).ID
	for range 5 {
		var out bytes.Buffer
		exit, err := f.Exec(t.Context(), sh("head -c 300000 /dev/zero"), wire.Streams{Out: &out}, wire.Control{})
		want(t, 0, exit, err)
		if out.Len() != 300000 {
			t.Fatalf("%d bytes", out.Len())
		}
	}
	list, err := f.Sessions(t.Context())
	if err != nil || list[0].ID != id || !list[0].Running() || list[0].Output > 2<<20 || list[0].Kept > 256<<10 {
		t.Errorf("%+v, %v", list[0], err)
	}
	cancel()
	f.abandoned(id)
	_ = stuck.Close() // not before, or the client would still say that its output is closed
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled client: %v", err)
	}
	exit, err := f.Attach(t.Context(), id, api.WindowSize{}, wire.Streams{}, wire.Control{})
	if err != nil || !exit.Killed || exit.Signal != int(syscall.SIGHUP) {
		t.Errorf("its command: %+v, %v", exit, err)
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	h := &realHost{}
	f := serve(t, h, wire.Options{})
	got, err := f.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, _ := h.Processes(t.Context())
	if diff := cmp.Diff(list, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A client that has received the exit of its command is no longer counted.
func TestNobodyStays(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{})
	for range 30 {
		exit, err := f.Exec(t.Context(), sh("exit 0"), wire.Streams{}, wire.Control{})
		want(t, 0, exit, err)
		list, err := f.Sessions(t.Context())
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		if last := list[len(list)-1]; last.Clients != 0 {
			t.Fatalf("%+v", last)
		}
	}
}
