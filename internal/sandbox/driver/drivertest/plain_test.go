package drivertest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal/terminaltest"
)

// plain is a driver that runs processes of the host as they are. It shows that the
// contract can be kept from outside package native, and is of no other use: it
// isolates nothing, and claims nothing.
//
// The processes of a cell are known by a limit that they inherit, which nothing
// else uses: the bytes of their message queues. A keeper, which is this test binary
// again, kills them when the maker closes its input, or dies.
type plain struct{}

const keeperOf = "FORKCELL_TEST_KEEPER_OF"

func TestMain(m *testing.M) {
	if mark := os.Getenv(keeperOf); mark != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		n, _ := strconv.ParseUint(mark, 10, 64)
		for len(signalMarked(n, unix.SIGKILL)) > 0 { //nolint:revive // until none is left
		}
		os.Exit(0)
	}
	plainSuite().Main()
	os.Exit(m.Run())
}

func TestPlain(t *testing.T) {
	t.Parallel()
	plainSuite().Run(t)
}

func plainSuite() Suite {
	return Suite{New: func() driver.Driver { return plain{} }, Supervisor: []string{"/proc/self/exe"}}
}

// TestPlainIsRefused: neither the doctor nor a run that wants anything held takes
// such a driver for one that isolates.
func TestPlainIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range (plain{}).Doctor(t.Context()) {
		if c.Status == "works" {
			t.Errorf("%+v", c)
		}
	}
	_, err := plain{}.Resolve(driver.Spec{Command: driver.Command{Args: []string{"true"}, Workdir: "/"}})
	if !errors.As(err, new(*driver.UnenforceableError)) {
		t.Error(err)
	}
}

// marked lists the processes of a cell that have not ended.
func marked(mark uint64) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		var l unix.Rlimit
		if err != nil || unix.Prlimit(pid, unix.RLIMIT_MSGQUEUE, nil, &l) != nil || l.Cur != mark {
			continue
		}
		if state, _ := stat(pid); state != "Z" && state != "X" && state != "" {
			pids = append(pids, pid)
		}
	}
	return pids
}

func signalMarked(mark uint64, s unix.Signal) []int {
	pids := marked(mark)
	for _, pid := range pids {
		_ = unix.Kill(pid, s)
	}
	return pids
}

// stat returns a process's state and its fields from there on.
func stat(pid int) (state string, fields []string) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, ok := strings.Cut(string(data), ") ")
	if fields = strings.Fields(after); err != nil || !ok || len(fields) < 22 {
		return "", nil
	}
	return fields[0], fields
}

func (plain) User() int { return os.Geteuid() }

func (plain) HeldSpace(driver.Record, time.Time) (int64, error) { return 0, nil }

func (plain) ProbeOverlay(context.Context, string) error { return errors.New("no overlays") }

func (plain) Doctor(context.Context) []driver.Check {
	return []driver.Check{{Name: "isolation", Status: "missing", Reason: "commands run as they are", Remedy: "use another driver"}}
}

func (plain) Resolve(s driver.Spec) (driver.Controls, error) {
	if err := errors.Join(s.Check(), s.Command.Check()); err != nil {
		return driver.Controls{}, err
	}
	return controls(), refuse(s)
}

func controls() driver.Controls {
	return driver.Controls{Runtime: "plain", Degraded: []string{"nothing is isolated"}}
}

// refuse fails for whatever the driver would have to ignore.
func refuse(s driver.Spec) error {
	no := func(control string) error {
		return &driver.UnenforceableError{Control: control, Reason: "commands run as they are"}
	}
	switch {
	case !s.Guard.AllowDegraded:
		return no("isolation")
	case len(s.Mounts.Binds)+len(s.Mounts.Overlays)+len(s.Mounts.Masks)+len(s.Mounts.Fixed)+len(s.Mounts.Absent) > 0 || len(s.ReadOnly) > 0:
		return &driver.StartError{Step: "mounts", Err: no("mounts")}
	case s.Network != nil:
		return &driver.StartError{Step: "network", Cause: driver.CauseNetwork, Err: no("network")}
	case s.Limits.Memory+s.Limits.CPUsMilli+s.Limits.PIDs+s.Limits.OpenFiles > 0 || s.AsRoot:
		return no("limits")
	}
	return nil
}

