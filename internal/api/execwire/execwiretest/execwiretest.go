// Package execwiretest is the suite that every transport of package execwire passes: both
// ends of a stream, with all that may happen in it.
package execwiretest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

// Pair is a connection: its two ends, and what the transport needs for a stream in it.
type Pair struct {
	Caller, Host execwire.Conn
	// Window is how much input the caller may send at first.
	Window int
	// Exit is the last frame of the host.
	Exit execwire.Frame
}

// hangLimit is when a connection is closed whose ends wait for each other.
const hangLimit = 30 * time.Second

// Run tests a transport. Each call of open makes a connection.
func Run(t *testing.T, open func(t *testing.T) Pair) {
	t.Helper()
	t.Run("streams", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(rt *rapid.T) {
			tr := Draw(rt)
			p := open(t)
			defer p.limit().Stop()
			if wrong := converse(p, tr); wrong != "" {
				rt.Fatal(wrong)
			}
		})
	})
	for name, test := range map[string]func(*testing.T, Pair){
		"unread input":  unreadInput,
		"broken output": func(t *testing.T, p Pair) { t.Helper(); brokenOutput(t, p, false) },
		"broken errors": func(t *testing.T, p Pair) { t.Helper(); brokenOutput(t, p, true) },
		"detach":        detach,
		"end":           end,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			defer p.limit().Stop()
			test(t, p)
		})
	}
}

// limit closes the connection when the limit has passed.
func (p Pair) limit() *time.Timer {
	return time.AfterFunc(hangLimit, func() { _, _ = p.Caller.Close(), p.Host.Close() })
}

// Trial is what both ends of one stream do.
type Trial struct {
	Input   []byte
	Chunk   int // how much the reader of the input returns at once
	Writes  []Write
	Sizes   []api.WindowSize
	Signals []string
}

// Write is one write of the command.
type Write struct {
	Size   int
	Stderr bool
}

// Draw draws a trial.
func Draw(rt *rapid.T) Trial {
	chunk := rapid.SampledFrom([]int{1, 1000, 100_000}).Draw(rt, "chunk")
	tr := Trial{Chunk: chunk, Input: pattern(3, rapid.IntRange(0, min(50*chunk, 700_000)).Draw(rt, "input"))}
	for range rapid.IntRange(0, 20).Draw(rt, "writes") {
		tr.Writes = append(tr.Writes, Write{rapid.IntRange(1, execwire.MaxData).Draw(rt, "size"), rapid.Bool().Draw(rt, "stderr")})
	}
	for range rapid.IntRange(0, 4).Draw(rt, "sizes") {
		tr.Sizes = append(tr.Sizes, api.WindowSize{Rows: rapid.Uint16Min(1).Draw(rt, "rows"), Cols: rapid.Uint16Min(1).Draw(rt, "cols")})
	}
	tr.Signals = rapid.SliceOfN(rapid.SampledFrom([]string{"INT", "TERM", "USR1"}), 0, 4).Draw(rt, "signals")
	return tr
}

// pattern is bytes that differ by their place.
func pattern(from, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		v := from + i
		p[i] = byte(v ^ v>>8 ^ v>>16)
	}
	return p
}

// Reader is the input of the caller.
func (tr Trial) Reader() io.Reader { return &chunks{bytes.NewReader(tr.Input), tr.Chunk} }

type chunks struct {
	r io.Reader
	n int
}

func (c *chunks) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.n)]) }

// Print writes what the command prints.
func (tr Trial) Print(write func(stderr bool, p []byte)) {
	n := 0
	for _, w := range tr.Writes {
		write(w.Stderr, pattern(n, w.Size))
		n += w.Size
	}
}

// Check returns what is wrong with the output that came.
func (tr Trial) Check(out, errs []byte) string {
	var want [2][]byte
	tr.Print(func(stderr bool, p []byte) {
		i := 0
		if stderr {
			i = 1
		}
		want[i] = append(want[i], p...)
	})
	if !bytes.Equal(out, want[0]) || !bytes.Equal(errs, want[1]) {
		return fmt.Sprintf("%d and %d bytes of output, want %d and %d, or others", len(out), len(errs), len(want[0]), len(want[1]))
	}
	return ""
}

// Recorder is a command that collects what a caller sends.
type Recorder struct {
	In *execwire.Input

	conn   execwire.Conn
	window int // of the caller, or execwire.Unlimited

	mu      sync.Mutex
	news    *sync.Cond
	sizes   []api.WindowSize
	signals []string
	closed  []bool // streams: stderr or not
	over    bool   // the window was not kept
	err     error  // of Listen
	ended   bool
}

