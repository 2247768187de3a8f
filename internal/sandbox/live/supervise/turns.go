package supervise

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

// turnPause is the least time between two turns that no call requests.
const turnPause = time.Second

// turnClock decides when turns are taken.
type turnClock struct {
	when api.TurnRequest
	take func(by string, asked int64) error
	asks <-chan int64
	// woken is sent to when commands become active again.
	woken chan struct{}
	// active says that a command has read or written since the last turn, lastActive
	// when it did so last, in nanoseconds.
	active     atomic.Bool
	lastActive atomic.Int64

	asked     int64 // requests since the last turn
	last      time.Time
	lastTimed time.Time
}

func newTurnClock(when api.TurnRequest, asks <-chan int64, take func(by string, asked int64) error) *turnClock {
	return &turnClock{when: when, take: take, asks: asks, woken: make(chan struct{}, 1)}
}

// note says that a command has read or written.
func (c *turnClock) note() {
	c.lastActive.Store(time.Now().UnixNano())
	if !c.active.Swap(true) {
		select {
		case c.woken <- struct{}{}:
		default:
		}
	}
}

// run takes turns until ctx ends, or one fails for good.
func (c *turnClock) run(ctx context.Context) {
	c.lastTimed = time.Now()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		by, at := c.next()
		if by != "" && !at.After(time.Now()) {
			if !c.turn(by) {
				return
			}
			continue
		}
		wait := time.Hour
		if by != "" {
			wait = time.Until(at)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case n := <-c.asks:
			c.asked += n
		case <-c.woken:
		case <-timer.C:
		}
	}
}

// next returns why and when the next turn is due; "" if none is.
func (c *turnClock) next() (by string, at time.Time) {
	consider := func(cause string, when time.Time) {
		if least := c.last.Add(turnPause); when.Before(least) {
			when = least
		}
		if by == "" || when.Before(at) {
			by, at = cause, when
		}
	}
	if c.asked > 0 {
		consider(api.TurnByAsk, time.Time{})
	}
	if c.when.Quiet > 0 && c.active.Load() {
		consider(api.TurnByQuiet, time.Unix(0, c.lastActive.Load()).Add(c.when.Quiet))
	}
	if c.when.Every > 0 {
		consider(api.TurnByTime, c.lastTimed.Add(c.when.Every))
	}
	return by, at
}

// turn takes one turn, and reports whether there can be others.
func (c *turnClock) turn(by string) bool {
	asked := c.asked
	c.asked = 0
	c.active.Store(false)
	err := c.take(by, asked)
	c.last = time.Now()
	c.lastTimed = c.last
	return err == nil
}

// readAsks counts the lines that programs in a cell write to the FIFO by which they
// ask for turns, until it is closed. Several can be read together: programs also write
// while a turn is taken.
func readAsks(from io.Reader, to chan<- int64, done <-chan struct{}) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			select {
			case to <- max(1, int64(bytes.Count(buf[:n], []byte{'\n'}))):
			case <-done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// takeTurns takes turns while the cell is served. The function that it returns ends
// that.
func (h *Host) takeTurns(ctx context.Context) (end func()) {
	if h.Turns == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	asks := make(chan int64)
	if h.Asks != nil {
		go readAsks(h.Asks, asks, ctx.Done())
	}
	clock := newTurnClock(*h.Turns, asks, func(by string, asked int64) error {
		_, err := h.turn(ctx, turnCall{By: by, Asked: asked})
		return err
	})
	h.clock.Store(clock)
	over := make(chan struct{})
	go func() {
		defer close(over)
		clock.run(ctx)
	}()
	return func() {
		cancel()
		<-over
	}
}

// turn takes one turn. It returns an error only if there can be no others; the run
// notes a turn that was skipped.
func (h *Host) turn(ctx context.Context, q turnCall) (*api.TurnInfo, error) {
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	if err := h.alive(); err != nil {
		return nil, err
	}
	return h.Turn(ctx, q.By, q.Asked)
}

// requestTurn takes a turn for a caller.
func (h *Host) requestTurn(ctx context.Context) (*api.TurnInfo, error) {
	if h.Turn == nil {
		return nil, api.Refusef(api.CodeTurns, "start it with turns", "cell %s takes no turns", h.Name)
	}
	info, err := h.turn(ctx, turnCall{By: api.TurnByRequest})
	if err == nil && info == nil {
		err = api.Refusef(api.CodeTurns, "try again when less is written", "the turn was skipped: the files of cell %s change too often", h.Name)
	}
	return info, err
}

// noting returns streams that note when a command reads or writes.
func (h *Host) noting(s wire.Streams) wire.Streams {
	if h.Turns == nil || h.Turns.Quiet == 0 {
		return s
	}
	if s.In != nil {
		s.In = activeReader{h, s.In}
	}
	if s.Out != nil {
		s.Out = activeWriter{h, s.Out}
	}
	if s.Err != nil {
		s.Err = activeWriter{h, s.Err}
	}
	return s
}

func (h *Host) noteActive() {
	if c := h.clock.Load(); c != nil {
		c.note()
	}
}

type activeReader struct {
	h *Host
	r io.Reader
}

func (a activeReader) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if n > 0 {
		a.h.noteActive()
	}
	return n, err
}

type activeWriter struct {
	h *Host
	w io.Writer
}

func (a activeWriter) Write(p []byte) (int, error) {
	a.h.noteActive()
	return a.w.Write(p)
}
