package wire_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

// killClient starts a client process, lets its command print a line, and kills
// the client.
func killClient(t *testing.T, f *fixture, script string) (session string) {
	t.Helper()
	cmd := child(t, envClient, f.path, script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe() // stays open: the end of input would be no crash
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	id, err := lines.ReadString('\n')
	if err == nil {
		_, err = lines.ReadString('\n')
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	id = strings.TrimSpace(id)
	f.abandoned(id)
	return id
}

func TestClientKilled(t *testing.T) {
	t.Parallel()
	patient := serve(t, &realHost{}, wire.Options{Grace: time.Minute})
	hasty := serve(t, &realHost{}, wire.Options{Grace: 50 * time.Millisecond})
	file := filepath.Join(t.TempDir(), "hup")
	for _, c := range []struct {
		name, script string
		exit         wire.Exit
	}{
		{"plain", "echo ready; exec sleep 1000", wire.Exit{Code: 129, Signal: 1, Killed: true}},
		{"handles it", "trap 'echo hup > " + file + "; exit 4' HUP; echo ready; while :; do sleep 0.02; done", wire.Exit{Code: 4, Killed: true}},
		{"ignores it", "trap '' HUP; echo ready; while :; do sleep 0.02; done", wire.Exit{Code: 137, Signal: 9, Killed: true}},
		{"prints", "echo ready; exec yes", wire.Exit{Code: 129, Signal: 1, Killed: true}},
		{"detachable", ": detachable; echo ready; sleep 0.2; exit 6", wire.Exit{Code: 6}},
		{"detachable prints", ": detachable; echo ready; yes | head -c 1000000; exit 6", wire.Exit{Code: 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := patient
			if c.exit.Signal == int(syscall.SIGKILL) {
				f = hasty
			}
			id := killClient(t, f, c.script)
			exit, err := f.Attach(t.Context(), id, api.WindowSize{}, wire.Streams{}, wire.Control{})
			if err != nil || exit != c.exit {
				t.Errorf("%+v, %v; want %+v", exit, err, c.exit)
			}
			if c.name == "handles it" {
				if b, err := os.ReadFile(file); string(b) != "hup\n" {
					t.Errorf("%q, %v", b, err)
				}
			}
		})
	}
}

// Leave a terminal by its keys, find it again, and see the end of what was
// printed meanwhile.
func TestDetachAndAttach(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	f := serve(t, &realHost{}, wire.Options{ReplayBytes: 1 << 10})
	in, keys := io.Pipe()
	out := newUntil(ctx, t)
	var id string
	go func() {
		out.await("ready")
		_, _ = keys.Write([]byte("one\r\x10x\r"))
		out.await("got one")
		_, _ = keys.Write([]byte{0x10})
		_, _ = keys.Write([]byte{0x11})
	}()
	cmd := sh("stty -echo; echo ready; while read l; do echo got $l; [ \"$l\" = more ] && yes | head -c 5000; [ \"$l\" = end ] && exit 9; done")
	cmd.TTY, cmd.Detachable = true, true
	_, err := f.Exec(ctx, cmd, wire.Streams{In: execwire.DetachKeys(in), Out: out},
		wire.Control{Started: func(s wire.Session) { id = s.ID }})
	if !errors.Is(err, wire.ErrDetached) {
		t.Fatal(err)
	}
	list, err := f.Sessions(ctx)
	if err != nil || len(list) != 1 || list[0].ID != id || !list[0].Running() || !list[0].TTY || !list[0].Detachable {
		t.Fatalf("%+v, %v", list, err)
	}

	in, keys = io.Pipe()
	again := newUntil(ctx, t)
	go func() {
		again.await("got one\r\n")
		again.await("got \x10x\r\n")
		_, _ = keys.Write([]byte("more\r"))
		again.await(strings.Repeat("y\r\n", 2500))
		_, _ = keys.Write([]byte("end\r"))
	}()
	exit, err := f.Attach(ctx, id, api.WindowSize{}, wire.Streams{In: in, Out: again}, wire.Control{})
	want(t, 9, exit, err)

	var last bytes.Buffer
	exit, err = f.Attach(ctx, id, api.WindowSize{}, wire.Streams{Out: &last}, wire.Control{})
	want(t, 9, exit, err)
	if all := again.String(); last.Len() != 1<<10 || !strings.HasSuffix(all, last.String()) {
		t.Errorf("replay of %d bytes: %q", last.Len(), last.String())
	}
}

// TestVisits: the host is told who joins a command, and how much a client typed that came
// to type a message. What those type who share the keyboard is not counted.
func TestVisits(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	told := make(chan string, 10)
	f := serve(t, &realHost{}, wire.Options{
		Attached: func(string) { told <- "attached" },
		Typed:    func(_ string, n int) { told <- "typed " + strconv.Itoa(n) },
	})
	in, keys := io.Pipe()
	out := newUntil(ctx, t)
	go func() {
		out.await("ready")
		_, _ = keys.Write([]byte{0x10, 0x11})
	}()
	cmd := sh("stty -echo; echo ready; while read l; do echo got $l; done")
	cmd.TTY, cmd.Detachable = true, true
	var id string
	if _, err := f.Exec(ctx, cmd, wire.Streams{In: execwire.DetachKeys(in), Out: out}, wire.Control{Started: func(s wire.Session) { id = s.ID }}); !errors.Is(err, wire.ErrDetached) {
		t.Fatal(err)
	}
	visit := func(k api.Keyboard, text string) {
		t.Helper()
		in := io.MultiReader(strings.NewReader(text), iotest.ErrReader(wire.ErrDetached))
		if _, err := f.Attach(ctx, id, api.WindowSize{}, wire.Streams{In: in}, wire.Control{Keyboard: k}); !errors.Is(err, wire.ErrDetached) {
			t.Fatal(err)
		}
	}
	visit(api.KeyboardSend, "message\r")
	if got := <-told; got != "typed 8" {
		t.Errorf("after a message: %s", got)
	}
	visit(api.KeyboardShare, "shared\r")
	if got := <-told; got != "attached" {
		t.Errorf("of one who shares the keyboard: %s", got)
	}
	visit("", "alone\r")
	for _, want := range []string{"attached", "typed 6"} {
		if got := <-told; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Two clients see the same and both may type; the last size counts.
func TestTwoClients(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	f := serve(t, &realHost{}, wire.Options{})
	cmd := sh("stty -echo; echo ready; while read l; do echo got $l $(stty size); [ \"$l\" = end ] && exit 0; done")
	cmd.TTY, cmd.Size = true, api.WindowSize{Rows: 10, Cols: 20}
	in1, keys1 := io.Pipe()
	in2, keys2 := io.Pipe()
	out1, out2 := newUntil(ctx, t), newUntil(ctx, t)
	ids, ends := make(chan string, 1), make(chan error, 2)
	resize1 := make(chan api.WindowSize)
	go func() {
		_, err := f.Exec(ctx, cmd, wire.Streams{In: in1, Out: out1},
			wire.Control{Resize: resize1, Started: func(s wire.Session) { ids <- s.ID }})
		ends <- err
	}()
	id := <-ids
	go func() {
		_, err := f.Attach(ctx, id, api.WindowSize{Rows: 11, Cols: 21}, wire.Streams{In: in2, Out: out2}, wire.Control{})
		ends <- err
	}()
	out2.await("ready")
	for _, step := range []struct {
		keys *io.PipeWriter
		text string
		want string
	}{
		{keys1, "first\r", "got first"},
		{keys2, "second\r", "got second"},
		{keys2, "size\r", "11 21"},
		{nil, "", ""},
		{keys2, "size\r", "12 22"},
		{keys1, "end\r", "got end"},
	} {
		if step.keys == nil {
			// When the second is taken, the first has been sent, and what the same
			// connection carries next proves that it was obeyed.
			resize1 <- api.WindowSize{Rows: 12, Cols: 22}
			resize1 <- api.WindowSize{Rows: 12, Cols: 22}
			_, _ = keys1.Write([]byte("resized\r"))
			out2.await("got resized")
			continue
		}
		_, _ = step.keys.Write([]byte(step.text))
		out1.await(step.want)
		out2.await(step.want)
	}
	for range 2 {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
}

// TestOneTypist: of the clients that share the keyboard the first one types, and one
// that takes it becomes the first. The others watch, and the terminal has the size of
// the one that types.
func TestOneTypist(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	f := serve(t, &realHost{}, wire.Options{})
	cmd := sh("stty -echo; echo ready; while read l; do echo got $l $(stty size); [ \"$l\" = end ] && exit 0; done")
	cmd.TTY, cmd.Detachable, cmd.Main, cmd.Size = true, true, true, api.WindowSize{Rows: 10, Cols: 20}
	ids, ends := make(chan string, 1), make(chan error, 3)
	var keys [3]*io.PipeWriter
	var outs [3]*until
	join := func(i int, do func(wire.Streams) error) {
		var in *io.PipeReader
		in, keys[i] = io.Pipe()
		outs[i] = newUntil(ctx, t)
		go func() { ends <- do(wire.Streams{In: in, Out: outs[i]}) }()
	}
	types := func(i int, text, want string) {
		_, _ = keys[i].Write([]byte(text + "\r"))
		for _, out := range outs {
			if out != nil && want != "" {
				out.await(want)
			}
		}
	}
	join(0, func(s wire.Streams) error {
		_, err := f.Exec(ctx, cmd, s, wire.Control{Started: func(s wire.Session) { ids <- s.ID }})
		return err
	})
	id := <-ids
	if list, err := f.Sessions(ctx); err != nil || len(list) != 1 || !list[0].Main {
		t.Errorf("commands %+v, %v; the cell ends with this one", list, err)
	}
	attach := func(i int, k api.Keyboard) {
		join(i, func(s wire.Streams) error {
			_, err := f.Attach(ctx, id, api.WindowSize{Rows: 11, Cols: 20 + uint16(i)}, s, wire.Control{Keyboard: k})
			return err
		})
		outs[i].await("ready")
	}
	attach(1, api.KeyboardShare)
	types(1, "lost", "")
	types(0, "size", "got size 10 20")
	attach(2, api.KeyboardTake)
	types(0, "lost", "")
	types(2, "size", "got size 11 22")
	taker := outs[2]

	// Whoever gets the keyboard because another client left gets the size, too. The host
	// sets it a moment after the client has left.
	leave := func(i, next, remaining int, size string) {
		_ = keys[i].CloseWithError(wire.ErrDetached)
		if err := <-ends; !errors.Is(err, wire.ErrDetached) {
			t.Errorf("client %d left: %v", i, err)
		}
		outs[i] = nil
		f.attached(id, remaining)
		for n := 0; !strings.Contains(outs[next].String(), size) && n < 10_000; n++ {
			line := fmt.Sprintf("line %d of %d", n, next)
			types(next, line, "got "+line)
		}
		if !strings.Contains(outs[next].String(), size) {
			t.Errorf("after client %d left, the size of client %d never comes", i, next)
		}
	}
	leave(2, 0, 2, "of 0 10 20")
	leave(0, 1, 1, "of 1 11 21")
	types(1, "end", "got end")
	if err := <-ends; err != nil {
		t.Error(err)
	}
	if text := taker.String(); strings.Contains(text, "lost") {
		t.Errorf("one who watches typed: %q", text)
	}
}

// One client that reads nothing cannot keep the others from reading for ever.
func TestStalledClientIsDropped(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{StallLimit: 2 * time.Second})
	_, stuck := io.Pipe()
	ids, lost := make(chan string, 1), make(chan error, 1)
	in, keys := io.Pipe()
	go func() {
		_, err := f.Exec(t.Context(), sh("read l; head -c 3000000 /dev/zero; exit 3"), wire.Streams{In: in, Out: stuck},
			wire.Control{Started: func(s wire.Session) { ids <- s.ID }})
		lost <- err
	}()
	n := &count{}
	exit, err := f.Attach(t.Context(), <-ids, api.WindowSize{}, wire.Streams{Out: n},
		wire.Control{Started: func(wire.Session) { go keys.Write([]byte("go\n")) }})
	want(t, 3, exit, err)
	if n.n != 3000000 {
		t.Errorf("%d bytes", n.n)
	}
	_ = stuck.Close()
	if err := <-lost; !errors.Is(err, wire.ErrLost) {
		t.Errorf("the stalled client: %v", err)
	}
}

type count struct{ n int }

func (c *count) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func TestEndedSessions(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{KeepSessions: 3})
	for i := range 5 {
		exit, err := f.Exec(t.Context(), sh(fmt.Sprintf("echo %d; exit %d", i, i)), wire.Streams{}, wire.Control{})
		want(t, i, exit, err)
	}
	var out bytes.Buffer
	exit, err := f.Attach(t.Context(), "exec_4", api.WindowSize{}, wire.Streams{Out: &out}, wire.Control{})
	want(t, 3, exit, err)
	if out.String() != "3\n" {
		t.Errorf("replay %q", out.String())
	}
	_, err = f.Attach(t.Context(), "exec_1", api.WindowSize{}, wire.Streams{}, wire.Control{})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Kind != api.NotFound {
		t.Errorf("a forgotten session: %v", err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	f := serve(t, &realHost{}, wire.Options{MaxSessions: 2, MaxConnections: 3})
	for range 10 { // a place is free as soon as the exit is known
		exit, err := f.Exec(t.Context(), sh("exit 0"), wire.Streams{}, wire.Control{})
		want(t, 0, exit, err)
	}
	started, ends := make(chan string), make(chan wire.Exit)
	start := func() {
		exit, err := f.Exec(t.Context(), sh("exec sleep 1000"), wire.Streams{}, wire.Control{Started: func(s wire.Session) { started <- s.ID }})
		if err != nil {
			t.Error(err)
		}
		ends <- exit
	}
	// What does not start must end the test, not hold it.
	begun := func() string {
		t.Helper()
		select {
		case id := <-started:
			return id
		case exit := <-ends:
			t.Fatalf("ended without a start: %+v", exit)
			return ""
		}
	}
	go start()
	first := begun()
	go start()
	begun()
	_, err := f.Exec(t.Context(), sh("exit 0"), wire.Streams{}, wire.Control{})
	busy(t, err)

	// A third connection is the last.
	go func() {
		exit, err := f.Attach(t.Context(), first, api.WindowSize{}, wire.Streams{}, wire.Control{Started: func(s wire.Session) { started <- s.ID }})
		if err != nil {
			t.Error(err)
		}
		ends <- exit
	}()
	begun()
	_, err = f.Sessions(t.Context())
	busy(t, err)
	f.cancel()
	for range 3 {
		if exit := <-ends; exit.Signal != int(syscall.SIGKILL) {
			t.Errorf("%+v", exit)
		}
	}
}

func busy(t *testing.T, err error) {
	t.Helper()
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Kind != api.Busy {
		t.Errorf("%v, want a refusal as busy", err)
	}
}

func TestDetachKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, out string
		err     error
	}{
		{"", "", nil},
		{"abc", "abc", nil},
		{"a\x10b\x11", "a\x10b\x11", nil},
		{"a\x10", "a\x10", nil},
		{"a\x10\x10\x10b", "a\x10\x10\x10b", nil},
		{"a\x10\x11b", "a", wire.ErrDetached},
		{"\x10\x10\x11", "\x10", wire.ErrDetached},
		{"\x11\x10\x11", "\x11", wire.ErrDetached},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.in), oneByte{strings.NewReader(c.in)}} {
			out, err := io.ReadAll(execwire.DetachKeys(r))
			if string(out) != c.out || !errors.Is(err, c.err) {
				t.Errorf("%q gives %q, %v; want %q, %v", c.in, out, err, c.out, c.err)
			}
		}
	}
}

type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 1)]) }
