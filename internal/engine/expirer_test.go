package engine_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
)

// clocks are a wall clock that can be set, and a steady one.
type clocks struct{ wall, steady atomic.Int64 }

func newClocks() *clocks {
	c := &clocks{}
	c.wall.Store(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	c.steady.Store(int64(time.Hour))
	return c
}

func (c *clocks) now() time.Time         { return time.Unix(0, c.wall.Load()) }
func (c *clocks) boot() time.Duration    { return time.Duration(c.steady.Load()) }
func (c *clocks) set(jump time.Duration) { c.wall.Add(int64(jump)) }
func (c *clocks) pass(d time.Duration)   { c.wall.Add(int64(d)); c.steady.Add(int64(d)) }

// timedWorld has a home, its clocks and an Expirer.
func timedWorld(t *testing.T) (*world, *clocks, *engine.Expirer) {
	t.Helper()
	w, c := newWorld(t), newClocks()
	w.openWith(c.now, 0)
	return w, c, w.e.ExpirerAt(c.boot)
}

func (w *world) timed(name string, s api.Settings) {
	w.Helper()
	_, err := w.e.Init(w.ctx, api.InitRequest{Name: name, From: w.source, Settings: s})
	w.ok(err)
}

// present returns the names of the cells.
func (w *world) present() (names []string) {
	w.Helper()
	list, err := w.e.List(w.ctx)
	w.ok(err)
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names
}

func (w *world) wantPresent(when string, want ...string) {
	w.Helper()
	if got := w.present(); !slices.Equal(got, want) {
		w.Errorf("%s: cells %v, want %v", when, got, want)
	}
}

const (
	minute = api.Duration(time.Minute)
	hour   = api.Duration(time.Hour)
)

// TestTTL: a cell is removed at its time and not before, also by an Expirer that was
// started later.
func TestTTL(t *testing.T) {
	t.Parallel()
	w, c, x := timedWorld(t)
	w.timed("demo", api.Settings{TTL: hour, OnTimeout: "remove"})
	w.timed("stays", api.Settings{TTL: hour})
	w.init("plain", "")
	x.Step(w.ctx)
	c.pass(time.Hour - time.Second)
	if wait := x.Step(w.ctx); wait > time.Second {
		t.Errorf("it waits for %s", wait)
	}
	w.wantPresent("before", "demo", "plain", "stays")
	c.pass(time.Second)
	w.e.ExpirerAt(c.boot).Step(w.ctx)
	w.wantPresent("after", "plain", "stays")
	log, err := w.e.Log(w.ctx, "stays")
	w.ok(err)
	if last := log[len(log)-1]; last.Kind != "expire" || last.Actor != "expiry" || last.Reason != "its ttl of 1h0m0s has passed; the cell was not live" {
		t.Errorf("the log ends with %+v", last)
	}
	x.Step(w.ctx)
	if again, err := w.e.Log(w.ctx, "stays"); err != nil || len(again) != len(log) {
		t.Errorf("it expired again: %+v, %v", again, err)
	}
	w.wantRecovered("stays")
	w.sound("stays", "plain")
}

// TestIdleTimeout: requests, runs and changes of settings count as use.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	w, c, x := timedWorld(t)
	w.timed("demo", api.Settings{IdleTimeout: minute, OnTimeout: "remove"})
	w.timed("stop", api.Settings{IdleTimeout: minute})
	x.Step(w.ctx)
	for when, use := range map[string]func(){
		"a request": func() { x.Touch("demo") },
		"a run":     func() { w.sh("demo", "true") },
		"a change": func() {
			_, err := w.e.Update(w.ctx, api.UpdateRequest{Cell: "demo", Labels: map[string]*string{"n": ptr(time.Now().String())}})
			w.ok(err)
		},
	} {
		c.pass(50 * time.Second)
		use()
		x.Step(w.ctx)
		c.pass(59 * time.Second)
		x.Step(w.ctx)
		w.wantPresent("59 seconds after "+when, "demo", "stop")
		x.Touch("demo")
	}
	x.Touch("other") // which is not there
	c.pass(time.Minute)
	x.Step(w.ctx)
	w.wantPresent("a minute after the last use", "stop")
	w.sound("stop")
}

// TestIdleAfterARestart: uses that were recorded count, and after a crash a cell gets
// the time that may be lost.
func TestIdleAfterARestart(t *testing.T) {
	t.Parallel()
	w, c, x := timedWorld(t)
	w.timed("kept", api.Settings{IdleTimeout: minute, OnTimeout: "remove"})
	w.timed("lost", api.Settings{IdleTimeout: minute, OnTimeout: "remove"})
	x.Step(w.ctx)
	c.pass(50 * time.Second)
	x.Touch("kept")
	x.Flush()
	x.Touch("lost") // and the daemon is killed
	c.pass(11 * time.Second)
	x = w.e.ExpirerAt(c.boot)
	x.Step(w.ctx)
	w.wantPresent("at once", "kept", "lost")
	c.pass(5 * time.Second)
	x.Step(w.ctx)
	w.wantPresent("after 5 seconds", "kept")
	c.pass(44 * time.Second)
	x.Step(w.ctx)
	w.wantPresent("a minute after its last use")
}

