package wire

import (
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

const (
	// window is how many input bytes of a client may be in transit or unread by the
	// command. The server keeps them in memory, so that it never stops reading a
	// connection: unread input cannot delay a signal.
	window = 64 << 10
	// maxKeptArgs bounds the command line that a session shows.
	maxKeptArgs = 4 << 10
	// maxAttached bounds the clients of one session, each of which may have a
	// window of input in memory.
	maxAttached = 16
)

// exec is one command and its output.
//
// Output goes into a ring. Each attached client has a position in it and a
// goroutine that sends from there on (see pump). The command blocks only while
// the ring is full of bytes that some attached client has not received. So a
// client can slow only its own command, the ring bounds the memory, replay is a
// client that begins at the oldest byte, and the exit follows the output
// because it is sent at the end of the ring.
type exec struct {
	stall time.Duration
	grace time.Duration

	// Set before the session is shared.
	proc Process
	info Session // without the fields that change
	main bool    // the Host ends the cell with it, and reports its end afterwards
	done chan struct{}

	mu      sync.Mutex
	changed *sync.Cond // output, its space, credit, the end
	out     ring
	in      *execwire.Input
	clients []*attachment
	ended   bool
	exit    Exit
	endedAt time.Time
	hungUp  bool
	blocked int         // writers that wait for space
	sized   *attachment // whose size the terminal has

	resizing sync.Mutex // held while the size is set; before mu
}

// attachment is one client of a session.
type attachment struct {
	drop   func() // ends its connection; does not wait
	pos    uint64 // the next byte of output to send
	window int    // how much more it may send
	credit int    // read by the command, but not granted again yet
	noOut  bool   // takes no more of stdout
	noErr  bool
	shares bool           // types only if it is the first of those that share the keyboard
	size   api.WindowSize // that of its terminal; zero if it has none
	typed  int            // bytes of its input that were for the command
	// report is called once with typed, if the client does not share the keyboard. It is
	// nil for the client that has started the command.
	report  func(bytes int)
	gone    bool
	failure error // to be sent before the connection ends
}

func newSession(c Command, o Options) *exec {
	s := &exec{
		stall: o.StallLimit, grace: o.Grace, main: c.Main,
		out:  ring{limit: o.ReplayBytes},
		done: make(chan struct{}),
		info: Session{TTY: c.TTY, Detachable: c.Detachable, Main: c.Main, Started: time.Now()},
	}
	s.changed, s.in = sync.NewCond(&s.mu), execwire.NewInput()
	if !c.Stdin {
		s.in.Close(io.EOF)
	}
	s.info.Args, s.info.ArgsCut = keepArgs(c.Args)
	return s
}

func keepArgs(args []string) (kept []string, cut bool) {
	left := maxKeptArgs
	for _, a := range args {
		if left == 0 {
			return kept, true
		}
		if len(a)+1 > left {
			return append(kept, a[:left-1]), true
		}
		left -= len(a) + 1
		kept = append(kept, a)
	}
	return kept, false
}

// streams returns the command's streams for the Host.
func (s *exec) streams(c Command) Streams {
	st := Streams{Out: output{s, execwire.Stdout}, Err: output{s, execwire.Stderr}, Ended: s.reportTyped}
	if c.Stdin {
		st.In = s.in
	}
	return st
}

type output struct {
	s      *exec
	stream execwire.Kind
}

func (o output) Write(p []byte) (int, error) { return o.s.write(o.stream, p) }

// write adds output of the command and waits while clients are behind.
func (s *exec) write(stream execwire.Kind, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := 0
	for len(p) > 0 {
		switch {
		case s.ended:
			return written, io.ErrClosedPipe
		case s.closedByAll(stream):
			return written, syscall.EPIPE
		}
		n := min(s.out.room(stream, s.slowest()), len(p))
		if n == 0 {
			s.awaitSpace()
			continue
		}
		s.out.append(stream, p[:n])
		s.changed.Broadcast()
		p, written = p[n:], written+n
	}
	return written, nil
}

// closedByAll reports whether all clients have closed a stream. The streams of a
// detachable command stay open, because a client may attach later.
func (s *exec) closedByAll(stream execwire.Kind) bool {
	if s.info.Detachable || len(s.clients) == 0 {
		return false
	}
	for _, a := range s.clients {
		if !a.refuses(stream) {
			return false
		}
	}
	return true
}

func (a *attachment) refuses(stream execwire.Kind) bool {
	return stream == execwire.Stdout && a.noOut || stream == execwire.Stderr && a.noErr
}

// slowest returns the oldest position that a client still needs.
func (s *exec) slowest() uint64 {
	keep := s.out.end
	for _, a := range s.clients {
		keep = min(keep, a.pos)
	}
	return keep
}

// awaitSpace waits for a change. A single client may block its command without
// limit, as a full pipe would; one that also blocks others is dropped after
// StallLimit.
func (s *exec) awaitSpace() {
	s.blocked++
	defer func() { s.blocked-- }()
	if len(s.clients) < 2 {
		s.changed.Wait()
		return
	}
	pos, expired := s.slowest(), false
	timer := time.AfterFunc(s.stall, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		expired = true
		s.changed.Broadcast()
	})
	defer timer.Stop()
	for !expired && !s.ended && s.slowest() == pos && len(s.clients) > 1 {
		s.changed.Wait()
	}
	if !expired || s.slowest() != pos {
		return
	}
	for _, a := range append([]*attachment(nil), s.clients...) {
		if a.pos == pos && len(s.clients) > 1 {
			s.remove(a)
			a.drop()
		}
	}
}

