package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"
)

// canFreeze says whether this host lets the present user freeze a cell.
func canFreeze() (bool, error) {
	host, err := cgroup.Detect(cgroup.Options{})
	if err != nil {
		return false, err
	}
	return host.Can(cgroup.Freezer).Status == cgroup.Works, nil
}

// stopLive ends what a script that failed has left.
func stopLive(home string) {
	e, release, err := local.Open(home, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		return
	}
	defer func() { _ = release() }()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	cells, _ := e.List(ctx)
	for _, c := range cells {
		if c.State == "live" {
			_, _ = e.Stop(ctx, api.StopRequest{Cell: c.Name})
		}
	}
}

// home is one home with one cell, whose supervisors are separate processes.
type home struct {
	*testing.T
	e    *engine.Engine
	path string
}

func newHome(t *testing.T, backend string) *home {
	t.Helper()
	dir := t.TempDir()
	h := &home{T: t, path: filepath.Join(dir, "home")}
	source := filepath.Join(dir, "src")
	h.ok(os.MkdirAll(source, 0o755))
	h.ok(os.WriteFile(filepath.Join(source, "file"), []byte("one\n"), 0o644))
	e, release, err := local.Open(h.path, local.Create, caller.Caller{Actor: func() string { return "tester" }})
	h.ok(err)
	h.e = e
	t.Cleanup(func() {
		stopLive(h.path)
		h.ok(release())
	})
	_, err = e.Init(t.Context(), api.InitRequest{Name: "demo", From: source, Backend: backend})
	h.ok(err)
	return h
}

func (h *home) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *home) start() *api.StartResult {
	h.Helper()
	res, err := h.e.Start(h.Context(), api.StartRequest{Cell: "demo"})
	h.ok(err)
	return res
}

func (h *home) stop() *api.RunResult {
	h.Helper()
	res, err := h.e.Stop(h.Context(), api.StopRequest{Cell: "demo", Grace: -1})
	h.ok(err)
	return res
}

// sh executes a shell script in the live cell.
func (h *home) sh(script string) string {
	h.Helper()
	var out bytes.Buffer
	res, err := h.e.Exec(h.Context(), shell(script), engine.Stdio{Out: &out, Err: &out})
	if err != nil || res.ExitCode != 0 {
		h.Fatalf("%s: %+v, %v\n%s", script, res, err, out.String())
	}
	return out.String()
}

func shell(script string) api.ExecRequest {
	return api.ExecRequest{Cell: "demo", Args: []string{"sh", "-c", script}}
}

