package token

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/api"
)

func exceeded(t *testing.T, err error) *ExceededError {
	t.Helper()
	e, ok := errors.AsType[*ExceededError](err)
	if !ok {
		t.Fatalf("not refused: %v", err)
	}
	return e
}

func TestRequestsPerSecond(t *testing.T) {
	t.Parallel()
	c := newClock()
	l, g := NewLimiter(c.now), Grant{ID: "a", Quota: api.Quota{RequestsPerSecond: 2}}
	for range 2 {
		if err := l.Request(g); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // a refused request costs nothing
		if e := exceeded(t, l.Request(g)); e.Quota != "requests_per_second" || e.Retry != 500*time.Millisecond {
			t.Fatalf("%+v", e)
		}
	}
	if err := l.Request(Grant{ID: "b", Quota: g.Quota}); err != nil {
		t.Errorf("another token: %v", err)
	}
	c.move(500 * time.Millisecond)
	if err := l.Request(g); err != nil {
		t.Errorf("after the wait: %v", err)
	}
	g.Quota.RequestsPerSecond = 1000 // the quota was changed: it holds from the next request
	if e := exceeded(t, l.Request(g)); e.Retry != time.Millisecond {
		t.Errorf("after a change of the quota: %+v", e)
	}
	c.move(time.Millisecond)
	if err := l.Request(g); err != nil {
		t.Errorf("after a change of the quota: %v", err)
	}
	for range 100 {
		if err := l.Request(Grant{ID: "c"}); err != nil {
			t.Fatalf("without a quota: %v", err)
		}
	}
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	l := NewLimiter(time.Now)
	g := Grant{ID: "a", Quota: api.Quota{Runs: 2, Memory: 100, CPUs: 1.5}}
	run := Amount{Runs: 1, Memory: 50, CPUs: 500}
	one, err := l.Acquire(g, run, Amount{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(g, Amount{Runs: 1, Memory: 51, CPUs: 1}, Amount{}); exceeded(t, err).Quota != "memory" {
		t.Error(err)
	}
	for memory, tooMuch := range map[int64]bool{51: false, 100: false, 101: true} {
		if _, err := l.Acquire(g, Amount{Runs: 1, Memory: memory, CPUs: 1}, Amount{}); exceeded(t, err).TooMuch != tooMuch {
			t.Errorf("memory %d of 100: %v", memory, err)
		}
	}
	if _, err := l.Acquire(g, Amount{Runs: 1, CPUs: 1}, Amount{}); !exceeded(t, err).Unlimited {
		t.Error(err)
	}
	if _, err := l.Acquire(g, Amount{Runs: 1, Memory: 1, CPUs: 1001}, Amount{}); exceeded(t, err).Quota != "cpus" {
		t.Error(err)
	}
	two, err := l.Acquire(g, run, Amount{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(g, Amount{Runs: 1, Memory: 1, CPUs: 1}, Amount{}); exceeded(t, err).Quota != "runs" {
		t.Error(err)
	}
	one()
	one() // again: nothing more is released
	if used := l.Used("a"); used != run {
		t.Errorf("in use: %+v", used)
	}
	two()
	if used := l.Used("a"); used != (Amount{}) {
		t.Errorf("in use at the end: %+v", used)
	}
	release, err := l.Acquire(Grant{ID: "a"}, Amount{LiveCells: 5}, Amount{})
	if err != nil {
		t.Fatal(err)
	}
	g.Quota.LiveCells = 5
	if _, err := l.Acquire(g, Amount{Memory: 51, CPUs: 1}, Amount{Memory: 50}); exceeded(t, err).Quota != "memory" {
		t.Error(err)
	}
	if _, err := l.Acquire(g, Amount{LiveCells: 1, Memory: 1, CPUs: 1}, Amount{}); exceeded(t, err).Quota != "live_cells" {
		t.Error(err)
	}
	release()
	if err := l.Disk(Grant{Quota: api.Quota{Disk: 10}}, 10); exceeded(t, err).Quota != "disk" {
		t.Error(err)
	}
	if err := l.Disk(Grant{Quota: api.Quota{Disk: 10}}, 9); err != nil {
		t.Error(err)
	}
}

// TestLimiterModel compares histories with a plain sum.
func TestLimiterModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := NewLimiter(time.Now)
		g := Grant{ID: "a", Quota: api.Quota{Runs: rapid.Int64Range(0, 4).Draw(t, "runs"), Memory: rapid.Int64Range(0, 100).Draw(t, "memory")}}
		type held struct {
			amount  Amount
			release func()
		}
		var work []held
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				a := Amount{Runs: 1, Memory: rapid.Int64Range(1, 60).Draw(t, "memory")}
				sum := a
				for _, w := range work {
					sum.add(w.amount, 1)
				}
				fits := (g.Quota.Runs == 0 || sum.Runs <= g.Quota.Runs) && (g.Quota.Memory == 0 || sum.Memory <= g.Quota.Memory)
				release, err := l.Acquire(g, a, Amount{})
				if (err == nil) != fits {
					t.Fatalf("%+v beside %d: %v", a, len(work), err)
				}
				if err == nil {
					work = append(work, held{a, release})
				}
			},
			"release": func(t *rapid.T) {
				if len(work) == 0 {
					t.Skip("nothing is held")
				}
				i := rapid.IntRange(0, len(work)-1).Draw(t, "which")
				work[i].release()
				work = slices.Delete(work, i, i+1)
			},
		})
	})
}