// TestClockThatIsSet: whatever happens to the wall clock, no cell ends before its
// time, and each ends at its time by the steady clock.
func TestClockThatIsSet(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"back": -24 * time.Hour, "ahead": 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c, x := timedWorld(t)
			w.timed("old", api.Settings{TTL: hour, OnTimeout: "remove"})
			w.timed("used", api.Settings{IdleTimeout: hour, OnTimeout: "remove"})
			x.Step(w.ctx)
			c.set(jump)
			w.timed("young", api.Settings{TTL: hour, OnTimeout: "remove"})
			x.Step(w.ctx)
			c.pass(30 * time.Minute)
			w.sh("used", "true")
			x.Step(w.ctx)
			c.set(-jump)
			x.Step(w.ctx)
			c.pass(30*time.Minute - time.Second)
			x.Step(w.ctx)
			w.wantPresent("a second before", "old", "used", "young")
			c.pass(time.Second)
			x.Step(w.ctx)
			w.wantPresent("after an hour", "used")
			c.pass(30 * time.Minute)
			x.Step(w.ctx)
			w.wantPresent("an hour after the run")
		})
	}
}

// TestClockBehind: after a start with a clock that is behind, nothing ends early.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	w, c, _ := timedWorld(t)
	w.timed("demo", api.Settings{TTL: hour, IdleTimeout: hour, OnTimeout: "remove"})
	c.set(-24 * time.Hour)
	x := w.e.ExpirerAt(c.boot)
	x.Step(w.ctx)
	c.pass(time.Hour - time.Second)
	x.Step(w.ctx)
	res, err := w.e.Expire(w.ctx, false)
	w.ok(err)
	if len(res.Expired) != 0 {
		t.Errorf("%+v", res)
	}
	w.wantPresent("before its time", "demo")
}

// TestExpireDuringARun: a cell with a run under way is removed when it has ended.
func TestExpireDuringARun(t *testing.T) {
	t.Parallel()
	w, c, x := timedWorld(t)
	w.timed("demo", api.Settings{TTL: minute, IdleTimeout: minute, OnTimeout: "remove"})
	started, finished := make(chan struct{}), make(chan error)
	in, feed := pipe()
	go func() {
		_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "echo go; read x"}}, engine.Stdio{In: in, Out: &trigger{on: started}})
		finished <- err
	}()
	w.started(started, finished)
	x.Step(w.ctx)
	c.pass(time.Hour)
	x.Step(w.ctx)
	w.wantPresent("during the run", "demo")
	w.ok(feed.Close())
	w.ok(<-finished)
	c.pass(time.Second)
	x.Step(w.ctx)
	w.wantPresent("after the run")
	list, err := w.e.ReceiptList(w.ctx, "")
	w.ok(err)
	if len(list) != 1 {
		t.Errorf("receipts %+v", list)
	}
}

// TestExtendedInTime: settings that change between the decision and the act decide.
func TestExtendedInTime(t *testing.T) {
	t.Parallel()
	w, c, x := timedWorld(t)
	w.timed("demo", api.Settings{TTL: minute, OnTimeout: "remove"})
	x.Step(w.ctx)
	c.pass(30 * time.Second)
	_, err := w.e.Update(w.ctx, api.UpdateRequest{Cell: "demo", TTL: ptr(hour)})
	w.ok(err)
	c.pass(31 * time.Second)
	x.Step(w.ctx)
	w.wantPresent("with a longer ttl", "demo")
	_, err = w.e.Update(w.ctx, api.UpdateRequest{Cell: "demo", Name: "other", TTL: ptr(api.Duration(0)), IdleTimeout: ptr(minute)})
	w.ok(err)
	c.pass(59 * time.Second)
	x.Step(w.ctx)
	w.wantPresent("with an idle timeout", "other")
	c.pass(time.Second)
	x.Step(w.ctx)
	w.wantPresent("after it")
}

// TestManyExpireAtOnce: two Expirers and a caller compete for many cells. Each cell
// expires once, and touches and updates go on meanwhile.
func TestManyExpireAtOnce(t *testing.T) {
	t.Parallel()
	w, c, x := timedWorld(t)
	w.init("demo", "")
	_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "f", N: 40, Settings: api.Settings{TTL: minute, OnTimeout: "remove"}})
	w.ok(err)
	_, err = w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "stop", N: 10, Settings: api.Settings{TTL: minute}})
	w.ok(err)
	c.pass(time.Minute)
	other := w.e.ExpirerAt(c.boot)
	var all sync.WaitGroup
	for _, e := range []*engine.Expirer{x, other} {
		all.Go(func() {
			for range 20 {
				e.Step(w.ctx)
				for i := range 40 {
					e.Touch(fmt.Sprintf("f-%d", i))
				}
				c.pass(time.Second)
			}
		})
	}
	all.Go(func() {
		if _, err := w.e.Expire(w.ctx, false); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	if n := len(w.present()); n != 11 {
		t.Errorf("%d cells are left, want 11", n)
	}
	for i := 1; i <= 10; i++ {
		log, err := w.e.Log(w.ctx, fmt.Sprintf("stop-%d", i))
		w.ok(err)
		if len(log) != 2 {
			t.Errorf("stop-%d: %+v", i, log)
		}
	}
	w.sound("demo")
}