// sound checks what must hold when no cell is live.
func (h *home) sound() {
	h.Helper()
	if res, err := h.e.Verify(h.Context(), "demo", "", true); err != nil {
		h.Fatalf("verify: %v %+v", err, res)
	}
	if res, err := h.e.ReceiptVerify(h.Context(), "", "", true, ""); err != nil {
		h.Fatalf("receipts: %v %+v", err, res)
	}
	for _, dir := range []string{"pending", "sockets"} {
		left, err := os.ReadDir(filepath.Join(h.path, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
			h.Fatalf("%s holds %v, %v", dir, left, err)
		}
	}
	h.nothingMounted()
}

func (h *home) nothingMounted() {
	h.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	h.ok(err)
	if strings.Contains(string(mounts), h.path) {
		h.Errorf("something of the home is mounted:\n%s", mounts)
	}
}

// processesWith lists the processes of the host whose command line holds a mark.
func processesWith(mark string) (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range dirs {
		data, err := os.ReadFile(f)
		if err == nil && bytes.Contains(data, []byte(mark)) && !strings.HasPrefix(f, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			found = append(found, f+" "+strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return found
}

// groupsOf lists control groups with the id of a run in their name.
func groupsOf(run string) []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/*" + run + "*", "/sys/fs/cgroup/*/*" + run + "*", "/sys/fs/cgroup/*/*/*" + run + "*"} {
		list, _ := filepath.Glob(pattern)
		found = append(found, list...)
	}
	return found
}

func TestLiveManyExecsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.start()
	const many = 24
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			in := strings.Repeat(fmt.Sprintf("line %d of many\n", i), 8000)
			var out, errs bytes.Buffer
			req := shell(fmt.Sprintf("echo begin-%d >&2; cat; exit %d", i, i))
			res, err := h.e.Exec(h.Context(), req, engine.Stdio{In: strings.NewReader(in), Out: &out, Err: &errs})
			if err != nil || res.ExitCode != i || out.String() != in || errs.String() != fmt.Sprintf("begin-%d\n", i) {
				t.Errorf("%d: %+v, %v, %d of %d bytes, %q", i, res, err, out.Len(), len(in), errs.String())
			}
		})
	}
	wg.Wait()
	res := h.stop()
	// Each is a pair of events, between the begin and the end of the run.
	if got := res.Events["allowed"]; got != 2*many+2 {
		t.Errorf("%d events, want %d", got, 2*many+2)
	}
	stdout, stderr, err := h.e.Logs(h.Context(), "demo", "")
	h.ok(err)
	defer stdout.Close()
	defer stderr.Close()
	kept, err := io.ReadAll(stdout)
	h.ok(err)
	if n := bytes.Count(kept, []byte("\n")); n != many*8000 {
		t.Errorf("%d lines were kept, want %d", n, many*8000)
	}
	h.sound()
}

// watcher reports when a text has been written to it.
type watcher struct {
	mu   sync.Mutex
	all  bytes.Buffer
	wake chan struct{}
}

func newWatcher() *watcher { return &watcher{wake: make(chan struct{}, 1)} }

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.all.Write(p)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

func (w *watcher) await(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(w.String(), text) {
		select {
		case <-w.wake:
		case <-time.After(time.Minute):
			t.Fatalf("no %q in %q", text, w.String())
		}
	}
}

// TestLiveTerminal: size, change of size, Ctrl-C, job control, and the end of
// the input.
func TestLiveTerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.start()
	keys, typing := io.Pipe()
	out := newWatcher()
	sizes := make(chan driver.WindowSize)
	done := make(chan *api.ExecResult, 1)
	go func() {
		req := api.ExecRequest{Cell: "demo", Args: []string{"sh", "-i"}, TTY: true, Size: api.WindowSize{Rows: 30, Cols: 90}}
		res, err := h.e.Exec(h.lasting(), req, engine.Stdio{In: keys, Out: out, Resize: sizes})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	say := func(line, want string) {
		t.Helper()
		_, err := io.WriteString(typing, line)
		h.ok(err)
		out.await(t, want)
	}
	say("stty size\n", "30 90")
	sizes <- driver.WindowSize{Rows: 41, Cols: 103}
	say("until stty size | grep 41; do :; done; echo re$((1))sized\n", "re1sized")
	say("sh -c 'echo run$((1))ning; exec sleep 600'\n", "run1ning")
	say("\x03", "^C")
	say("echo al$((1))ive\n", "al1ive")
	say("sleep 603 & jobs; kill -9 %1; wait; echo jo$((1))bs\n", "jo1bs")
	h.ok(typing.Close())
	if res := <-done; res == nil || res.ExecID == "" {
		t.Fatalf("%+v", res)
	}
	h.stop()
	h.sound()
}

