package names

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits prevent a cell from overloading its supervisor or filling the journal
// with questions. The zero Limits are the defaults.
type Limits struct {
	// Rate is how many questions are answered in a second; 0 means 1000. As
	// many may arrive at once. Faster ones wait, so that a burst of ordinary
	// lookups is slowed and does not fail.
	Rate int
	// Denied is how many names and types that no rule allows are reported in a
	// run, each answered NXDOMAIN; 0 means 2048. Further ones are REFUSED and
	// counted.
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

	// repeatInterval is the interval after which a repeated question is reported once
	// more.
	repeatInterval = time.Minute
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

// reserve takes a token, possibly a future one, and returns how long to wait
// for it.
func (b *bucket) reserve(now time.Time) time.Duration {
	b.fill(now)
	b.tokens--
	if b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens / b.rate * float64(time.Second))
}

// question identifies a reported question: a name and a type.
type question struct {
	name string
	kind uint16
}

// reportLimiter bounds how often questions are answered and reported. It records
// which were reported, and how often they came since. The zero question stands for all that were over the limits.
type reportLimiter struct {
	mu        sync.Mutex
	now       func() time.Time
	questions bucket
	newDenied bucket
	known     map[question]*knownQuestion
	denied    int // questions in known that were ever denied
	maxDenied int
	stats     stats
}

// knownQuestion is a question that was reported or denied at least once.
type knownQuestion struct {
	at      time.Time // of the last report
	query   Query     // as last reported
	more    Query     // questions since then; Count is 0 if there were none
	counted bool      // in reportLimiter.denied
}

func newReportLimiter(l Limits, now func() time.Time) *reportLimiter {
	rate, denied := or(l.Rate, defaultRate), or(l.DeniedRate, defaultDeniedRate)
	return &reportLimiter{
		now:       now,
		questions: newBucket(rate, rate),
		newDenied: newBucket(denied, deniedBurst*denied),
		known:     make(map[question]*knownQuestion),
		maxDenied: or(l.Denied, defaultDenied),
	}
}

// stats counts the questions to a server.
type stats struct {
	// Questions counts all, malformed ones included.
	Questions uint64
	// Denied counts the denied ones among them.
	Denied uint64
	// Suppressed counts the denied ones that were over a limit: REFUSED,
	// without a separate event.
	Suppressed uint64
}

// question counts one and returns how long its answer has to wait.
func (l *reportLimiter) question() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Questions++
	return l.questions.reserve(l.now())
}

// admitDenied reports whether a denied question is within the limits. A new one is
// counted.
func (l *reportLimiter) admitDenied(key question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Denied++
	t := l.known[key]
	if t != nil && t.counted {
		return true
	}
	if l.denied >= l.maxDenied || !l.newDenied.take(l.now()) {
		l.stats.Suppressed++
		return false
	}
	l.denied++
	if t == nil {
		t = &knownQuestion{}
		l.known[key] = t
	}
	t.counted = true
	return true
}

// isNew reports whether a question was never reported.
func (l *reportLimiter) isNew(key question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.known[key]
	return t == nil || t.at.IsZero()
}

// record counts a question and returns what to report: the first question, a
// changed answer, and a summary from time to time while it is repeated.
func (l *reportLimiter) record(key question, q Query) (due []Query) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	t := l.known[key]
	if t == nil {
		t = &knownQuestion{}
		l.known[key] = t
	}
	if !t.at.IsZero() {
		q.Client, q.PID, q.Binary = t.query.Client, t.query.PID, t.query.Binary
	}
	q.Count, q.From, q.To = 1, now, now
	if t.more.Count > 0 && t.more.Reason == q.Reason {
		q.Count, q.From = t.more.Count+1, t.more.From
	} else if t.more.Count > 0 {
		due = append(due, t.more)
	}
	if !t.at.IsZero() && t.query.Reason == q.Reason && now.Sub(t.at) < repeatInterval {
		t.more = q
		return due
	}
	due = append(due, q)
	t.at, t.query, t.more = now, q, Query{}
	// The connection is not kept: it does not outlast the question.
	t.query.Client.Conn = nil
	return due
}

// takeUnreported returns what was not reported yet.
func (l *reportLimiter) takeUnreported() []Query {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Query
	for _, t := range l.known {
		if t.more.Count > 0 {
			list = append(list, t.more)
			t.more = Query{}
		}
	}
	slices.SortFunc(list, func(a, b Query) int {
		return cmp.Or(a.From.Compare(b.From), strings.Compare(a.Name, b.Name), strings.Compare(a.Type, b.Type))
	})
	return list
}
