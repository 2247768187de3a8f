package gvisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/frames"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// puppet is a cell in which a function speaks in place of the guest. It ends with the
// cell.
type puppet struct {
	driver.Cell
	guest  func(*frames.Conn)
	ended  chan struct{}
	closed sync.Once
}

func (*puppet) Controls() driver.Controls { return driver.Controls{} }

func (p *puppet) Exec(_ context.Context, _ driver.Command, stdio driver.Stdio) (driver.Outcome, error) {
	go p.guest(frames.New(stdio.In, stdio.Out, frames.MaxToGuest))
	<-p.ended
	return driver.Outcome{}, nil
}

func (p *puppet) Close() error {
	p.closed.Do(func() { close(p.ended) })
	return nil
}

// hostile calls a test with a cell whose guest answers as it likes. The time in it goes
// as fast as nothing else happens.
func hostile(t *testing.T, guest func(*frames.Conn), test func(*testing.T, *Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(&puppet{guest: guest, ended: make(chan struct{})}, &plan{})
		test(t, c)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// silent reads what it is told, and never answers.
func silent(c *frames.Conn) {
	for {
		if _, err := c.Read(); err != nil {
			return
		}
	}
}

// deaf does not even read.
func deaf(*frames.Conn) {}

// TestSilentGuest: a guest that does not answer holds nobody who asks it.
func TestSilentGuest(t *testing.T) {
	t.Parallel()
	for name, guest := range map[string]func(*frames.Conn){"silent": silent, "deaf": deaf} {
		for what, ask := range map[string]func(context.Context, *Cell) error{
			"processes": func(_ context.Context, c *Cell) error { _, err := c.Processes(); return err },
			"terminate": func(_ context.Context, c *Cell) error { _, err := c.Terminate(time.Second); return err },
			"hold":      func(ctx context.Context, c *Cell) error { return c.quiesce(ctx) },
			"exec": func(ctx context.Context, c *Cell) error {
				_, err := c.Exec(ctx, driver.Command{Args: []string{"true"}, Workdir: "/"}, driver.Stdio{})
				return err
			},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				hostile(t, guest, func(t *testing.T, c *Cell) {
					if err := ask(t.Context(), c); !errors.Is(err, errSilent) {
						t.Error(err)
					}
				})
			})
		}
	}
}

// fakeFile is a cell around a guest that has a file in the place of each.
type fakeFile struct {
	puppet
	path string
}

func (f *fakeFile) Open(string) (*os.File, error) { return os.Open(f.path) }

// TestHugeImage: what a guest was saved to has the size that whoever controls the runtime
// gives it. A hole of terabytes is not written out.
func TestHugeImage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for size, kept := range map[int64]bool{1 << 20: true, 8 << 40: false} {
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, strconv.FormatInt(size, 10))
		if err := os.WriteFile(from, []byte("pages"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(from, size); err != nil {
			t.Skipf("this file system has no files of that size: %v", err)
		}
		c := &Cell{outer: &fakeFile{path: from}, plan: &plan{}}
		n, err := c.keepFile("pages.img", to)
		if info, _ := os.Stat(to); kept != (err == nil) || kept && n != size || !kept && info != nil {
			t.Errorf("%d bytes: kept %d, %v", size, n, err)
		}
	}
}

// endless says that a command has started and ended, and sends output as long as the
// other side takes it.
func endless(c *frames.Conn) {
	var output *frames.Sender
	for {
		f, err := c.Read()
		if err != nil {
			output.Stop()
			return
		}
		var o protocol.Order
		switch {
		case f.Kind == frames.Taken:
			n, _ := frames.ReadNumber(f.Data)
			_ = output.Taken(n)
		case f.Kind == frames.Order && protocol.Decode(f.Data, &o) == nil && o.Exec != nil:
			output = frames.NewSender(c, uint32(o.Exec.ID), frames.Out)
			for _, kind := range []string{protocol.Started, protocol.Exited} {
				_ = c.Write(frames.Frame{Kind: frames.Report, Data: protocol.Encode(&protocol.Report{Exec: o.Exec.ID, Kind: kind})})
			}
			go output.Copy(zeros{})
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// slow takes time for what it is given, so that the guest is ahead of it.
type slow struct{}

func (slow) Write(p []byte) (int, error) {
	<-time.After(100 * time.Millisecond)
	return len(p), nil
}

// TestEndlessOutput: a guest that sends output without end, of a command of which it has
// said that it ended, holds the caller for a time only.
func TestEndlessOutput(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]bool{"exec": false, "run": true} {
		t.Run(name, func(t *testing.T) {
			hostile(t, endless, func(t *testing.T, c *Cell) {
				begin := time.Now()
				out, err := command(t, c, driver.Command{}, driver.Stdio{Out: slow{}}, last)
				if took := time.Since(begin); err != nil || out.Killed || took > 2*answerTime {
					t.Errorf("%v after %v: %v", out, took, err)
				}
			})
		})
	}
}

// command has a command executed.
func command(t *testing.T, c *Cell, cmd driver.Command, stdio driver.Stdio, last bool) (out driver.Outcome, err error) {
	t.Helper()
	e, err := c.order(cmd, stdio, last)
	if err == nil {
		err = e.awaitStarted(t.Context())
	}
	if err == nil {
		e.serve(t.Context(), &out)
	}
	return out, err
}

// immortal says that a command has started, and nothing more.
func immortal(c *frames.Conn) {
	for {
		f, err := c.Read()
		if err != nil {
			return
		}
		var o protocol.Order
		if f.Kind == frames.Order && protocol.Decode(f.Data, &o) == nil && o.Exec != nil {
			_ = c.Write(frames.Frame{Kind: frames.Report, Data: protocol.Encode(&protocol.Report{Exec: o.Exec.ID, Kind: protocol.Started})})
		}
	}
}

// TestUnkillable: a command that its guest does not end has timed out nevertheless.
func TestUnkillable(t *testing.T) {
	t.Parallel()
	hostile(t, immortal, func(t *testing.T, c *Cell) {
		out, err := command(t, c, driver.Command{Timeout: time.Second}, driver.Stdio{}, false)
		if err != nil || !out.TimedOut {
			t.Errorf("%+v, %v", out, err)
		}
	})
}
