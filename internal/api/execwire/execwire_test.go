package execwire_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/api/execwire/execwiretest"
)

// pipeEnd is one end of a transport in memory.
type pipeEnd struct {
	in, out   chan execwire.Frame
	done, far chan struct{}
}

func newPipe() (a, b *pipeEnd) {
	x, y := make(chan execwire.Frame), make(chan execwire.Frame)
	done := make(chan struct{}, 1)
	far := make(chan struct{})
	return &pipeEnd{x, y, done, far}, &pipeEnd{y, x, done, far}
}

func (p *pipeEnd) Send(f execwire.Frame) error {
	f.Data = bytes.Clone(f.Data)
	select {
	case p.out <- f:
		return nil
	case <-p.far:
		return io.ErrClosedPipe
	}
}

func (p *pipeEnd) Receive() (execwire.Frame, error) {
	select {
	case f := <-p.in:
		return f, nil
	case <-p.far:
		return execwire.Frame{}, io.EOF
	}
}

func (p *pipeEnd) Close() error {
	select {
	case p.done <- struct{}{}: // only one of the calls
		close(p.far)
	default:
	}
	return nil
}

// TestSuite runs the suite of transports on one without a format.
func TestSuite(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1000, execwire.InputWindow, execwire.Unlimited} {
		execwiretest.Run(t, func(*testing.T) execwiretest.Pair {
			caller, host := newPipe()
			return execwiretest.Pair{Caller: caller, Host: host, Window: window, Exit: execwire.Frame{Kind: execwire.Exit}}
		})
	}
}

// TestMisplacedFrames: a frame of the other end, and one that has no place in a stream, end it.
func TestMisplacedFrames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind         execwire.Kind
		caller, host bool // may send it
	}{
		{1, false, false},
		{2, false, false},
		{execwire.Stdin, true, false},
		{execwire.StdinEnd, true, false},
		{execwire.OutputEnd, true, false},
		{execwire.Resize, true, false},
		{execwire.Signal, true, false},
		{execwire.Stdout, false, true},
		{execwire.Stderr, false, true},
		{execwire.Window, false, true},
		{execwire.Started, false, true},
		{execwire.Exit, false, true},
		{execwire.Result, false, true},
		{execwire.Error, false, true},
		{execwire.Unknown, false, true},
	} {
		near, far := newPipe()
		go func() {
			_ = far.Send(execwire.Frame{Kind: c.kind})
			_ = far.Send(execwire.Frame{Kind: execwire.Exit})
		}()
		follower := execwire.NewCaller(near, 0)
		if _, err := follower.Follow(follower.Print(nil, nil)); (err == nil) != c.host {
			t.Errorf("a host sends %d: %v", c.kind, err)
		}
		_ = near.Close()
		caller, host := newPipe()
		go func() {
			_ = caller.Send(execwire.Frame{Kind: c.kind})
			_ = caller.Close()
		}()
		if err := execwire.Listen(host, execwiretest.Serve(nothing{}, 0)); errors.Is(err, io.EOF) != c.caller {
			t.Errorf("a caller sends %d: %v", c.kind, err)
		}
	}
}

// nothing is a connection that has ended.
type nothing struct{}

func (nothing) Send(execwire.Frame) error        { return io.EOF }
func (nothing) Receive() (execwire.Frame, error) { return execwire.Frame{}, io.EOF }
func (nothing) Close() error                     { return nil }

// TestWindows: a window neither shrinks nor overflows, whatever the host says.
func TestWindows(t *testing.T) {
	t.Parallel()
	caller, host := newPipe()
	c := execwire.NewCaller(caller, 1)
	sent := make(chan int, 1)
	go func() {
		n, _ := c.Write([]byte("abc"))
		sent <- n
	}()
	go func() {
		for _, n := range []int{-5, math.MaxInt, math.MaxInt, -1} {
			_ = host.Send(execwire.Frame{Kind: execwire.Window, Bytes: n})
		}
		for got := 0; got < 3; {
			f, _ := host.Receive()
			got += len(f.Data)
		}
		_ = host.Send(execwire.Frame{Kind: execwire.Exit})
	}()
	if _, err := c.Follow(c.Print(nil, nil)); err != nil {
		t.Error(err)
	}
	if n := <-sent; n != 3 {
		t.Errorf("%d bytes were sent", n)
	}
}
