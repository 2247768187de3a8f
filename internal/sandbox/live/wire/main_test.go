package wire_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

// The test binary also plays a client and a supervisor, which tests kill or run
// as another user.
const (
	envClient = "FORKCELL_TEST_LIVE_CLIENT"
	envServer = "FORKCELL_TEST_LIVE_SERVER"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(envClient); path != "" {
		os.Exit(clientMain(path))
	}
	if path := os.Getenv(envServer); path != "" {
		os.Exit(serverMain(path))
	}
	// A hangup ends the commands of the tests also where nohup started them: a
	// signal that is handled is not ignored in what is executed.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(m.Run())
}

// clientMain runs the shell command of its first argument, and prints the
// session's id first.
func clientMain(path string) int {
	c := wire.NewClient(path, "child")
	cmd := sh(os.Args[1])
	cmd.Detachable = strings.HasPrefix(os.Args[1], ": detachable;")
	exit, err := c.Exec(context.Background(), cmd, wire.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
		wire.Control{Started: func(s wire.Session) { fmt.Println(s.ID) }})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if e, ok := errors.AsType[*api.Error](err); ok {
			fmt.Println(e.Code)
		}
		return 125
	}
	return exit.Code
}

func serverMain(path string) int {
	l, err := wire.Listen(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("listening")
	if err := wire.Serve(context.Background(), l, &realHost{}, wire.Options{UID: os.Geteuid()}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is this binary in another part.
func child(t *testing.T, part, path string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), part+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}
