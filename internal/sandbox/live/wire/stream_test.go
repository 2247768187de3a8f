package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

// scriptHost runs Go functions for commands.
type scriptHost struct {
	run  func(c wire.Command, st wire.Streams, killed <-chan struct{}) wire.Exit
	last atomic.Int64
	work sync.WaitGroup
}

type scriptProcess struct {
	id     string
	exit   chan wire.Exit
	killed chan struct{}
	once   sync.Once
}

func (h *scriptHost) Exec(_ context.Context, c wire.Command, st wire.Streams) (wire.Process, error) {
	if c.Args[0] == "fail" {
		return nil, &wire.StartError{Step: "exec", NotFound: true}
	}
	p := &scriptProcess{id: fmt.Sprint(h.last.Add(1)), exit: make(chan wire.Exit, 1), killed: make(chan struct{})}
	h.work.Go(func() { p.exit <- h.run(c, st, p.killed) })
	return p, nil
}

func (h *scriptHost) Processes(context.Context) ([]wire.ProcessInfo, error) { return nil, nil }

func (h *scriptHost) Call(_ context.Context, _ string, req json.RawMessage) (json.RawMessage, error) {
	return req, nil
}

func (p *scriptProcess) ID() string                       { return p.id }
func (p *scriptProcess) Wait() wire.Exit                  { return <-p.exit }
func (p *scriptProcess) Resize(size api.WindowSize) error { return nil }

func (p *scriptProcess) Signal(n int) error {
	if n == int(syscall.SIGKILL) || n == int(syscall.SIGHUP) {
		p.once.Do(func() { close(p.killed) })
	}
	return nil
}

// write is one call of a command's: how many bytes, and to which stream.
type write struct {
	size   int
	stderr bool
}

// Any interleaving of writes of any sizes, through a ring of any size, to any
// number of clients that read as they like, arrives in order and whole; and so
// does input.
func TestAnyInterleaving(t *testing.T) {
	t.Parallel()
	type trial struct {
		writes []write
		input  []byte
		seen   []byte
	}
	var now atomic.Pointer[trial]
	h := &scriptHost{run: func(_ wire.Command, st wire.Streams, _ <-chan struct{}) wire.Exit {
		tr := now.Load()
		tr.seen, _ = io.ReadAll(st.In)
		n := 0
		for _, w := range tr.writes {
			to := st.Out
			if w.stderr {
				to = st.Err
			}
			if m, err := to.Write(pattern(n, w.size)); m != w.size || err != nil {
				return wire.Exit{Code: 99}
			}
			n += w.size
		}
		return wire.Exit{Code: 42}
	}}
	servers := map[int]*fixture{}
	rings := []int{1, 7, 1000, 64 << 10}
	for _, size := range rings {
		servers[size] = serve(t, h, wire.Options{ReplayBytes: size, StallLimit: time.Hour})
	}
	rapid.Check(t, func(rt *rapid.T) {
		// Every turn of a small ring and every small chunk of input costs a few
		// changes of goroutine.
		turns := rapid.IntRange(0, 20).Draw(rt, "turns")
		ring := rapid.SampledFrom(rings).Draw(rt, "ring")
		chunk := rapid.SampledFrom([]int{1, 100, 100_000}).Draw(rt, "chunk")
		others := rapid.IntRange(0, 2).Draw(rt, "others")
		f := servers[ring]
		tr := &trial{input: pattern(3, rapid.IntRange(0, min(turns*chunk, 200_000)).Draw(rt, "input"))}
		for range turns {
			size := rapid.IntRange(0, min(3*ring, 5000)).Draw(rt, "size")
			tr.writes = append(tr.writes, write{size, rapid.Bool().Draw(rt, "stderr")})
		}
		now.Store(tr)
		results := make(chan string, others+1)
		check := func(exit wire.Exit, err error, out, errs *bytes.Buffer) {
			results <- compare(exit, err, out.Bytes(), errs.Bytes(), tr.writes)
		}
		ready := sync.WaitGroup{}
		ready.Add(others)
		var out, errs bytes.Buffer
		in := &gated{open: &ready, r: bytes.NewReader(tr.input), chunk: chunk}
		exit, err := f.Exec(t.Context(), wire.Command{Args: []string{"x"}, Stdin: true}, wire.Streams{In: in, Out: &out, Err: &errs},
			wire.Control{Started: func(s wire.Session) {
				for range others {
					go func() {
						var out, errs bytes.Buffer
						exit, err := f.Attach(t.Context(), s.ID, api.WindowSize{}, wire.Streams{Out: &out, Err: &errs},
							wire.Control{Started: func(wire.Session) { ready.Done() }})
						check(exit, err, &out, &errs)
					}()
				}
			}})
		check(exit, err, &out, &errs)
		for range others + 1 {
			if wrong := <-results; wrong != "" {
				rt.Fatal(wrong)
			}
		}
		if !bytes.Equal(tr.seen, tr.input) {
			rt.Fatalf("the command read %d bytes of %d, or others", len(tr.seen), len(tr.input))
		}
	})
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

func compare(exit wire.Exit, err error, out, errs []byte, writes []write) string {
	var wantOut, wantErr []byte
	n := 0
	for _, w := range writes {
		if w.stderr {
			wantErr = append(wantErr, pattern(n, w.size)...)
		} else {
			wantOut = append(wantOut, pattern(n, w.size)...)
		}
		n += w.size
	}
	switch {
	case err != nil || exit != wire.Exit{Code: 42}:
		return fmt.Sprintf("%+v, %v", exit, err)
	case !bytes.Equal(out, wantOut) || !bytes.Equal(errs, wantErr):
		return fmt.Sprintf("%d and %d bytes, want %d and %d, or others", len(out), len(errs), len(wantOut), len(wantErr))
	}
	return ""
}

// gated is a reader that begins when all are there.
type gated struct {
	open  *sync.WaitGroup
	r     io.Reader
	chunk int
}

func (g *gated) Read(p []byte) (int, error) {
	g.open.Wait()
	return g.r.Read(p[:min(len(p), g.chunk)])
}

// oneConn is a listener with a single connection.
type oneConn struct{ conns chan net.Conn }

func (l oneConn) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l oneConn) Close() error   { return nil }
func (l oneConn) Addr() net.Addr { return &net.UnixAddr{} }