// Serve collects what comes until the connection ends.
func Serve(conn execwire.Conn, window int) *Recorder {
	s := &Recorder{In: execwire.NewInput(), conn: conn, window: window}
	s.news = sync.NewCond(&s.mu)
	go func() {
		err := execwire.Listen(conn, s)
		s.In.Close(io.ErrUnexpectedEOF)
		s.change(func() { s.err, s.ended = err, true })
	}()
	return s
}

func (s *Recorder) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.news.Broadcast()
}

// await waits until ok is true, which is asked with the lock. It reports false if the
// connection ends before.
func (s *Recorder) await(ok func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !ok() && !s.ended {
		s.news.Wait()
	}
	return ok()
}

// Input implements execwire.Command.
func (s *Recorder) Input(p []byte) error {
	s.In.Put(s, p)
	over := s.window != execwire.Unlimited && s.In.Unread() > s.window
	s.change(func() { s.over = s.over || over })
	return nil
}

// HasRead implements execwire.Sender.
func (s *Recorder) HasRead(n int) { _ = s.conn.Send(execwire.Frame{Kind: execwire.Window, Bytes: n}) }

// EndInput implements execwire.Command.
func (s *Recorder) EndInput() { s.In.Close(io.EOF) }

// EndOutput implements execwire.Command.
func (s *Recorder) EndOutput(stderr bool) { s.change(func() { s.closed = append(s.closed, stderr) }) }

// Resize implements execwire.Command.
func (s *Recorder) Resize(size api.WindowSize) { s.change(func() { s.sizes = append(s.sizes, size) }) }

// Signal implements execwire.Command.
func (s *Recorder) Signal(name string) error {
	s.change(func() { s.signals = append(s.signals, name) })
	return nil
}

// Play is what the command of a trial does: it reads its input, takes sizes and signals,
// and prints. It returns what is wrong with what it got.
func (s *Recorder) Play(tr Trial) string {
	got, err := io.ReadAll(s.In)
	if err != nil || !bytes.Equal(got, tr.Input) {
		return fmt.Sprintf("%d bytes of input, want %d, or others: %v", len(got), len(tr.Input), err)
	}
	if !s.await(func() bool { return len(s.sizes) == len(tr.Sizes) && len(s.signals) == len(tr.Signals) }) {
		return "sizes or signals are missing"
	}
	if !slices.Equal(s.sizes, tr.Sizes) || !slices.Equal(s.signals, tr.Signals) || s.over {
		return fmt.Sprintf("sizes %v, signals %v, beyond the window: %v; want %v, %v", s.sizes, s.signals, s.over, tr.Sizes, tr.Signals)
	}
	tr.Print(func(stderr bool, p []byte) {
		kind := execwire.Stdout
		if stderr {
			kind = execwire.Stderr
		}
		_ = s.conn.Send(execwire.Frame{Kind: kind, Data: p})
	})
	return ""
}

func signalFrame(name string) execwire.Frame {
	return execwire.Frame{Kind: execwire.Signal, Signal: name}
}

func sizeFrame(size api.WindowSize) execwire.Frame {
	return execwire.Frame{Kind: execwire.Resize, Size: size}
}

// Use is what the caller of a trial does. It returns what is wrong with what it got.
func Use(conn execwire.Conn, window int, tr Trial) string {
	c := execwire.NewCaller(conn, window)
	sizes, signals := make(chan api.WindowSize), make(chan string)
	go execwire.Control(c, sizes, sizeFrame, nil, signalFrame)
	go execwire.Control(c, nil, sizeFrame, signals, signalFrame)
	go func() {
		for _, size := range tr.Sizes {
			sizes <- size
		}
		close(sizes)
	}()
	go func() {
		for _, name := range tr.Signals {
			signals <- name
		}
		close(signals)
	}()
	go func() { _ = c.Feed(tr.Reader()) }()
	var out, errs bytes.Buffer
	f, err := c.Follow(c.Print(&out, &errs))
	if err != nil || f.Kind != execwire.Exit {
		return fmt.Sprintf("the stream ended with %d: %v", f.Kind, err)
	}
	return tr.Check(out.Bytes(), errs.Bytes())
}

