package gvisor

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/frames"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// started tells the host that a command was executed.
func started(c *frames.Conn, id int) {
	_ = c.Write(frames.Frame{Kind: frames.Report, Data: protocol.Encode(&protocol.Report{Exec: id, Kind: protocol.Started})})
}

// ordered reads the next order.
func ordered(c *frames.Conn) (o protocol.Order) {
	if f, err := c.Read(); err == nil && f.Kind == frames.Order {
		_ = protocol.Decode(f.Data, &o)
	}
	return o
}

// TestLateStart: a command that starts when nobody waits for it any more is ended.
func TestLateStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit time.Duration
		want  error
	}{"given up": {2 * answerTime, errSilent}, "interrupted": {time.Second, context.DeadlineExceeded}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var last protocol.Order
			guest := func(c *frames.Conn) {
				o := ordered(c)
				<-time.After(3 * answerTime)
				if o.Exec != nil {
					started(c, o.Exec.ID)
				}
				last = ordered(c)
			}
			hostile(t, guest, func(t *testing.T, c *Cell) {
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				_, err := c.Exec(ctx, driver.Command{Args: []string{"true"}, Workdir: "/"}, driver.Stdio{})
				if !errors.Is(err, test.want) {
					t.Error(err)
				}
				<-time.After(4 * answerTime)
				synctest.Wait()
				if last.Signal != int(unix.SIGKILL) || last.To != 1 {
					t.Errorf("%+v", last)
				}
			})
		})
	}
}