func (d plain) Run(ctx context.Context, s driver.Spec, stdio driver.Stdio) (driver.Outcome, error) {
	if _, err := d.Resolve(s); err != nil {
		return driver.Outcome{}, err
	}
	c, err := d.begin(ctx, s)
	if err != nil {
		return driver.Outcome{}, err
	}
	begin := time.Now()
	out, err := c.exec(ctx, s.Command, stdio, true)
	out.StartTook = time.Since(begin) - out.CommandTook
	return out, errors.Join(err, c.Close())
}

func (d plain) Start(ctx context.Context, s driver.Spec) (driver.Cell, error) {
	if err := errors.Join(s.Check(), refuse(s)); err != nil {
		return nil, err
	}
	c, err := d.begin(ctx, s)
	if err != nil {
		return nil, err
	}
	return c, nil
}

type plainRecord struct {
	Keeper int
	Mark   uint64
}

func (plain) Reap(_ string, r driver.Record, limit time.Duration) error {
	var rec plainRecord
	if json.Unmarshal(r, &rec) != nil {
		return nil
	}
	for deadline := time.Now().Add(limit); ; {
		state, _ := stat(rec.Keeper)
		if len(marked(rec.Mark)) == 0 && (state == "" || state == "Z") {
			return nil
		}
		if time.Now().After(deadline) {
			return driver.ErrStillRunning
		}
	}
}

type plainCell struct {
	mark   uint64
	keeper *exec.Cmd
	input  io.Closer
	gone   chan struct{}
	close  func() error
	closed atomic.Bool // the cell is being ended
}