func converse(p Pair, tr Trial) string {
	defer p.Caller.Close()
	defer p.Host.Close()
	wrong := make(chan string, 1)
	go func() {
		s := Serve(p.Host, p.Window)
		wrong <- s.Play(tr)
		_ = p.Host.Send(p.Exit)
	}()
	got := Use(p.Caller, p.Window, tr)
	if w := <-wrong; w != "" {
		return w
	}
	return got
}

// unreadInput: a signal passes input that the command does not read. Reading it later
// opens the window again.
func unreadInput(t *testing.T, p Pair) {
	t.Helper()
	if p.Window == execwire.Unlimited {
		return // then the transport's buffers are the bound
	}
	defer p.Caller.Close()
	s := Serve(p.Host, p.Window)
	c := execwire.NewCaller(p.Caller, p.Window)
	input := pattern(0, 3*p.Window)
	go func() {
		_ = c.Feed(bytes.NewReader(input))
	}()
	followed := make(chan error, 1)
	go func() {
		_, err := c.Follow(c.Print(nil, nil))
		followed <- err
	}()
	if !s.await(func() bool { return s.In.Unread() == p.Window }) {
		t.Fatal("the window was not used")
	}
	if err := p.Caller.Send(signalFrame("INT")); err != nil {
		t.Fatal(err)
	}
	if !s.await(func() bool { return len(s.signals) == 1 }) {
		t.Fatal("no signal came")
	}
	if got, err := io.ReadAll(s.In); err != nil || !bytes.Equal(got, input) || s.over {
		t.Errorf("%d bytes of input, %v, beyond the window: %v", len(got), err, s.over)
	}
	_ = p.Host.Send(p.Exit)
	if err := <-followed; err != nil {
		t.Error(err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("input after the end: %v", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// brokenOutput: the host learns once which stream has no reader, and the other one goes on.
// A transport without that frame sends the signal.
func brokenOutput(t *testing.T, p Pair, stderr bool) {
	t.Helper()
	defer p.Caller.Close()
	s := Serve(p.Host, p.Window)
	broken, whole := execwire.Stdout, execwire.Stderr
	if stderr {
		broken, whole = whole, broken
	}
	go func() {
		for _, kind := range []execwire.Kind{broken, whole, broken} {
			_ = p.Host.Send(execwire.Frame{Kind: kind, Data: []byte("text")})
		}
		s.await(func() bool { return len(s.closed)+len(s.signals) > 0 })
		_ = p.Host.Send(p.Exit)
	}()
	var text bytes.Buffer
	c := execwire.NewCaller(p.Caller, p.Window)
	output := c.Print(brokenWriter{}, &text)
	if stderr {
		output = c.Print(&text, brokenWriter{})
	}
	if _, err := c.Follow(output); err != nil || text.String() != "text" {
		t.Errorf("%q, %v", text.String(), err)
	}
	_ = p.Caller.Send(execwire.Frame{Kind: execwire.StdinEnd})
	_, _ = io.ReadAll(s.In) // all that was sent has come
	if !slices.Equal(s.closed, []bool{stderr}) && !slices.Equal(s.signals, []string{"PIPE"}) || len(s.closed)+len(s.signals) != 1 {
		t.Errorf("closed %v, signals %v", s.closed, s.signals)
	}
}

// detach: an input whose caller leaves is not ended.
func detach(t *testing.T, p Pair) {
	t.Helper()
	s := Serve(p.Host, p.Window)
	c := execwire.NewCaller(p.Caller, p.Window)
	in := execwire.DetachKeys(bytes.NewReader([]byte("ab\x10\x11cd")))
	if err := c.Feed(in); !errors.Is(err, execwire.ErrDetached) {
		t.Error(err)
	}
	_ = p.Caller.Send(signalFrame("INT"))
	s.await(func() bool { return len(s.signals) == 1 })
	_ = p.Caller.Close()
	if got, err := io.ReadAll(s.In); string(got) != "ab" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", got, err)
	}
}

// end: a connection that ends is an error at both ends.
func end(t *testing.T, p Pair) {
	t.Helper()
	s := Serve(p.Host, p.Window)
	c := execwire.NewCaller(p.Caller, p.Window)
	go func() { _ = p.Host.Send(execwire.Frame{Kind: execwire.Stdout, Data: []byte("x")}) }()
	_, err := c.Follow(func(bool, []byte) error { return p.Caller.Close() })
	if err == nil {
		t.Error("the caller followed a closed connection to its end")
	}
	if s.await(func() bool { return false }); s.err == nil {
		t.Error("the host listened to a closed connection to its end")
	}
}