// TestSignalsOfDeafGuest: signals and sizes that the guest does not read hold up neither
// the limit of time nor a kill.
func TestSignalsOfDeafGuest(t *testing.T) {
	t.Parallel()
	guest := func(c *frames.Conn) {
		if o := ordered(c); o.Exec != nil {
			started(c, o.Exec.ID)
		}
	}
	hostile(t, guest, func(t *testing.T, c *Cell) {
		signals, sizes := make(chan os.Signal, 2), make(chan driver.WindowSize, 1)
		signals <- unix.SIGINT
		signals <- unix.SIGINT
		sizes <- driver.WindowSize{Rows: 1, Cols: 1}
		stdio := driver.Stdio{Signals: signals, Resize: sizes}
		out, err := command(t, c, driver.Command{Timeout: time.Second}, stdio, false)
		if err != nil || !out.TimedOut {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

// TestDropped: the output of restored commands gets room again, told in few words however
// much has come; other commands get none.
func TestDropped(t *testing.T) {
	t.Parallel()
	const restored, piece, pieces = 5, 100, 50
	var told []uint32
	guest := func(c *frames.Conn) {
		<-time.After(time.Second)
		for range pieces {
			for _, id := range []uint32{restored, restored + 1} {
				_ = c.Write(frames.Frame{Kind: frames.Data, ID: id, Data: make([]byte, piece)})
			}
		}
		<-time.After(2 * time.Second) // all of it has been read
		for {
			f, err := c.Read()
			if err != nil {
				return
			}
			if n, err := frames.ReadNumber(f.Data); err == nil && f.Kind == frames.Taken && f.ID == restored {
				told = append(told, n)
			} else {
				told = append(told, 0)
			}
		}
	}
	hostile(t, guest, func(t *testing.T, c *Cell) {
		c.follow(restored)
		<-time.After(time.Minute)
		synctest.Wait()
		// What came before the first one was sent, and since then; or all at once.
		sum := uint32(0)
		for _, n := range told {
			sum += n
		}
		if len(told) > 2 || sum != pieces*piece {
			t.Errorf("%d bytes", told)
		}
	})
}

// TestFlood: a guest that sends more than it has room for is ended.
func TestFlood(t *testing.T) {
	t.Parallel()
	guest := func(c *frames.Conn) {
		<-time.After(time.Second)
		for c.Write(frames.Frame{Kind: frames.Data, ID: 1, Data: make([]byte, frames.Window)}) == nil {
		}
	}
	hostile(t, guest, func(t *testing.T, c *Cell) {
		c.follow(1)
		<-c.Gone()
	})
}

// TestHastyHold: an answer to a question that was not sent yet does not count.
func TestHastyHold(t *testing.T) {
	t.Parallel()
	guest := func(c *frames.Conn) {
		<-time.After(time.Second)
		_ = c.Write(frames.Frame{Kind: frames.Hold, ID: 1})
	}
	hostile(t, guest, func(t *testing.T, c *Cell) {
		if err := c.quiesce(t.Context()); !errors.Is(err, errSilent) {
			t.Error(err)
		}
	})
}

// TestDeafAfterHold: a guest that does not read on after it was saved holds nobody.
func TestDeafAfterHold(t *testing.T) {
	t.Parallel()
	guest := func(c *frames.Conn) {
		f, _ := c.Read()
		_ = c.Write(f)
	}
	hostile(t, guest, func(t *testing.T, c *Cell) {
		if err := c.quiesce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.speak(); !errors.Is(err, errSilent) {
			t.Error(err)
		}
	})
}

// TestLongSave: who asks while a guest is being saved waits for it, and only then for the
// answer. One that is never saved is given up.
func TestLongSave(t *testing.T) {
	t.Parallel()
	guest := func(c *frames.Conn) {
		for {
			f, err := c.Read()
			if err != nil {
				return
			}
			switch f.Kind {
			case frames.List:
				// Not slept: the cell may end before the answer.
				time.AfterFunc(answerTime-time.Second, func() {
					_ = c.Write(frames.Frame{Kind: f.Kind, ID: f.ID, Data: protocol.Encode(&protocol.GuestProcesses{})})
				})
			case frames.Hold:
				_ = c.Write(f)
			}
		}
	}
	for _, wait := range []struct {
		save time.Duration
		want error
	}{{5*answerTime + time.Second, nil}, {2 * longestPause, errSilent}} {
		hostile(t, guest, func(t *testing.T, c *Cell) {
			if err := c.quiesce(t.Context()); err != nil {
				t.Fatal(err)
			}
			asked := make(chan error, 1)
			go func() {
				_, err := c.Processes()
				asked <- err
			}()
			<-time.After(wait.save)
			if err := c.speak(); err != nil {
				t.Error(err)
			}
			if err := <-asked; !errors.Is(err, wait.want) {
				t.Errorf("saved for %v: %v", wait.save, err)
			}
		})
	}
}

// TestDeafAfterOutput: a guest that does not read that its output was taken holds the
// command's end for a time only, and nothing is written to the caller after it.
func TestDeafAfterOutput(t *testing.T) {
	t.Parallel()
	guest := func(c *frames.Conn) {
		o := ordered(c)
		if o.Exec == nil {
			return
		}
		started(c, o.Exec.ID)
		for range 3 {
			_ = c.Write(frames.Frame{Kind: frames.Data, ID: uint32(o.Exec.ID), Data: []byte("x")})
		}
		_ = c.Write(frames.Frame{Kind: frames.Report, Data: protocol.Encode(&protocol.Report{Exec: o.Exec.ID, Kind: protocol.Exited})})
		<-time.After(5 * answerTime)
		silent(c)
	}
	for name, fails := range map[string]bool{"taken": false, "writer fails": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hostile(t, guest, func(t *testing.T, c *Cell) {
				begin := time.Now()
				to := &taker{fails: fails}
				_, err := command(t, c, driver.Command{}, driver.Stdio{Out: to}, false)
				if took := time.Since(begin); err != nil || took > 3*answerTime {
					t.Errorf("after %v: %v", took, err)
				}
				<-time.After(5 * answerTime)
				if synctest.Wait(); to.pieces != 1 {
					t.Errorf("%d pieces", to.pieces)
				}
			})
		})
	}
}

// taker counts what it is given.
type taker struct {
	fails  bool
	pieces int
}

func (t *taker) Write(p []byte) (int, error) {
	t.pieces++
	if t.fails {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}
