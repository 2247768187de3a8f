package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal/terminaltest"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

// realHost runs real processes and real terminals, without a cell.
type realHost struct {
	last atomic.Int64
	call func(ctx context.Context, method string, req json.RawMessage) (json.RawMessage, error)
}

func (h *realHost) Exec(_ context.Context, c wire.Command, st wire.Streams) (wire.Process, error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Env, cmd.Dir = c.Env, c.Workdir
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	p := &realProcess{cmd: cmd, id: fmt.Sprintf("exec_%d", h.last.Add(1))}
	var err error
	if c.TTY {
		err = p.startTerminal(c, st)
	} else {
		err = p.startPipes(st)
	}
	if err != nil {
		return nil, startError(err)
	}
	if c.Timeout > 0 {
		p.timer = time.AfterFunc(c.Timeout, func() {
			p.timedOut.Store(true)
			_ = p.Signal(int(syscall.SIGKILL))
		})
	}
	return p, nil
}

func startError(err error) error {
	return &wire.StartError{
		Step: "exec", Message: err.Error(),
		NotFound:      errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist),
		NotExecutable: errors.Is(err, fs.ErrPermission),
	}
}

func (h *realHost) Processes(context.Context) ([]wire.ProcessInfo, error) {
	return []wire.ProcessInfo{{
		PID: 1, PPID: 0, UID: 7, State: "S", Session: "exec_1", Started: time.Unix(100, 5).UTC(),
		CPU: time.Second, RSS: 4096, Args: []string{"a\xffb", ""},
	}}, nil
}

func (h *realHost) Call(ctx context.Context, method string, req json.RawMessage) (json.RawMessage, error) {
	if h.call == nil {
		return nil, errors.New("nothing to call")
	}
	return h.call(ctx, method, req)
}

type realProcess struct {
	cmd      *exec.Cmd
	id       string
	terminal *os.File
	copied   sync.WaitGroup
	timer    *time.Timer
	timedOut atomic.Bool
}

func (p *realProcess) startPipes(st wire.Streams) error {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr = st.Out, st.Err
	if st.In == nil {
		return p.cmd.Start()
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(in, st.In)
		_ = in.Close()
	}()
	return nil
}

func (p *realProcess) startTerminal(c wire.Command, st wire.Streams) error {
	master, slave, err := terminaltest.Open()
	if err != nil {
		return err
	}
	defer slave.Close()
	p.terminal = master
	if err := p.Resize(c.Size); err != nil {
		return err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.copied.Go(func() { _, _ = io.Copy(st.Out, terminal.Output(master)) })
	if st.In != nil {
		go func() {
			if _, err := io.Copy(master, st.In); err == nil {
				_, _ = master.Write([]byte{4})
			}
		}()
	}
	return nil
}

func (p *realProcess) ID() string { return p.id }

func (p *realProcess) Wait() wire.Exit {
	p.copied.Wait()
	_ = p.cmd.Wait()
	if p.terminal != nil {
		_ = p.terminal.Close()
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	ws, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	exit := wire.Exit{Code: ws.ExitStatus(), TimedOut: p.timedOut.Load()}
	if ws.Signaled() {
		exit.Signal = int(ws.Signal())
		exit.Code = 128 + exit.Signal
	}
	return exit
}

func (p *realProcess) Signal(n int) error { return syscall.Kill(-p.cmd.Process.Pid, syscall.Signal(n)) }

func (p *realProcess) Resize(size api.WindowSize) error {
	if p.terminal == nil {
		return errors.New("no terminal")
	}
	return terminaltest.Size(p.terminal, size.Rows, size.Cols)
}

// fixture is a server in this process.
type fixture struct {
	*wire.Client
	t      testing.TB
	path   string
	cancel context.CancelFunc
	served chan error
}

func serve(t testing.TB, h wire.Host, o wire.Options) *fixture {
	t.Helper()
	f := &fixture{t: t, path: filepath.Join(t.TempDir(), "live", "cell.sock"), served: make(chan error, 1)}
	l, err := wire.Listen(f.path)
	if err != nil {
		t.Fatal(err)
	}
	o.UID, o.Version = os.Geteuid(), "1.2.3"
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go func() { f.served <- wire.Serve(ctx, l, h, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-f.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := os.Lstat(f.path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
	f.Client = wire.NewClient(f.path, "4.5.6")
	return f
}

// sh is a shell command with input.
func sh(script string) wire.Command {
	return wire.Command{Args: []string{"/bin/sh", "-c", script}, Stdin: true}
}

// want fails unless a command ended with this code.
func want(t testing.TB, code int, exit wire.Exit, err error) {
	t.Helper()
	if err != nil || exit.Code != code {
		t.Fatalf("exit %+v, error %v; want code %d", exit, err, code)
	}
}

// patient is a context for what a test waits for. It ends, so that a test that waits for
// what never comes fails with a reason.
func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// until is a writer that reports when some text was written.
type until struct {
	t    testing.TB
	ctx  context.Context
	mu   sync.Mutex
	all  []byte
	wake chan struct{}
}

func newUntil(ctx context.Context, t testing.TB) *until {
	t.Helper()
	return &until{t: t, ctx: ctx, wake: make(chan struct{}, 1)}
}

func (u *until) Write(p []byte) (int, error) {
	u.mu.Lock()
	u.all = append(u.all, p...)
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (u *until) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return string(u.all)
}

// await returns when text has come, or the test has waited too long.
func (u *until) await(text string) {
	for !strings.Contains(u.String(), text) {
		select {
		case <-u.wake:
		case <-u.ctx.Done():
			if errors.Is(u.ctx.Err(), context.DeadlineExceeded) {
				u.t.Errorf("%q never comes: %q", text, u.String())
			}
			return
		}
	}
}

// abandoned returns when the server has noticed that a session has no client:
// one that attached before would keep the command.
func (f *fixture) abandoned(id string) {
	f.t.Helper()
	f.attached(id, 0)
}

// attached returns when a session has so many clients.
func (f *fixture) attached(id string, clients int) {
	f.t.Helper()
	ctx := patient(f.t)
	for ; ; <-time.After(time.Millisecond) {
		list, err := f.Sessions(ctx)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, s := range list {
			if s.ID == id && s.Clients == clients {
				return
			}
		}
	}
}
