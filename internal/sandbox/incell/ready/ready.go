// Package ready is the cell's end of a wait: it ends when something in the cell is
// ready.
//
// It runs in a cell like any command, under the same controls. It knows nothing about
// cells or the host.
package ready

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// Verb is the first argument that selects Main.
const Verb = "await"

// Notify is the condition that a program sends READY=1 to the socket in Variable.
const (
	Notify   = "notify"
	Variable = "NOTIFY_SOCKET=" + socket
	socket   = "@forkcell-ready" // an abstract name, which leaves no file
)

// The exit codes of Main.
const (
	Done   = 0
	Failed = 1
)

// pollTime is the time between two looks at a file or a port.
const pollTime = 20 * time.Millisecond

// Main waits until a condition holds: "await port:N", "await file:PATH" or "await
// notify". It prints an empty line when it has begun to wait.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	holds, err := begin(args)
	if err == nil {
		fmt.Fprintln(stdout)
		err = holds(ctx)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return Failed
	}
	return Done
}

// begin returns a function that waits for the condition. What is sent to a socket from
// now on counts.
func begin(args []string) (holds func(context.Context) error, err error) {
	if len(args) != 2 || args[0] != Verb {
		return nil, errors.New("usage: await port:N|file:PATH|notify")
	}
	kind, what, _ := strings.Cut(args[1], ":")
	switch kind {
	case "port":
		return polling(func() bool { return listens(what) }), nil
	case "file":
		return polling(func() bool { return readable(what) }), nil
	case Notify:
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			return nil, err
		}
		return func(context.Context) error { return waitNotified(conn) }, nil
	}
	return nil, fmt.Errorf("unknown condition %q", args[1])
}

// polling returns a function that looks again and again.
func polling(is func() bool) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(pollTime)
		defer tick.Stop()
		for !is() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
}

// listens reports whether a port of the loopback takes connections.
func listens(port string) bool {
	for _, host := range []string{"127.0.0.1", "::1"} {
		if conn, err := net.Dial("tcp", net.JoinHostPort(host, port)); err == nil {
			_ = conn.Close()
			return true
		}
	}
	return false
}

// readable reports whether a file can be read. A FIFO is not opened: that could wait.
func readable(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return err == nil
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// waitNotified waits until a message has the line READY=1.
func waitNotified(conn *net.UnixConn) error {
	defer conn.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(buf[:n]) {
			if string(bytes.TrimRight(line, "\n")) == "READY=1" {
				return nil
			}
		}
	}
}
