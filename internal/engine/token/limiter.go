package token

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/forkcell/forkcell/internal/api"
)

// QuotaDisk is the key of the quota of disk space.
const QuotaDisk = "disk"

// Amount is the part of a quota that one piece of work uses while it lasts.
type Amount struct {
	LiveCells, Runs int64
	// Memory is the limit of the work in bytes, CPUs in thousandths of a processor;
	// 0 is no limit.
	Memory, CPUs int64
	// Disk is the space in bytes that work under way has taken so far.
	Disk int64
}

// ExceededError says that a quota does not allow something.
type ExceededError struct {
	// Quota is the key of the quota file.
	Quota string
	// Retry is the time after which a request is allowed; 0 if that depends on the
	// end of other work.
	Retry time.Duration
	// Unlimited says that the work has no limit where the quota needs one.
	Unlimited bool
	// TooMuch says that the work needs more than the whole quota, whatever else ends.
	TooMuch bool
}

func (e *ExceededError) Error() string {
	switch {
	case e.Unlimited:
		return fmt.Sprintf("the token has a quota of %s, so that the work needs a limit of it", e.Quota)
	case e.TooMuch:
		return fmt.Sprintf("the work needs more than the whole quota of %s", e.Quota)
	}
	return fmt.Sprintf("the quota of %s is used up", e.Quota)
}

// Limiter counts what tokens use, and refuses what their quotas do not allow. It is
// safe for concurrent use. Counts belong to the id of a token and survive a change
// of its quota, which every call brings along.
type Limiter struct {
	now func() time.Time

	mu    sync.Mutex
	uses  map[string]*use
	swept time.Time // when tokens were forgotten last
}

// use is the part of its quota that a token uses now.
type use struct {
	held     Amount
	ended    int64         // how often work that takes disk space has ended
	requests *rate.Limiter // nil before the first request with a quota
}

// maxIdle is the number of tokens from which those that use nothing are forgotten.
const maxIdle = 1024

// sweepEvery is the least time between two searches for what can be forgotten.
const sweepEvery = time.Second

// NewLimiter returns a limiter in which nothing is used.
func NewLimiter(now func() time.Time) *Limiter {
	return &Limiter{now: now, uses: map[string]*use{}}
}

// Request counts a request. The error is an *ExceededError with the time to wait.
func (l *Limiter) Request(g Grant) error {
	perSecond := g.Quota.RequestsPerSecond
	if perSecond == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	u, now := l.of(g.ID), l.now()
	burst := max(1, int(math.Ceil(perSecond)))
	switch {
	case u.requests == nil:
		u.requests = rate.NewLimiter(rate.Limit(perSecond), burst)
	case u.requests.Limit() != rate.Limit(perSecond):
		u.requests.SetLimitAt(now, rate.Limit(perSecond))
		u.requests.SetBurstAt(now, burst)
	}
	r := u.requests.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	r.CancelAt(now)
	return &ExceededError{Quota: "requests_per_second", Retry: wait}
}

// Acquire takes an amount out of a quota until release is called. beside is what the
// token uses that the limiter does not count. It takes all of it or, with an
// *ExceededError, nothing. Release may be called more than once.
func (l *Limiter) Acquire(g Grant, a, beside Amount) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(g.ID)
	if err := u.held.Plus(beside).exceeds(a, g.Quota); err != nil {
		return nil, err
	}
	return l.take(g.ID, u, a), nil
}

func (l *Limiter) take(id string, u *use, a Amount) func() {
	u.held.add(a, 1)
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		// What holds something is never forgotten, so this is the same use.
		l.uses[id].held.add(a, -1)
	})
}

// Disk refuses more work for a token whose cells use its disk quota. used is their
// space in bytes.
func (l *Limiter) Disk(g Grant, used int64) error {
	if g.Quota.Disk != 0 && used >= g.Quota.Disk {
		return &ExceededError{Quota: QuotaDisk}
	}
	return nil
}

// Used returns what a token uses now.
func (l *Limiter) Used(id string) Amount {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.uses[id]; u != nil {
		return u.held
	}
	return Amount{}
}

// of returns the use of a token. The caller holds mu.
func (l *Limiter) of(id string) *use {
	u := l.uses[id]
	if u == nil {
		l.forgetIdle()
		u = &use{}
		l.uses[id] = u
	}
	return u
}

// forgetIdle drops the tokens for which forgetting changes nothing.
func (l *Limiter) forgetIdle() {
	now := l.now()
	if len(l.uses) < maxIdle || now.Sub(l.swept) < sweepEvery {
		return
	}
	l.swept = now
	for id, u := range l.uses {
		if u.held == (Amount{}) && (u.requests == nil || isFull(u.requests, now)) {
			delete(l.uses, id)
		}
	}
}

// isFull reports whether a limiter is as a new one.
func isFull(r *rate.Limiter, now time.Time) bool { return r.TokensAt(now) >= float64(r.Burst()) }

// Whole returns all that a quota allows.
func Whole(q api.Quota) Amount {
	return Amount{LiveCells: q.LiveCells, Runs: q.Runs, Memory: q.Memory, CPUs: milli(q.CPUs)}
}

// Plus returns the sum of two amounts.
func (a Amount) Plus(b Amount) Amount {
	a.add(b, 1)
	return a
}

func (a *Amount) add(b Amount, sign int64) {
	a.LiveCells += sign * b.LiveCells
	a.Runs += sign * b.Runs
	a.Memory += sign * b.Memory
	a.CPUs += sign * b.CPUs
	a.Disk += sign * b.Disk
}

// exceeds returns why a quota does not allow more beside what is held.
func (a Amount) exceeds(more Amount, q api.Quota) error {
	for _, c := range []struct {
		quota            string
		held, more, most int64
		limit            bool // work without a limit of it could use any amount
	}{
		{"live_cells", a.LiveCells, more.LiveCells, q.LiveCells, false},
		{"runs", a.Runs, more.Runs, q.Runs, false},
		{"memory", a.Memory, more.Memory, q.Memory, true},
		{"cpus", a.CPUs, more.CPUs, milli(q.CPUs), true},
	} {
		switch {
		case c.most == 0:
		case c.limit && c.more == 0:
			return &ExceededError{Quota: c.quota, Unlimited: true}
		case c.more > 0 && c.more > c.most-c.held:
			return &ExceededError{Quota: c.quota, TooMuch: c.more > c.most}
		}
	}
	return nil
}

// milli returns processors in thousandths.
func milli(cpus float64) int64 { return int64(math.Round(cpus * 1000)) }