func (plain) begin(ctx context.Context, s driver.Spec) (*plainCell, error) {
	if err := ctx.Err(); err != nil {
		return nil, &driver.StartError{Step: "start", Err: err}
	}
	var b [8]byte
	_, _ = rand.Read(b[:])
	c := &plainCell{mark: 1 + binary.NativeEndian.Uint64(b[:])%800_000, gone: make(chan struct{})} // the usual one is 819,200
	c.keeper = exec.Command("/proc/self/exe")                                                      //nolint:noctx // it ends with its input
	c.keeper.Env, c.keeper.SysProcAttr = []string{keeperOf + "=" + fmt.Sprint(c.mark)}, &syscall.SysProcAttr{Setsid: true}
	input, err := c.keeper.StdinPipe()
	if err == nil {
		err = c.keeper.Start()
	}
	if err != nil {
		return nil, err
	}
	c.input = input
	c.close = sync.OnceValue(func() error {
		err := errors.Join(c.input.Close(), c.keeper.Wait())
		close(c.gone)
		return err
	})
	if s.Started != nil {
		record, err := json.Marshal(plainRecord{c.keeper.Process.Pid, c.mark})
		if err == nil {
			err = s.Started(record)
		}
		if err != nil {
			return nil, errors.Join(&driver.StartError{Step: "record", Err: err}, c.Close())
		}
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return c, nil
}

func (c *plainCell) Close() error {
	c.closed.Store(true)
	return c.close()
}

func (c *plainCell) Controls() driver.Controls { return controls() }
func (c *plainCell) Gone() <-chan struct{}     { return c.gone }
func (c *plainCell) Usage() driver.Usage       { return driver.Usage{MemoryPeak: -1, CPUMicros: -1} }
func (c *plainCell) Thaw() error               { return nil }
func (c *plainCell) Freeze(context.Context) error {
	return &driver.UnenforceableError{Control: "freezer"}
}

func (c *plainCell) Processes() (list []driver.Process, err error) {
	boot := bootTime()
	for _, pid := range marked(c.mark) {
		state, f := stat(pid)
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || state == "" {
			continue
		}
		ticks, _ := strconv.ParseInt(f[19], 10, 64)
		pages, _ := strconv.ParseInt(f[21], 10, 64)
		p := driver.Process{
			PID: pid, HostPID: pid, UID: os.Geteuid(), State: state, RSS: pages * int64(os.Getpagesize()),
			Args: strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00"), Started: boot.Add(time.Duration(ticks) * 10 * time.Millisecond),
		}
		p.PPID, _ = strconv.Atoi(f[1])
		p.SID, _ = strconv.Atoi(f[3])
		list = append(list, p)
	}
	return list, nil
}

func bootTime() time.Time {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return time.Now().Add(-time.Duration(now.Nano()))
}

func (c *plainCell) Terminate(limit time.Duration) (bool, error) {
	signalMarked(c.mark, unix.SIGTERM)
	signalMarked(c.mark, unix.SIGCONT)
	for deadline := time.Now().Add(limit); len(marked(c.mark)) > 0; {
		if time.Now().After(deadline) {
			return false, nil
		}
	}
	return true, nil
}

func (c *plainCell) Exec(ctx context.Context, cmd driver.Command, stdio driver.Stdio) (driver.Outcome, error) {
	return c.exec(ctx, cmd, stdio, false)
}

func (c *plainCell) exec(ctx context.Context, cmd driver.Command, stdio driver.Stdio, last bool) (out driver.Outcome, err error) {
	if err := cmd.Check(); err != nil {
		return out, err
	}
	select {
	case <-c.gone:
		return out, &driver.StartError{Step: "start", Err: driver.ErrEnded}
	default:
	}
	program, err := lookUp(cmd)
	if err != nil {
		return out, err
	}
	s, err := newPlainStreams(cmd, stdio)
	if err != nil {
		return out, err
	}
	begin := time.Now()
	pid, err := c.spawn(program, cmd, s)
	s.started()
	if err != nil {
		s.finish(0)
		return out, startError(err)
	}
	if cmd.Executed != nil {
		cmd.Executed(pid)
	}
	out = c.await(ctx, pid, begin, cmd, stdio, s, last)
	return out, nil
}

// lookUp finds the program along the command's PATH.
func lookUp(cmd driver.Command) (string, error) {
	if info, err := os.Stat(cmd.Workdir); err != nil || !info.IsDir() {
		return "", &driver.StartError{Step: "workdir", Cause: driver.CauseWorkdir, Err: errors.Join(err, unix.ENOTDIR)}
	}
	name := cmd.Args[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	found := error(unix.ENOENT)
	for _, v := range cmd.Env {
		list, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(list, ":") {
			p := filepath.Join(dir, name)
			if dir == "" || unix.Access(p, unix.F_OK) != nil {
				continue
			}
			if unix.Access(p, unix.X_OK) == nil {
				if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
					return p, nil
				}
			}
			found = unix.EACCES
		}
	}
	return "", startError(found)
}

func startError(err error) error {
	cause := driver.CauseNotExecutable
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		cause, err = driver.CauseNotFound, errors.Join(err, unix.ENOENT)
	}
	return &driver.StartError{Step: "exec", Cause: cause, Err: err}
}

// spawn starts a program and marks it before it does anything.
func (c *plainCell) spawn(program string, cmd driver.Command, s *plainStreams) (int, error) {
	runtime.LockOSThread() // a traced process has one tracer
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess(program, cmd.Args, &os.ProcAttr{
		Dir: cmd.Workdir, Env: append([]string{}, cmd.Env...), Files: s.inside[:],
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: cmd.TTY, Ptrace: true},
	})
	if err != nil {
		return 0, err
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.Pid, &ws, 0, nil); err != nil {
		return 0, err
	}
	var limit unix.Rlimit
	err = unix.Prlimit(p.Pid, unix.RLIMIT_MSGQUEUE, nil, &limit)
	if limit.Cur = c.mark; err == nil {
		err = unix.Prlimit(p.Pid, unix.RLIMIT_MSGQUEUE, &limit, nil)
	}
	if err != nil {
		_ = p.Kill()
	}
	return p.Pid, errors.Join(err, unix.PtraceDetach(p.Pid))
}

