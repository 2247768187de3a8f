package engine_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
)

// writer is the environment variable with the home that TestWriter changes.
const writer = "FORKCELL_TEST_WRITER"

// TestWriter is the other process of TestReadersSeeOneMoment: it changes a home
// until its standard input ends, and then says how often.
func TestWriter(t *testing.T) {
	spec := os.Getenv(writer)
	if spec == "" {
		return
	}
	what, home, _ := strings.Cut(spec, "|")
	e, release, err := local.Open(home, local.Write, tester())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	rounds := 0
	for ; ctx.Err() == nil; rounds++ {
		if err := change(t.Context(), e, what, rounds); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("rounds", rounds)
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func change(ctx context.Context, e *engine.Engine, what string, round int) error {
	if what == "fork" {
		name := "fork-" + strconv.Itoa(round)
		if _, err := e.Fork(ctx, api.ForkRequest{Cell: "demo", Name: name}); err != nil {
			return err
		}
		return e.Remove(ctx, name, false)
	}
	script := "echo " + strconv.Itoa(round) + " > hello.txt"
	if _, err := e.Run(ctx, api.RunRequest{Cell: "busy", Args: []string{"sh", "-c", script}}, engine.Stdio{}); err != nil {
		return err
	}
	if _, err := e.Accept(ctx, api.AcceptRequest{Cell: "busy"}); err != nil {
		return err
	}
	_, err := e.GC(ctx, api.GCRequest{})
	return err
}

// readers is the number of readings of TestReadersSeeOneMoment; 0 means two
// seconds.
var readers = flag.Int("readers", 0, "how many reads TestReadersSeeOneMoment does; 0 is for two seconds")

// TestReadersSeeOneMoment: while other processes fork, run, accept, collect and
// remove, a verification always finds log and database consistent. Reading
// verbs neither block the writers nor finish their work.
func TestReadersSeeOneMoment(t *testing.T) {
	t.Parallel()
	if *readers == 0 {
		end := time.Now().Add(2 * time.Second)
		newWorld(t).readBeside(func(int) bool { return time.Now().Before(end) })
		return
	}
	// A verification reads the whole log, so a new home is quicker to read.
	const each = 10
	for done := 0; done < *readers; done += each {
		newWorld(t).readBeside(func(reads int) bool { return reads < each })
	}
}

// readBeside reads a home while others change it, until more returns false.
func (w *world) readBeside(more func(reads int) bool) {
	w.Helper()
	w.init("demo", "")
	w.init("busy", "")
	var ends []func() int
	for _, what := range []string{"fork", "run"} {
		ends = append(ends, w.startWriter(what))
	}
	e, release, err := local.Open(w.home, local.Read, tester())
	w.ok(err)
	defer func() { _ = release() }()
	reads := 0
	for ; more(reads); reads++ {
		res, err := e.ReceiptVerify(w.ctx, "", "", true, "")
		if err != nil {
			w.Fatalf("read %d: %v %v", reads, err, res.Problems)
		}
		info, err := e.Status(w.ctx, "busy")
		w.ok(err)
		if strings.Contains(info.State, "interrupted") {
			w.Fatalf("read %d: a run that goes on is shown as %s", reads, info.State)
		}
		_, err = e.Log(w.ctx, "busy")
		w.ok(err)
		_, err = e.List(w.ctx)
		w.ok(err)
	}
	rounds := []int{}
	for _, end := range ends {
		rounds = append(rounds, end())
	}
	w.Logf("%d reads beside %v changes", reads, rounds)
	w.sound("demo", "busy")
}

// TestReadOfFreedState: a reader of a state that gc frees says so, and reports no damage.
func TestReadOfFreedState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	w.sh("demo", "echo new > new.txt")
	begin := func() io.Writer {
		_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
		w.ok(err)
		_, err = w.e.GC(w.ctx, api.GCRequest{OlderThan: time.Nanosecond})
		w.ok(err)
		return io.Discard
	}
	w.refused(w.e.ExportTo(w.ctx, api.ExportRequest{Cell: "demo"}, begin), api.Refused, "was freed by gc")
}

// TestVerifyBesideGC: a state that gc frees while it is verified is no difference.
func TestVerifyBesideGC(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	for range 10 {
		base, err := w.e.Status(w.ctx, "demo")
		w.ok(err)
		for n := range 6 {
			w.sh("demo", "echo "+strconv.Itoa(n)+" > n")
		}
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: base.Head})
		w.ok(err)
		collected := make(chan error, 1)
		go func() {
			_, err := w.e.GC(w.ctx, api.GCRequest{OlderThan: time.Nanosecond})
			collected <- err
		}()
		for done := false; !done; {
			select {
			case err := <-collected:
				w.ok(err)
				done = true
			default:
			}
			if res, err := w.e.Verify(w.ctx, "demo", "", true); err != nil {
				w.Fatalf("%v %+v", err, res)
			}
		}
	}
}