// feed adds input of a client. Input after its end, and that of a client that only
// watches, is dropped.
func (s *exec) feed(a *attachment, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) > a.window {
		return protocolError("%d bytes of input where %d are allowed", len(p), a.window)
	}
	a.window -= len(p)
	if s.ended || !s.types(a) || !s.in.Put(visitor{s, a}, p) {
		a.credit += len(p)
		s.changed.Broadcast()
		return nil
	}
	a.typed += len(p)
	return nil
}

// addCredit lets a client send as much as the command has read.
func (s *exec) addCredit(a *attachment, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.credit += n
	s.changed.Broadcast()
}

// reportTyped reports what clients have typed that do not share the keyboard, before
// any client learns that the command has ended.
func (s *exec) reportTyped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.clients {
		a.reportTyped()
	}
}

// reportTyped reports what the client has typed. The caller holds the session's lock.
func (a *attachment) reportTyped() {
	if a.report != nil && a.typed > 0 && !a.shares {
		a.report(a.typed)
		a.report = nil
	}
}

// refuse closes one stream for one client.
func (s *exec) refuse(a *attachment, stream execwire.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stream == execwire.Stderr {
		a.noErr = true
	} else {
		a.noOut = true
	}
	s.changed.Broadcast()
}

// attach adds a client, which begins with the oldest output that is kept. typed, if not
// nil, is told how much it typed.
func (s *exec) attach(drop func(), keyboard api.Keyboard, typed func(bytes int)) (*attachment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.clients) == maxAttached {
		return nil, &api.Error{Kind: api.Busy, Code: api.CodeTooMany, Message: "too many clients are attached to this command"}
	}
	a := &attachment{drop: drop, report: typed, pos: s.out.start, window: window, shares: keyboard == api.KeyboardShare || keyboard == api.KeyboardTake}
	if keyboard == api.KeyboardTake {
		s.clients = slices.Insert(s.clients, 0, a)
	} else {
		s.clients = append(s.clients, a)
	}
	s.changed.Broadcast()
	return a, nil
}

// leave removes a client. When the last one leaves, a command that is not
// detachable is ended.
func (s *exec) leave(a *attachment) {
	s.mu.Lock()
	s.remove(a)
	if len(s.clients) == 0 && !s.ended && !s.hungUp && !s.info.Detachable {
		s.hungUp = true
		s.in.Close(io.EOF)
		go s.hangUp()
	}
	s.mu.Unlock()
	s.fit()
}

func (s *exec) remove(a *attachment) {
	a.gone = true
	a.reportTyped()
	for i, c := range s.clients {
		if c == a {
			s.clients = append(s.clients[:i], s.clients[i+1:]...)
			break
		}
	}
	s.changed.Broadcast()
}

// hangUp ends the command with SIGHUP, as a closed terminal does, and kills it
// if it does not end.
func (s *exec) hangUp() {
	_ = s.proc.Signal(int(syscall.SIGHUP))
	timer := time.NewTimer(s.grace)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		_ = s.proc.Signal(int(syscall.SIGKILL))
	}
}

// fail records the error of a client. The pump sends it, and then ends the connection.
func (s *exec) fail(a *attachment, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.failure = err
	s.changed.Broadcast()
}

// end records the exit. Pending output is still sent.
func (s *exec) end(exit Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	exit.Killed = exit.Killed || s.hungUp
	s.ended, s.exit, s.endedAt = true, exit, time.Now()
	s.in.Discard()
	s.changed.Broadcast()
	close(s.done)
}

// describe returns the public description of the session.
func (s *exec) describe() Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.info
	i.Ended, i.Exit, i.Clients = s.endedAt, s.exit, len(s.clients)
	i.Output, i.Kept = s.out.end, s.out.end-s.out.start
	return i
}
