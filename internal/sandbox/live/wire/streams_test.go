package wire

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/api/execwire/execwiretest"
)

func socketPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return newConn(t, fds[0]).UnixConn, newConn(t, fds[1]).UnixConn
}

// TestNewHost: the client's end and the host of package execwire understand each other.
func TestNewHost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		tr := execwiretest.Draw(rt)
		a, b := socketPair(t)
		host := &frameConn{UnixConn: b, in: newFrameReader(b)}
		wrong := make(chan string, 1)
		go func() {
			wrong <- execwiretest.Serve(host, window).Play(tr)
			_ = host.Send(execwire.Frame{Kind: execwire.Exit, Data: []byte(`{"code":3,"signal":0,"timed_out":false,"killed":false}`)})
		}()
		v := &visit{line: &line{conn: a, in: newFrameReader(a)}, window: window, done: make(chan struct{})}
		v.grown = sync.NewCond(&v.mu)
		go v.sendInput(tr.Reader())
		sizes, signals := make(chan api.WindowSize), make(chan int)
		go v.sendControl(Control{Resize: sizes, Signals: signals})
		go func() {
			for _, size := range tr.Sizes {
				sizes <- size
			}
		}()
		go func() {
			for _, name := range tr.Signals {
				signals <- signalNumber(name)
			}
		}()
		var out, errs bytes.Buffer
		exit, err := v.receive(Streams{Out: &out, Err: &errs})
		v.end()
		_, _ = a.Close(), b.Close()
		if w := <-wrong + tr.Check(out.Bytes(), errs.Bytes()); w != "" || err != nil || exit.Code != 3 {
			rt.Fatal(w, exit, err)
		}
	})
}

// trialProcess collects sizes and signals.
type trialProcess struct {
	sizes   chan api.WindowSize
	signals chan int
	exit    chan Exit
}

func (p *trialProcess) ID() string                       { return "1" }
func (p *trialProcess) Wait() Exit                       { return <-p.exit }
func (p *trialProcess) Signal(n int) error               { p.signals <- n; return nil }
func (p *trialProcess) Resize(size api.WindowSize) error { p.sizes <- size; return nil }

// TestNewCaller: the server's end and the caller of package execwire understand each other.
func TestNewCaller(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		tr := execwiretest.Draw(rt)
		a, b := socketPair(t)
		p := &trialProcess{sizes: make(chan api.WindowSize, 10), signals: make(chan int, 10), exit: make(chan Exit, 1)}
		c := Command{Args: []string{"x"}, Stdin: true}
		s := newSession(c, Options{}.withDefaults())
		s.proc = p
		at, err := s.attach(func() {}, "", nil)
		if err != nil {
			rt.Fatal(err)
		}
		wrong := make(chan string, 1)
		streams := s.streams(c)
		go func() { wrong <- playOld(s, p, streams, tr) }()
		heard := make(chan error, 1)
		go func() { heard <- listen(newFrameReader(b), s, at) }()
		go s.pump(at, b, nil, func() {})
		got := execwiretest.Use(&frameConn{UnixConn: a, in: newFrameReader(a)}, window, tr)
		_ = a.Close()
		<-heard
		_ = b.Close()
		if w := <-wrong + got; w != "" {
			rt.Fatal(w)
		}
	})
}

// playOld is what the command of a trial does.
func playOld(s *exec, p *trialProcess, streams Streams, tr execwiretest.Trial) string {
	defer s.end(Exit{})
	var input bytes.Buffer
	if _, err := input.ReadFrom(streams.In); err != nil || !bytes.Equal(input.Bytes(), tr.Input) {
		return "other input came"
	}
	for _, want := range tr.Sizes {
		if got := <-p.sizes; got != want {
			return "another size came"
		}
	}
	for _, want := range tr.Signals {
		if got := <-p.signals; got != signalNumber(want) {
			return "another signal came"
		}
	}
	tr.Print(func(stderr bool, p []byte) {
		w := streams.Out
		if stderr {
			w = streams.Err
		}
		_, _ = w.Write(p)
	})
	return ""
}