func TestLimiterForgets(t *testing.T) {
	t.Parallel()
	c := newClock()
	l := NewLimiter(c.now)
	hold, err := l.Acquire(Grant{ID: "kept"}, Amount{Runs: 1}, Amount{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 * maxIdle {
		c.move(time.Second)
		if err := l.Request(Grant{ID: fmt.Sprint(i), Quota: api.Quota{RequestsPerSecond: 1000}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.uses) > maxIdle+1 {
		t.Errorf("%d tokens are remembered", len(l.uses))
	}
	if l.Used("kept").Runs != 1 {
		t.Error("a token in use was forgotten")
	}
	hold()
}

func TestLimiterConcurrently(t *testing.T) {
	t.Parallel()
	l, g := NewLimiter(time.Now), Grant{ID: "a", Quota: api.Quota{Runs: 3}}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 100 {
				if release, err := l.Acquire(g, Amount{Runs: 1}, Amount{}); err == nil {
					if used := l.Used("a").Runs; used > 3 {
						t.Errorf("%d at once", used)
					}
					release()
				}
				_ = l.Request(g)
			}
		})
	}
	wg.Wait()
	if used := l.Used("a"); used != (Amount{}) {
		t.Errorf("in use at the end: %+v", used)
	}
}

// checks is a Checker with fixed answers.
type checks map[string]Grant

func (c checks) Check(secret string) (Grant, error) {
	if g, ok := c[secret]; ok {
		return g, nil
	}
	return Grant{}, ErrRefused
}

func TestGuessingIsSlow(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := NewGate(checks{"used": {ID: "1"}, "new": {ID: "2"}}, c.now)
	peer, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	if _, err := g.Check(peer, "used"); err != nil {
		t.Fatal(err)
	}
	for range wrongBurst {
		if _, err := g.Check(peer, "guess"); !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
	}
	// From now on a guess gets no answer, even if it is right.
	for _, secret := range []string{"guess", "new"} {
		if wait, ok := errors.AsType[*WaitError](second(g.Check(peer, secret))); !ok || wait.Retry != time.Second/wrongPerSecond {
			t.Errorf("%s: %v", secret, wait)
		}
	}
	// Those who are known, and other peers, are not locked out.
	for _, try := range []struct {
		peer   netip.Addr
		secret string
	}{{peer, "used"}, {other, "used"}, {netip.MustParseAddr("::ffff:192.0.2.2"), "new"}} {
		if _, err := g.Check(try.peer, try.secret); err != nil {
			t.Errorf("%+v: %v", try, err)
		}
	}
	guesses := 0
	for range 1000 { // in 100 seconds
		c.move(100 * time.Millisecond)
		if _, err := g.Check(peer, "guess"); errors.Is(err, ErrRefused) {
			guesses++
		}
	}
	if guesses > 101 {
		t.Errorf("%d guesses in 100 seconds", guesses)
	}
}

func TestGuessingOfANetwork(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := NewGate(checks{}, c.now)
	answers := 0
	for i := range 100 {
		peer := netip.MustParseAddr(fmt.Sprintf("2001:db8::%x%%eth0", i+1))
		if _, err := g.Check(peer, "guess"); errors.Is(err, ErrRefused) {
			answers++
		}
	}
	if answers != wrongBurst {
		t.Errorf("%d guesses of one IPv6 network were answered", answers)
	}
}

func TestGateIsBounded(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := NewGate(checks{"good": {ID: "1"}}, c.now)
	addr := netip.MustParseAddr("10.0.0.0")
	answered := 0
	for range 2 * maxPeers {
		addr = addr.Next()
		if _, err := g.Check(addr, "guess"); errors.Is(err, ErrRefused) {
			answered++
		}
	}
	if len(g.wrong) > maxPeers || answered > maxPeers+wrongBurst {
		t.Errorf("%d peers, %d answers", len(g.wrong), answered)
	}
	c.move(time.Minute)
	if _, err := g.Check(addr.Next(), "good"); err != nil || len(g.wrong) != 1 {
		t.Errorf("after a pause: %v, %d peers", err, len(g.wrong))
	}
}

func TestGateTellsFailures(t *testing.T) {
	t.Parallel()
	b, h, _ := newTestBook(t)
	if err := h.ChangeTokens(func([]byte) ([]byte, error) { return []byte("x"), nil }); err != nil {
		t.Fatal(err)
	}
	secret := secretPrefix + string(make([]byte, secretLen))
	if _, err := NewGate(b, time.Now).Check(netip.Addr{}, secret); !errors.Is(err, ErrDamaged) {
		t.Errorf("have %v", err)
	}
}
