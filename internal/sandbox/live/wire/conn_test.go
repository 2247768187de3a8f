package wire

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/api/execwire/execwiretest"
)

// newConn returns one end of a pair of sockets.
func newConn(t *testing.T, fd int) *frameConn {
	t.Helper()
	file := os.NewFile(uintptr(fd), "pair")
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		t.Fatalf("a connection of %T", c)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &frameConn{UnixConn: conn, in: newFrameReader(conn)}
}

// TestTransport runs the suite of transports on the supervisor's socket.
func TestTransport(t *testing.T) {
	t.Parallel()
	execwiretest.Run(t, func(t *testing.T) execwiretest.Pair {
		t.Helper()
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		return execwiretest.Pair{
			Caller: newConn(t, fds[0]), Host: newConn(t, fds[1]), Window: window,
			Exit: execwire.Frame{Kind: execwire.Exit, Data: []byte("{}")},
		}
	})
}

// TestSignals: each signal of Linux has a name or a number that means it.
func TestSignals(t *testing.T) {
	t.Parallel()
	for n := 1; n <= maxSignal; n++ {
		if got := signalNumber(signalName(n)); got != n {
			t.Errorf("signal %d is %q, which is %d", n, signalName(n), got)
		}
	}
	if n := signalNumber("NONE"); n != 0 {
		t.Error(n)
	}
}
