package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/daemon"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/rest"
)

// newServed starts a daemon with a configuration that the command line cannot give.
func newServed(t *testing.T, configure func(*rest.Config)) *testDaemon {
	t.Helper()
	d := newDaemon(t)
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	engine, release, err := local.Open(d.home, local.Serve, caller.Caller{Actor: func() string { return "daemon" }})
	if err != nil {
		t.Fatal(err)
	}
	c := rest.Config{
		Engine: func(c caller.Caller) rest.Engine { return engine.As(c) }, Tokens: engine.Tokens(),
		UserName: func(int) string { return "tester" },
	}
	configure(&c)
	l, err := rest.ListenUnix(filepath.Join(d.home, daemon.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- rest.New(c).Serve(ctx, l) }()
	d.stop = sync.OnceValue(func() error {
		d.client.CloseIdleConnections()
		cancel()
		return errors.Join(<-ended, release())
	})
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Error("the daemon ended with", err)
		}
	})
	return d
}

// raw sends a request as it is, and reads the answer. With half the connection takes
// no more bytes afterwards.
func (d *testDaemon) raw(half bool, format string, args ...any) reply {
	d.Helper()
	conn, err := net.Dial("unix", filepath.Join(d.home, daemon.SocketName))
	if err != nil {
		d.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, format, args...)
	if half {
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
			d.Fatal(err)
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, body}
}
