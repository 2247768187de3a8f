package client_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
	"github.com/forkcell/forkcell/internal/front/local"
	_ "github.com/forkcell/forkcell/internal/sandbox/driver/first" // cells of these tests
)

// TestMain runs the tests and examples beside a real daemon, which is the default one.
func TestMain(m *testing.M) {
	if code, is := local.Helper(); is {
		os.Exit(code)
	}
	code, err := beside(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

// beside runs a function while a daemon serves an empty home.
func beside(run func() int) (code int, err error) {
	home, err := os.MkdirTemp("", "fc") // short: it holds a socket
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(home)
	if err := os.Setenv("FORKCELL_HOME", home); err != nil {
		return 1, err
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- daemon.Serve(ctx, home, api.ServeOptions{}, io.Discard, func([]string) error { close(ready); return nil })
	}()
	select {
	case <-ready:
		code = run()
		stop()
		return code, <-ended
	case err := <-ended:
		stop()
		return 1, err
	}
}

// connect returns a client of the daemon.
func connect(t *testing.T, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// project makes a directory with one file.
func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// removeAfter removes a cell, and those whose names begin with its name and a hyphen,
// when the test has ended: the next one may use the names.
func removeAfter(t *testing.T, c *client.Client, name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		for info, err := range c.Cells.List(ctx, client.CellFilter{}) {
			if err != nil {
				t.Error(err)
				return
			}
			if info.Name != name && !strings.HasPrefix(info.Name, name+"-") {
				continue
			}
			if cell, err := c.Cells.Get(ctx, info.Name); err != nil {
				t.Error(err)
			} else if err := cell.Remove(ctx, true); err != nil {
				t.Error(err)
			}
		}
	})
}

// newCell makes a cell from a new project, for the time of the test.
func newCell(t *testing.T, c *client.Client, name string) *client.Cell {
	t.Helper()
	removeAfter(t, c, name)
	cell, err := c.Cells.CreateFrom(t.Context(), project(t), client.CreateCell{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return cell
}
