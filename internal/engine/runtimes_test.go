package engine_test

import (
	"context"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// countingDriver counts the questions about cells that exist.
type countingDriver struct {
	driver.Driver
	held, reaped atomic.Int32
	onHeld       func()
	dies         bool // as the process does, while a run is under way
}

func (d *countingDriver) Run(ctx context.Context, s driver.Spec, stdio driver.Stdio) (driver.Outcome, error) {
	if d.dies {
		runtime.Goexit()
	}
	return d.Driver.Run(ctx, s, stdio)
}

func (d *countingDriver) HeldSpace(r driver.Record, since time.Time) (int64, error) {
	if d.held.Add(1) == 1 {
		d.onHeld()
	}
	return d.Driver.HeldSpace(r, since)
}

func (d *countingDriver) Reap(id string, r driver.Record, limit time.Duration) error {
	d.reaped.Add(1)
	return d.Driver.Reap(id, r, limit)
}

// TestOwnDriver: the driver that made a cell is asked about it, and no other.
func TestOwnDriver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	input, stop := pipe()
	end := func() { _ = stop.Close() }
	usual := &countingDriver{Driver: native.New(native.Options{}), onHeld: end}
	other := &countingDriver{Driver: native.New(native.Options{}), onHeld: end}
	w.openDrivers(usual, map[string]driver.Driver{"gvisor": other})
	w.write("one", "1\n")
	w.init("demo", "clone")
	req := api.RunRequest{Cell: "demo", Args: []string{"cat"}}
	req.Runtime, req.Policy, req.WatchDisk = "gvisor", policyText("limits: { disk: 1GiB }\n"), true

	res, err := w.e.Run(w.ctx, req, engine.Stdio{In: input, Out: io.Discard, Err: io.Discard})
	w.ok(err)
	if res.Outcome != "succeeded" || other.held.Load() == 0 || usual.held.Load() != 0 {
		t.Errorf("%s; the other driver was asked %d times what its cell holds, the native one %d times", res.Outcome, other.held.Load(), usual.held.Load())
	}

	other.dies = true
	ctx, cancel := context.WithCancel(w.ctx)
	var run sync.WaitGroup
	run.Go(func() { _, _ = w.e.Run(ctx, req, engine.Stdio{Out: io.Discard, Err: io.Discard}) })
	run.Wait()
	cancel()
	w.ok(w.settle("demo"))
	if other.reaped.Load() != 1 || usual.reaped.Load() != 0 {
		t.Errorf("the other driver was asked %d times whether its cell has ended, the native one %d times", other.reaped.Load(), usual.reaped.Load())
	}
}

// openDrivers replaces the engine by one with these drivers.
func (w *world) openDrivers(usual driver.Driver, others map[string]driver.Driver) {
	w.Helper()
	s, err := store.Open(w.home, store.Create)
	w.ok(err)
	ws, err := workspace.Open(w.home, workspace.Options{Root: os.Geteuid() == 0})
	w.ok(err)
	w.Cleanup(func() {
		_ = ws.Close()
		_ = s.Close()
	})
	w.e = engine.New(engine.Config{Store: s, Workspace: ws, Driver: usual, Runtimes: others, Caller: tester(), Home: w.home, Now: time.Now})
}
