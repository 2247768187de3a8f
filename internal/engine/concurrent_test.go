package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
)

// TestTwoAtOnce: a busy cell refuses, names the holder, and can be waited for.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	started, finished := make(chan struct{}), make(chan error)
	in, feed := pipe()
	go func() {
		out := &trigger{on: started}
		_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "echo go; read x; echo $x > hello.txt"}},
			engine.Stdio{In: in, Out: out})
		finished <- err
	}()
	w.started(started, finished)
	other, release, err := local.Open(w.home, local.Write, tester())
	w.ok(err)
	defer release()
	_, err = other.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}}, engine.Stdio{})
	w.refused(err, api.Busy, "(run) has held its lock since")
	w.refused(other.Remove(w.ctx, "demo", false), api.Busy, "busy")
	_, err = other.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "side"})
	w.ok(err)
	waited := make(chan error)
	go func() {
		_, err := other.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}, RunOptions: api.RunOptions{Wait: time.Minute}}, engine.Stdio{})
		waited <- err
	}()
	fmt.Fprintln(feed, "done")
	w.ok(feed.Close())
	w.ok(<-finished)
	w.ok(<-waited)
	w.wantInside("demo", "hello.txt", "done\n")
	w.wantInside("side", "hello.txt", "hello\n")
	w.sound("demo", "side")
}

// TestKeyRotatedDuringARun: a run that signed something before its command
// started signs its receipt with the key that the home has by then.
func TestKeyRotatedDuringARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	started, finished := make(chan struct{}), make(chan error)
	in, feed := pipe()
	go func() {
		_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", CheckpointName: "before", Args: []string{"sh", "-c", "echo go; read x"}},
			engine.Stdio{In: in, Out: &trigger{on: started}})
		finished <- err
	}()
	w.started(started, finished)
	other, release, err := local.Open(w.home, local.Write, tester())
	w.ok(err)
	defer release()
	_, err = other.KeyRotate(w.ctx)
	w.ok(err)
	w.ok(feed.Close())
	w.ok(<-finished)
	w.sound("demo")
}

// TestManyCellsAtOnce: cells of one home do not block each other, and their
// common log has no gap.
func TestManyCellsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", N: 6})
	w.refused(err, api.Usage, "a fork needs a name")
	_, err = w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "f", N: 6})
	w.ok(err)
	var group sync.WaitGroup
	errs := make(chan error, 100)
	for i := 1; i <= 6; i++ {
		group.Go(func() {
			e, release, err := local.Open(w.home, local.Write, tester())
			if err != nil {
				errs <- err
				return
			}
			defer release()
			name := fmt.Sprintf("f-%d", i)
			for n := range 3 {
				_, err := e.Run(w.ctx, api.RunRequest{Cell: name, Args: []string{"sh", "-c", fmt.Sprintf("echo %d >> hello.txt", n)}}, engine.Stdio{})
				if err != nil {
					errs <- err
				}
			}
		})
	}
	group.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	w.wantInside("f-3", "hello.txt", "hello\n0\n1\n2\n")
	w.sound("demo", "f-1", "f-6")
	list, err := w.e.ReceiptList(w.ctx, "f-2")
	w.ok(err)
	if len(list) != 3 {
		t.Fatalf("f-2 has %d receipts", len(list))
	}
}

// TestManyRunsAreSquashed: a deep stack of layers becomes one layer, and the
// state stays the same.
func TestManyRunsAreSquashed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	for i := range 55 {
		w.sh("demo", fmt.Sprintf("echo %d >> hello.txt", i))
	}
	info, err := w.e.Status(w.ctx, "demo")
	w.ok(err)
	if info.Layers > 51 {
		t.Fatalf("the stack has %d layers", info.Layers)
	}
	_, got := w.sh("demo", "wc -l < hello.txt")
	if strings.TrimSpace(got) != "56" {
		t.Fatalf("hello.txt has %s lines", got)
	}
	w.sound("demo")
}