// echo prints its input, and some other text, until it is killed.
func echo(_ wire.Command, st wire.Streams, killed <-chan struct{}) wire.Exit {
	_, _ = io.WriteString(st.Err, "hello\n")
	if st.In == nil {
		return wire.Exit{Code: 1}
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(st.Out, st.In)
	}()
	select {
	case <-killed:
		return wire.Exit{Code: 137, Signal: 9}
	case <-copied:
		return wire.Exit{}
	}
}

// FuzzServer sends any bytes to a whole server. It must not panic, must end,
// and must leave nothing running.
func FuzzServer(f *testing.F) {
	hello := frame(1, goodHello)
	exec := hello + frame(2, `{"exec":{"args":["eA=="],"size":{"rows":1,"cols":2},"stdin":true,"detachable":true}}`)
	for _, seed := range []string{
		"", "\x01", hello, exec, hello + frame(2, `{"sessions":true}`), hello + frame(2, `{"call":{"method":"m","request":[1]}}`),
		hello + frame(2, `{"processes":true}`), hello + frame(2, `{"exec":{"args":["ZmFpbA=="],"size":{"rows":0,"cols":0}}}`),
		exec + frame(6, "input") + frame(11, `{"rows":3,"cols":4}`) + frame(12, `{"signal":2}`) + frame(13, `{"stderr":true}`) + frame(7, ""),
		exec + frame(12, `{"signal":9}`), exec + strings.Repeat(frame(6, strings.Repeat("x", 30000)), 3),
		strings.Replace(exec, ",\"detachable\":true", "", 1), hello + frame(2, `{"attach":{"session":"1","size":{"rows":0,"cols":0}}}`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h := &scriptHost{run: echo}
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		server, client := fileConn(t, fds[0]), fileConn(t, fds[1])
		ctx, cancel := context.WithCancel(context.Background())
		l := oneConn{make(chan net.Conn, 1)}
		l.conns <- server
		served := make(chan error, 1)
		go func() { served <- wire.Serve(ctx, l, h, wire.Options{UID: os.Geteuid(), Grace: time.Minute}) }()

		limit := time.AfterFunc(30*time.Second, func() {
			stack := make([]byte, 1<<20)
			panic("the server hangs:\n" + string(stack[:runtime.Stack(stack, true)]))
		})
		defer limit.Stop()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, client)
		}()
		_, _ = client.Write(data)
		_ = client.CloseWrite()
		<-drained // the server hangs up by itself
		_ = client.Close()
		cancel()
		close(l.conns)
		if err := <-served; err != nil {
			t.Error(err)
		}
		h.work.Wait()
		quiet(t)
	})
}

func fileConn(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	file := os.NewFile(uintptr(fd), "pair")
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.UnixConn)
}

// quiet waits until no goroutine is in the server's code.
func quiet(t *testing.T) {
	t.Helper()
	stack := make([]byte, 1<<20)
	for range 10_000 {
		text := string(stack[:runtime.Stack(stack, true)])
		if !strings.Contains(text, "live/wire.(*server)") && !strings.Contains(text, "live/wire.(*exec)") && !strings.Contains(text, "live/wire.(*visitor)") && !strings.Contains(text, "wire_test.echo") {
			return
		}
		runtime.Gosched()
	}
	t.Fatalf("left running:\n%s", stack[:runtime.Stack(stack, true)])
}

// BenchmarkExec is the cost of the socket: a command that does nothing, with a
// separate connection.
func BenchmarkExec(b *testing.B) {
	h := &scriptHost{run: func(wire.Command, wire.Streams, <-chan struct{}) wire.Exit { return wire.Exit{} }}
	f := serve(b, h, wire.Options{})
	cmd := wire.Command{Args: []string{"true"}, Env: os.Environ()}
	for b.Loop() {
		if _, err := f.Exec(b.Context(), cmd, wire.Streams{}, wire.Control{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutput is the throughput of one command's output.
func BenchmarkOutput(b *testing.B) {
	chunk := pattern(0, 32<<10)
	const total = 64 << 20
	h := &scriptHost{run: func(_ wire.Command, st wire.Streams, _ <-chan struct{}) wire.Exit {
		for n := 0; n < total; n += len(chunk) {
			_, _ = st.Out.Write(chunk)
		}
		return wire.Exit{}
	}}
	f := serve(b, h, wire.Options{})
	b.SetBytes(total)
	for b.Loop() {
		if _, err := f.Exec(b.Context(), wire.Command{Args: []string{"x"}}, wire.Streams{Out: io.Discard}, wire.Control{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPeer is what any protocol over a separate connection costs: connect,
// and two exchanges.
func BenchmarkPeer(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	buf := make([]byte, 100)
	for b.Loop() {
		c, err := net.Dial("unix", path)
		if err != nil {
			b.Fatal(err)
		}
		for range 2 {
			_, _ = c.Write(buf)
			_, _ = io.ReadFull(c, buf)
		}
		_ = c.Close()
	}
}
