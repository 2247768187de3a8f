package engine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
)

// worker is set in the process that is killed: home, mark and seed.
const worker = "FORKCELL_TEST_WORKER"

// kills is how often each backend's worker is killed.
const kills = 7

// TestKilledAtAnyInstant kills a process that works on a cell, again and again.
// Every run writes two files, and fails unless it wrote both. So they must be
// equal in the cell and in the source after every kill.
func TestKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.write("one", "0\n")
		w.write("two", "0\n")
		w.init("demo", backend)
		seed := seeds(w.T, uint64(len(backend)))[0]
		w.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 11))
		mark := fmt.Sprintf("victim-%s-%d", backend, os.Getpid())
		for round := range kills {
			w.killWorker(rng, mark, round)
			w.open()
			// A child that the dead process had forked may hold its lock until it
			// notices.
			_, held := w.sh("demo", "cmp one two && echo same", func(r *api.RunRequest) { r.Wait = time.Minute })
			if held != "same\n" {
				w.Fatalf("round %d: in the cell: %s", round, held)
			}
			info, err := w.e.Status(w.ctx, "demo")
			w.ok(err)
			if info.State != "idle" {
				w.Fatalf("round %d: %+v", round, info)
			}
			if left := processesWith(w.T, mark); len(left) > 0 {
				w.Fatalf("round %d: still running: %v", round, left)
			}
			if one, two := w.read("one"), w.read("two"); one != two {
				w.Fatalf("round %d: the source has %q and %q", round, one, two)
			}
			w.noMounts()
			w.noStaging()
			_, err = w.e.GC(w.ctx, api.GCRequest{OlderThan: engine.DefaultOlderThan})
			w.ok(err)
			w.sound("demo")
		}
	})
}

// killWorker starts a worker, lets it do some steps, and kills it somewhere in
// the next.
func (w *world) killWorker(rng *rand.Rand, mark string, round int) {
	w.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestWorker$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%d", worker, w.home, mark, round))
	out, err := cmd.StdoutPipe()
	w.ok(err)
	cmd.Stderr = os.Stderr
	w.ok(cmd.Start())
	lines := bufio.NewScanner(out)
	for range 1 + rng.IntN(6) {
		if !lines.Scan() {
			w.Fatalf("round %d: the worker stopped: %v", round, cmd.Wait())
		}
		if !strings.HasPrefix(lines.Text(), "step ") {
			w.Fatalf("round %d: %s", round, lines.Text())
		}
	}
	// The time of the kill varies on purpose; nothing is waited for.
	<-time.After(time.Duration(rng.IntN(40_000)) * time.Microsecond)
	w.ok(cmd.Process.Kill())
	err = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		w.Fatalf("round %d: the worker ended by itself: %v", round, err)
	}
}

func (w *world) noStaging() {
	w.Helper()
	for _, n := range names(w.source) {
		if strings.HasPrefix(n, ".forkcell") {
			w.Errorf("the source has %s", n)
		}
	}
}

// TestWorker is run by other tests as a process: it works until it is killed.
func TestWorker(t *testing.T) {
	part := strings.Split(os.Getenv(worker), "|")
	if len(part) != 3 {
		return
	}
	e, _, err := local.Open(part[0], local.Write, tester())
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(number(part[2])), 13))
	for n := 1; ; n++ {
		fmt.Printf("step %d\n", n)
		if err := work(t.Context(), e, rng, part[1], fmt.Sprintf("%s-%d", part[2], n)); err != nil {
			fmt.Println(err)
			return
		}
	}
}

func work(ctx context.Context, e *engine.Engine, rng *rand.Rand, mark, text string) error {
	var err error
	switch rng.IntN(8) {
	case 0:
		_, err = e.Restore(ctx, api.RestoreRequest{Cell: "demo"})
	case 1, 2:
		_, err = e.Accept(ctx, api.AcceptRequest{Cell: "demo", Apply: true})
	case 3:
		_, err = e.Undo(ctx, api.UndoRequest{Cell: "demo"})
	case 4:
		_, err = e.Refresh(ctx, api.RefreshRequest{Cell: "demo"})
	default:
		script := fmt.Sprintf(": %s; echo %s > one; sleep 0.005; echo %s > two", mark, text, text)
		_, err = e.Run(ctx, api.RunRequest{
			Cell: "demo", Args: []string{"sh", "-c", script}, RestoreOnFail: true, AcceptOnSuccess: rng.IntN(2) == 0,
		}, engine.Stdio{})
	}
	if refused, ok := errors.AsType[*api.Error](err); ok && refused.Kind != api.Failed {
		return nil // there was nothing to do
	}
	return err
}