// TestLiveDetach leaves a command, comes back to it, and to its exit.
func TestLiveDetach(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.start()
	keys, typing := io.Pipe()
	out := newWatcher()
	left := make(chan *api.ExecResult, 1)
	go func() {
		req := api.ExecRequest{Cell: "demo", Args: []string{"sh"}, TTY: true, Detachable: true}
		res, err := h.e.Exec(h.lasting(), req, engine.Stdio{In: keys, Out: out})
		if err != nil {
			t.Error(err)
		}
		left <- res
	}()
	_, err := io.WriteString(typing, "echo be$((1))fore\n")
	h.ok(err)
	out.await(t, "be1fore")
	_, err = io.WriteString(typing, "\x10\x11")
	h.ok(err)
	res := <-left
	if !res.Detached {
		t.Fatalf("%+v", res)
	}
	status, err := h.e.Status(h.Context(), "demo")
	h.ok(err)
	if n := len(status.Live.Sessions); n != 1 || !status.Live.Sessions[0].Running {
		t.Fatalf("%+v", status.Live)
	}
	again, more := io.Pipe()
	back := newWatcher()
	done := make(chan *api.ExecResult, 1)
	go func() {
		res, err := h.e.Attach(h.lasting(), api.ExecRequest{Cell: "demo"}, res.ExecID[:20], engine.Stdio{In: again, Out: back})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	back.await(t, "be1fore")
	_, err = io.WriteString(more, "exit 9\n")
	h.ok(err)
	if res := <-done; res.ExitCode != 9 {
		t.Fatalf("%+v", res)
	}
	if res, err := h.e.Attach(h.Context(), api.ExecRequest{Cell: "demo"}, res.ExecID, engine.Stdio{}); err != nil || res.ExitCode != 9 {
		t.Fatalf("%+v, %v", res, err)
	}
	if _, err := h.e.Attach(h.Context(), api.ExecRequest{Cell: "demo"}, "exec_none", engine.Stdio{}); api.KindOf(err) != api.NotFound {
		t.Errorf("no such session: %v", err)
	}
	h.stop()
	h.sound()
}

// TestLiveClientKilled: when a caller is killed, its command ends, and
// nothing else.
func TestLiveClientKilled(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.start()
	ctx, cancel := context.WithCancel(h.Context())
	out := newWatcher()
	done := make(chan error, 1)
	go func() {
		_, err := h.e.Exec(ctx, shell("echo ready; sleep 604; sleep 605"), engine.Stdio{Out: out})
		done <- err
	}()
	out.await(t, "ready")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for {
		list, err := h.e.Processes(h.Context(), "demo")
		h.ok(err)
		if len(list) == 1 {
			break
		}
	}
	h.sh("true")
	h.stop()
	h.sound()
}

// stuck is a client that reads a little and then stops reading.
type stuck struct {
	once    sync.Once
	reads   chan struct{}
	release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.reads) })
	<-s.release
	return len(p), nil
}

// TestLiveStopWithAStuckClient: a client that does not read the output of its command
// does not keep the cell from ending.
func TestLiveStopWithAStuckClient(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.start()
	out := &stuck{reads: make(chan struct{}), release: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := h.e.Exec(h.lasting(), shell("yes | head -c 50000000"), engine.Stdio{Out: out})
		done <- err
	}()
	<-out.reads
	h.stop()
	close(out.release)
	<-done // with what it got before it was hung up on
	h.sound()
}

// TestLiveSupervisorKilled: nothing runs, is mounted or left, and the process that comes
// next finishes the run.
func TestLiveSupervisorKilled(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"overlay", "clone", "delta"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, backend)
			res := h.start()
			mark := fmt.Sprintf("mark-%s-%d", backend, os.Getpid())
			h.sh("echo two > file; (sh -c ': " + mark + "; sleep 606; :' >/dev/null 2>&1 &)")
			lost := make(chan error, 1)
			out := newWatcher()
			go func() {
				_, err := h.e.Exec(h.lasting(), shell("echo ready; : "+mark+"; sleep 607; :"), engine.Stdio{Out: out})
				lost <- err
			}()
			out.await(t, "ready")
			h.ok(syscall.Kill(res.PID, syscall.SIGKILL))
			if err := <-lost; err == nil || !strings.Contains(err.Error(), "has died") {
				t.Errorf("a client of the dead supervisor: %v", err)
			}
			// The lock goes with the process, which may take a moment to die.
			after, err := h.e.Run(h.Context(), api.RunRequest{Cell: "demo", Args: []string{"cat", "file"}, RunOptions: api.RunOptions{Wait: time.Minute}}, engine.Stdio{})
			if err != nil || after.ExitCode != 0 {
				t.Fatalf("%+v, %v", after, err)
			}
			if left := processesWith(mark); len(left) > 0 {
				t.Errorf("still running: %v", left)
			}
			if left := groupsOf(res.RunID); len(left) > 0 {
				t.Errorf("control groups: %v", left)
			}
			list, err := h.e.ReceiptList(h.Context(), "demo")
			h.ok(err)
			if len(list) != 2 || list[0].RunID != res.RunID && list[1].RunID != res.RunID {
				t.Errorf("receipts %+v", list)
			}
			for _, r := range list {
				if r.RunID == res.RunID && r.Outcome != "interrupted" {
					t.Errorf("outcome %s", r.Outcome)
				}
			}
			h.sound()
		})
	}
}