// await waits for a command, and for the streams of one that the cell ends with.
func (c *plainCell) await(ctx context.Context, pid int, begin time.Time, cmd driver.Command, stdio driver.Stdio, s *plainStreams, last bool) (out driver.Outcome) {
	out.Controls = controls()
	ended := make(chan unix.WaitStatus, 1)
	go func() {
		var ws unix.WaitStatus
		for {
			if _, err := unix.Wait4(pid, &ws, 0, nil); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		ended <- ws
	}()
	var timeout <-chan time.Time
	if cmd.Timeout > 0 {
		timer := time.NewTimer(cmd.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	kill := func() {
		_ = unix.Kill(-pid, unix.SIGKILL)
		if last {
			_ = c.Close()
		}
	}
	done := ctx.Done()
	for {
		select {
		case sig := <-stdio.Signals:
			if n, ok := sig.(syscall.Signal); ok {
				_ = unix.Kill(-pid, n)
			}
		case size := <-stdio.Resize:
			s.resize(size)
		case <-timeout:
			out.TimedOut = true
			kill()
		case <-done:
			out.Killed, done = true, nil
			kill()
		case ws := <-ended:
			out.CommandTook = time.Since(begin)
			settle(&out, ws, c.closed.Load())
			if last {
				_ = c.Close()
				s.finish(0)
			} else {
				s.finish(driver.Lingering)
			}
			return out
		}
	}
}

func settle(out *driver.Outcome, ws unix.WaitStatus, closed bool) {
	out.Code = ws.ExitStatus()
	if ws.Signaled() {
		out.Signal, out.Code = int(ws.Signal()), 128+int(ws.Signal())
	}
	if out.TimedOut {
		out.Code = 124
	} else if closed && out.Signal == int(unix.SIGKILL) {
		out.Killed = true
	}
}

// plainStreams are a command's streams: pipes, or a terminal.
type plainStreams struct {
	inside  [3]*os.File
	outside []*os.File
	copies  sync.WaitGroup
	tty     *os.File
}

func newPlainStreams(cmd driver.Command, stdio driver.Stdio) (*plainStreams, error) {
	s := &plainStreams{}
	if cmd.TTY {
		return s, s.terminal(cmd, stdio)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	s.inside[0] = null
	if stdio.In != nil {
		_ = null.Close()
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.inside[0] = r
		go func() {
			_, _ = io.Copy(w, stdio.In)
			_ = w.Close()
		}()
	}
	for i, to := range []io.Writer{stdio.Out, stdio.Err} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.inside[i+1] = w
		s.copy(to, r)
	}
	return s, nil
}

// copy takes what a command writes. A writer that fails closes the pipe.
func (s *plainStreams) copy(to io.Writer, from *os.File) {
	if to == nil {
		to = io.Discard
	}
	s.outside = append(s.outside, from)
	s.copies.Go(func() {
		if from == s.tty {
			_, _ = io.Copy(struct{ io.Writer }{to}, terminal.Output(mountfd.Output(from)))
			return
		}
		_, _ = io.Copy(struct{ io.Writer }{to}, mountfd.Output(from))
		_ = from.Close()
	})
}

func (s *plainStreams) terminal(cmd driver.Command, stdio driver.Stdio) error {
	master, slave, err := terminaltest.Open()
	if err != nil {
		return err
	}
	s.tty = master
	s.resize(cmd.Size)
	s.inside = [3]*os.File{slave, slave, slave}
	s.copy(stdio.Out, master)
	go func() {
		if stdio.In != nil {
			_, _ = io.Copy(master, stdio.In)
		}
		_, _ = master.Write([]byte{4, 4}) // what a person types to end a line that is not empty, and the input
	}()
	return nil
}

func (s *plainStreams) resize(size driver.WindowSize) {
	if s.tty != nil {
		_ = terminaltest.Size(s.tty, size.Rows, size.Cols)
	}
}

// started lets go of the command's ends.
func (s *plainStreams) started() {
	closed := []*os.File{}
	for _, f := range s.inside {
		if !slices.Contains(closed, f) {
			_ = f.Close()
			closed = append(closed, f)
		}
	}
}

// finish waits for the output; with a limit, no longer than that. It is called when
// the command has ended: a terminal that is closed before sends it SIGHUP, also
// while it exits and has closed its streams already.
func (s *plainStreams) finish(limit time.Duration) {
	if s.tty != nil {
		defer s.tty.Close()
	}
	done := make(chan struct{})
	go func() { s.copies.Wait(); close(done) }()
	if limit == 0 {
		<-done
		return
	}
	select {
	case <-done:
	case <-time.After(limit):
		for _, f := range s.outside {
			_ = f.SetReadDeadline(time.Unix(1, 0))
		}
		<-done
	}
}
