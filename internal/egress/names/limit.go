package names

import (
	"sync"
	"time"
)

// Limits keep a cell from using questions to wear out its supervisor or to fill
// the journal. The zero Limits are the defaults.
type Limits struct {
	// Rate is how many questions are answered in a second; 0 means 1000. As
	// many may come at once. What comes faster waits its turn, so that a burst
	// of honest lookups is slowed and not failed.
	Rate int
	// Denied is how many names that no rule allows are told in a run, each
	// answered NXDOMAIN; 0 means 2048. Further ones are REFUSED and counted.
	Denied int
	// DeniedRate is how many of those may be new in a second; 0 means 50. Four
	// seconds' worth may come at once.
	DeniedRate int
	// Conns is how many TCP connections are open at once; 0 means 64.
	Conns int
	// Idle is how long a TCP connection may be silent, and how long it may
	// take to read an answer; 0 means 10 seconds.
	Idle time.Duration
}

const (
	defaultRate       = 1000
	defaultDenied     = 2048
	defaultDeniedRate = 50
	deniedBurst       = 4
	defaultConns      = 64
	defaultIdle       = 10 * time.Second

	// again is when a name that is still asked for is told once more.
	again = time.Minute
)

func or[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// bucket is a token bucket; it starts full.
type bucket struct {
	rate, burst float64
	tokens      float64
	last        time.Time
}

func newBucket(rate, burst int) bucket {
	return bucket{rate: float64(rate), burst: float64(burst), tokens: float64(burst)}
}

func (b *bucket) fill(now time.Time) {
	if !b.last.IsZero() {
		b.tokens = min(b.burst, b.tokens+max(0, now.Sub(b.last).Seconds())*b.rate)
	}
	b.last = now
}

// take reports whether there was a token.
func (b *bucket) take(now time.Time) bool {
	b.fill(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// reserve takes a token, if need be one that is not there yet, and returns how
// long to wait for it.
func (b *bucket) reserve(now time.Time) time.Duration {
	b.fill(now)
	b.tokens--
	if b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens / b.rate * float64(time.Second))
}

// ledger remembers which names were told, and how often there was no room for
// another one.
type ledger struct {
	mu         sync.Mutex
	now        func() time.Time
	questions  bucket
	news       bucket
	told       map[string]told
	denied     int // names in told that were ever denied
	maxDenied  int
	suppressed uint64    // since overflow was last told
	overflow   time.Time // when it was last told
	stats      Stats
}

type told struct {
	at      time.Time
	denied  bool
	counted bool // in ledger.denied
}

func newLedger(l Limits, now func() time.Time) *ledger {
	rate, news := or(l.Rate, defaultRate), or(l.DeniedRate, defaultDeniedRate)
	return &ledger{
		now:       now,
		questions: newBucket(rate, rate),
		news:      newBucket(news, deniedBurst*news),
		told:      make(map[string]told),
		maxDenied: or(l.Denied, defaultDenied),
	}
}

// Stats counts what a server was asked.
type Stats struct {
	// Questions that came, senseless ones too.
	Questions uint64
	// Denied ones among them.
	Denied uint64
	// Suppressed are the denied ones that were over a limit: REFUSED, without
	// an event of their own.
	Suppressed uint64
}

// question counts one and returns how long its answer has to wait.
func (l *ledger) question() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Questions++
	return l.questions.reserve(l.now())
}

// allowed reports whether an answered name is to be told: the first time, after
// it was denied before, and now and then while it is in use.
func (l *ledger) allowed(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	t, ok := l.told[name]
	if ok && !t.denied && now.Sub(t.at) < again {
		return false
	}
	l.told[name] = told{at: now, counted: t.counted}
	return true
}

// deny reports whether a denied name is to be told, and whether it was over the
// limits. If it was, then tell is about that very fact, with the number of
// questions since it was last told.
func (l *ledger) deny(name string) (tell, over bool, suppressed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.stats.Denied++
	t, ok := l.told[name]
	if ok && t.denied && now.Sub(t.at) < again {
		return false, false, 0
	}
	if !t.counted && (l.denied >= l.maxDenied || !l.news.take(now)) {
		l.stats.Suppressed++
		l.suppressed++
		if !l.overflow.IsZero() && now.Sub(l.overflow) < again {
			return false, true, 0
		}
		suppressed, l.suppressed, l.overflow = l.suppressed, 0, now
		return true, true, suppressed
	}
	if !t.counted {
		l.denied++
	}
	l.told[name] = told{at: now, denied: true, counted: true}
	return true, false, 0
}