// startWriter starts a process that changes the home. The returned function
// ends it and returns the number of changes.
func (w *world) startWriter(what string) (end func() int) {
	w.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestWriter$", "-test.v")
	cmd.Env = append(os.Environ(), writer+"="+what+"|"+w.home)
	in, err := cmd.StdinPipe()
	w.ok(err)
	out, err := cmd.StdoutPipe()
	w.ok(err)
	cmd.Stderr = os.Stderr
	w.ok(cmd.Start())
	return func() int {
		w.Helper()
		w.ok(in.Close())
		rounds, all := 0, ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			all += lines.Text() + "\n"
			if n, ok := strings.CutPrefix(lines.Text(), "rounds "); ok {
				rounds, _ = strconv.Atoi(n)
			}
		}
		if err := cmd.Wait(); err != nil || rounds == 0 {
			w.Fatalf("the process that does %s: %v, %d rounds\n%s", what, err, rounds, all)
		}
		return rounds
	}
}

// TestDeadRunIsShownAndLeft: reading verbs show a run whose process died as
// unfinished, and do not finish it. The next changing verb does.
func TestDeadRunIsShownAndLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.sh("demo", "true")
	w.killWhileItRuns("demo")
	const unfinished = "interrupted (unfinished)"
	for range 2 {
		info, err := w.e.Status(w.ctx, "demo")
		w.ok(err)
		list, err := w.e.List(w.ctx)
		w.ok(err)
		log, err := w.e.Log(w.ctx, "demo")
		w.ok(err)
		last := log[len(log)-1]
		if info.State != unfinished || list[0].State != unfinished || info.LastOutcome != unfinished ||
			last.Outcome != unfinished || last.RunID != info.LastRun {
			t.Fatalf("status %+v\nls %+v\nlog %+v", info, list, last)
		}
		_, err = w.e.Processes(w.ctx, "demo")
		w.refused(err, api.Refused, "not started")
		_, err = w.e.FollowLogs(w.ctx, "demo", "", false, io.Discard, io.Discard)
		w.ok(err)
		if receipts, err := w.e.ReceiptList(w.ctx, "demo"); err != nil || len(receipts) != 1 {
			t.Fatalf("%v %+v", err, receipts)
		}
	}
	w.ok(w.settle("demo"))
	info, err := w.e.Status(w.ctx, "demo")
	w.ok(err)
	if info.State != "idle" || info.LastOutcome != "interrupted" {
		t.Fatalf("finished: %+v", info)
	}
	w.sound("demo")
}

// killWhileItRuns kills the process of a run, and waits until its lock is free.
func (w *world) killWhileItRuns(name string) {
	w.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestSleeper$")
	cmd.Env = append(os.Environ(), sleeper+"="+name+"|"+w.home)
	out, err := cmd.StdoutPipe()
	w.ok(err)
	w.ok(cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "asleep\n" {
		w.Fatalf("the run says %q, %v", line, err)
	}
	w.ok(cmd.Process.Kill())
	_ = cmd.Wait()
	for deadline := time.Now().Add(time.Minute); ; {
		info, err := w.e.Status(w.ctx, name)
		w.ok(err)
		if info.State != api.StateRunning {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("the lock of a killed process is still held: %+v", info)
		}
	}
}

// sleeper is the environment variable with the cell in which TestSleeper runs.
const sleeper = "FORKCELL_TEST_SLEEPER"

// TestSleeper is the process that killWhileItRuns kills.
func TestSleeper(t *testing.T) {
	spec := os.Getenv(sleeper)
	if spec == "" {
		return
	}
	name, home, _ := strings.Cut(spec, "|")
	e, release, err := local.Open(home, local.Write, tester())
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Run(t.Context(), api.RunRequest{Cell: name, Args: []string{"sh", "-c", "echo half > hello.txt; echo asleep; exec sleep 600"}},
		engine.Stdio{Out: os.Stdout})
	t.Fatal(err, release())
}

// TestLogShowsDecisions: log shows what was decided about each run.
func TestLogShowsDecisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	one, _ := w.sh("demo", "echo 1 > one")
	two, _ := w.sh("demo", "echo 2 > two")
	three, _ := w.sh("demo", "echo 3 > three")
	_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
	w.ok(err)
	_, err = w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Run: one.RunID})
	w.ok(err)
	want := map[string]string{one.RunID: "accepted", two.RunID: "pending", three.RunID: "restored"}
	log, err := w.e.Log(w.ctx, "demo")
	w.ok(err)
	for _, l := range log {
		if l.Kind == "run" && l.Decision != want[l.RunID] {
			t.Errorf("run %s is shown as %s, it is %s", l.RunID, l.Decision, want[l.RunID])
		}
	}
}
