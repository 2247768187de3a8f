package ready

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// waiter runs Main, and returns when it has begun to wait.
func waiter(t *testing.T, when string) (code <-chan int) {
	t.Helper()
	ended, from, to := make(chan int, 1), io.Reader(nil), io.Writer(nil)
	from, to = io.Pipe()
	go func() { ended <- Main(t.Context(), []string{Verb, when}, to, io.Discard) }()
	if _, err := from.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	select {
	case c := <-ended:
		t.Fatalf("%s: ended with %d before it was ready", when, c)
	default:
	}
	return ended
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "made")
	ended := waiter(t, "file:"+path)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := <-ended; c != Done {
		t.Errorf("ended with %d", c)
	}
}

func TestPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if c := <-waiterOf(t, "port:"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port)); c != Done {
		t.Errorf("ended with %d", c)
	}
}

// waiterOf runs Main for something that is ready already.
func waiterOf(t *testing.T, when string) <-chan int {
	t.Helper()
	ended := make(chan int, 1)
	go func() { ended <- Main(t.Context(), []string{Verb, when}, io.Discard, io.Discard) }()
	return ended
}

func TestNotify(t *testing.T) {
	t.Parallel()
	ended := waiter(t, Notify)
	conn, err := net.Dial("unixgram", strings.TrimPrefix(Variable, "NOTIFY_SOCKET="))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, text := range []string{"STATUS=READY=1", "READY=10\n", "STATUS=loading\nREADY=1\n"} {
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if c := <-ended; c != Done {
		t.Errorf("ended with %d", c)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {Verb}, {Verb, ""}, {Verb, "other"}, {"dial", "port:1"}, {Verb, "notify", "more"}} {
		var said bytes.Buffer
		if c := Main(t.Context(), args, io.Discard, &said); c != Failed || said.Len() == 0 {
			t.Errorf("%q: %d, %s", args, c, &said)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c := Main(ctx, []string{Verb, "file:/nonexistent"}, io.Discard, io.Discard); c != Failed {
		t.Errorf("after the end of its context: %d", c)
	}
}