// TestLiveCheckpointWhileWriting: of two files that are written one after the
// other, a checkpoint never has the second one newer than the first.
func TestLiveCheckpointWhileWriting(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"overlay", "clone", "delta"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, backend)
			h.start()
			out := newWatcher()
			ctx, cancel := context.WithCancel(h.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = h.e.Exec(ctx, shell("i=0; while :; do i=$((i+1)); echo $i > first; echo $i > second; test $i = 3 && echo ready; done"), engine.Stdio{Out: out})
			}()
			out.await(t, "ready")
			for round := range 3 {
				res, err := h.e.Checkpoint(h.Context(), "demo", fmt.Sprintf("round-%d", round))
				if can, _ := canFreeze(); !can {
					var refused *api.Error
					if !errors.As(err, &refused) || refused.Kind != api.Refused || refused.Code != "freezer" {
						t.Fatalf("without a freezer: %v", err)
					}
					break
				}
				h.ok(err)
				if !res.Live || res.PauseUS <= 0 {
					t.Errorf("%+v", res)
				}
				name := fmt.Sprintf("fork-%d", round)
				_, err = h.e.Fork(h.Context(), api.ForkRequest{Cell: "demo", Name: name, Checkpoint: res.CheckpointID})
				h.ok(err)
				h.ordered(name)
				if round == 0 {
					_, err = h.e.Fork(h.Context(), api.ForkRequest{Cell: "demo", Name: "straight"})
					h.ok(err)
					h.ordered("straight")
				}
			}
			cancel()
			<-ended
			h.stop()
			h.sound()
		})
	}
}

// ordered fails if a cell's second file is ahead of its first, or torn.
func (h *home) ordered(name string) {
	h.Helper()
	var out bytes.Buffer
	res, err := h.e.Run(h.Context(), api.RunRequest{Cell: name, Args: []string{"cat", "first", "second"}}, engine.Stdio{Out: &out})
	h.ok(err)
	lines := strings.Fields(out.String())
	if res.ExitCode != 0 || len(lines) == 0 {
		h.Errorf("%s: exit %d, %q", name, res.ExitCode, lines)
	}
	// A file that was just truncated is empty.
	if len(lines) == 2 {
		first, err1 := strconv.Atoi(lines[0])
		second, err2 := strconv.Atoi(lines[1])
		if err1 != nil || err2 != nil || second > first || first > second+1 {
			h.Errorf("%s: first %q, second %q", name, lines[0], lines[1])
		}
	}
}

// TestLiveCyclesLeaveNothing runs alone: it counts open files.
func TestLiveCyclesLeaveNothing(t *testing.T) {
	h := newHome(t, "")
	before := openFiles(t)
	var runs []string
	for i := range 20 {
		runs = append(runs, h.start().RunID)
		h.sh(fmt.Sprintf("echo %d > file", i))
		if res := h.stop(); res.Outcome != "succeeded" {
			t.Fatalf("%+v", res)
		}
	}
	for _, run := range runs {
		if left := groupsOf(run); len(left) > 0 {
			t.Errorf("control groups: %v", left)
		}
	}
	// A supervisor that has answered may still be ending.
	for limit := time.Now().Add(30 * time.Second); len(processesWith(h.path)) > 0; <-time.After(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("still running: %v", processesWith(h.path))
		}
	}
	if after := openFiles(t); after > before+4 {
		t.Errorf("%d open files, %d before", after, before)
	}
	h.sound()
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestLiveStartInterrupted: a start that is interrupted at any time before it
// is ready leaves nothing.
func TestLiveStartInterrupted(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	kept := 0
	for i := range 12 {
		ctx, cancel := context.WithTimeout(h.Context(), time.Duration(i)*4*time.Millisecond)
		_, err := h.e.Start(ctx, api.StartRequest{Cell: "demo"})
		cancel()
		if err == nil {
			kept++
			h.stop()
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		status, err := h.e.Status(h.Context(), "demo")
		h.ok(err)
		if status.State != "idle" || status.Runs != kept {
			t.Fatalf("round %d: %+v", i, status)
		}
	}
	h.sound()
}

// TestLiveRacesOfStop: execs, captures and stops at once.
func TestLiveRacesOfStop(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	for range 3 {
		h.start()
		h.sh("(sleep 608 >/dev/null 2>&1 &)")
		var wg sync.WaitGroup
		results := make(chan string, 3)
		for range 3 {
			wg.Go(func() {
				if res, err := h.e.Stop(h.Context(), api.StopRequest{Cell: "demo"}); err == nil {
					results <- res.ReceiptID
				}
			})
			wg.Go(func() { _, _ = h.e.Exec(h.Context(), shell("echo x > y"), engine.Stdio{}) })
			wg.Go(func() { _, _ = h.e.Checkpoint(h.Context(), "demo", "") })
		}
		wg.Wait()
		close(results)
		var all []string
		for id := range results {
			all = append(all, id)
		}
		slices.Sort(all)
		if len(slices.Compact(all)) != 1 {
			t.Errorf("receipts %v", all)
		}
	}
	h.sound()
}

// TestLiveKeyRotated: a supervisor signs its later statements with the new key.
func TestLiveKeyRotated(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.start()
	h.sh("echo two > file")
	_, _ = h.e.Checkpoint(h.Context(), "demo", "")
	_, err := h.e.KeyRotate(h.Context())
	h.ok(err)
	h.sh("echo three > file")
	h.stop()
	h.sound()
}

// TestSupervisorIsAlone: a supervisor has no file of its caller, and little of
// its environment.
func TestSupervisorIsAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := filepath.Join(dir, "src")
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "home")
	run := func(args ...string) []byte {
		t.Helper()
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Args[0] = "forkcell"
		cmd.Env = append(os.Environ(), "FORKCELL_HOME="+path, "CALLERS_SECRET=x", "TESTSCRIPT_COMMAND=forkcell")
		secret, err := os.Open("/etc/hostname")
		if err != nil {
			t.Fatal(err)
		}
		defer secret.Close()
		cmd.ExtraFiles = []*os.File{secret, secret, secret}
		out, errs, err := finish(t, cmd)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, errs)
		}
		return []byte(out)
	}
	run("init", "demo", "--from", source)
	t.Cleanup(func() { stopLive(path) })
	var res api.StartResult
	if err := json.Unmarshal(run("start", "demo", "--json"), &res); err != nil {
		t.Fatal(err)
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", res.PID))
	if errors.Is(err, os.ErrPermission) && os.Geteuid() != 0 {
		run("stop", "demo") // it is hidden even from its own user
		return
	}
	if err != nil || bytes.Contains(environ, []byte("CALLERS_SECRET")) {
		t.Errorf("%v, %q", err, environ)
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", res.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", res.PID, fd.Name())); to == "/etc/hostname" {
			t.Errorf("descriptor %s is the caller's", fd.Name())
		}
	}
	run("stop", "demo")
}
