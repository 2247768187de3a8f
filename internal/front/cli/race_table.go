package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// raceTable draws the table of a race on a terminal, each time over the last one.
type raceTable struct {
	w    io.Writer
	now  func() time.Time
	size func() (driver.WindowSize, error)

	mu       sync.Mutex
	attempts []api.RaceAttempt
	doing    map[int]string    // what an attempt does now
	since    map[int]time.Time // when a command began that still runs
	drawn    []int             // the lengths of the lines on the screen

	stop  chan struct{}
	ended sync.WaitGroup
}

// What an attempt does that has not ended.
const (
	attemptWaits    = "waiting"
	attemptRuns     = "running"
	attemptIsJudged = "judging"
)

// redrawInterval is the time between two drawings of a table in which nothing but
// the times has changed.
const redrawInterval = time.Second

func (t *raceTable) keepTime() {
	tick := time.NewTicker(redrawInterval)
	defer tick.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
			t.mu.Lock()
			t.draw()
			t.mu.Unlock()
		}
	}
}

func (t *raceTable) event(e api.RaceEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := e.Attempt.Attempt
	switch e.Kind {
	case api.RaceForked:
		t.attempts, t.doing, t.since = e.Attempts, map[int]string{}, map[int]time.Time{}
		for _, a := range e.Attempts {
			t.doing[a.Attempt] = attemptWaits
		}
	case api.RaceStarted:
		t.doing[n], t.since[n] = attemptRuns, t.now()
	case api.RaceJudging:
		t.doing[n] = attemptIsJudged
	case api.RaceAttempted, api.RaceJudged:
		t.attempts[n-1] = e.Attempt
		delete(t.doing, n)
		delete(t.since, n)
	case api.RaceEnded:
		return
	}
	t.draw()
}

// done removes the table from the screen.
func (t *raceTable) done() error {
	close(t.stop)
	t.ended.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	cols, _ := t.screen()
	_, err := io.WriteString(t.w, t.erase(cols))
	t.drawn = nil
	return err
}

// draw writes the table over the last one. A terminal that cannot be written to
// shows nothing; the race goes on.
func (t *raceTable) draw() {
	if len(t.attempts) == 0 {
		return
	}
	cols, rows := t.screen()
	var b bytes.Buffer
	b.WriteString(t.erase(cols))
	t.drawn = nil
	for _, line := range t.lines(cols, rows) {
		b.WriteString(line + "\n")
		t.drawn = append(t.drawn, len([]rune(line)))
	}
	_, _ = t.w.Write(b.Bytes())
}

// screen returns the size of the terminal.
func (t *raceTable) screen() (cols, rows int) {
	size, err := t.size()
	if err != nil || size.Cols == 0 || size.Rows == 0 {
		return 80, 24
	}
	return int(size.Cols), int(size.Rows)
}

// erase returns the bytes that remove the drawn lines. On a terminal that has become
// narrower, one line may have become several.
func (t *raceTable) erase(cols int) string {
	up := 0
	for _, n := range t.drawn {
		up += max(1, (n+cols-1)/cols)
	}
	if up == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", up)
}

// lines returns the table for a screen of this size. If there are too many attempts,
// those that have ended are left out first, then those that wait.
func (t *raceTable) lines(cols, rows int) []string {
	shown := t.attempts
	left := 0
	if most := max(1, rows-3); len(shown) > most {
		shown = t.busiest(most)
		left = len(t.attempts) - len(shown)
	}
	var b bytes.Buffer
	p := newPage(&b, false)
	p.table(raceRows(p, shown, func(a api.RaceAttempt) string {
		if word := t.doing[a.Attempt]; word != "" {
			return word
		}
		return raceOutcome(a)
	}, t.time))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if left > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", left))
	}
	for i := range lines {
		lines[i] = shorten(strings.TrimRight(lines[i], " "), max(1, cols-1))
	}
	return lines
}

// busiest returns the attempts that matter most now, in their order.
func (t *raceTable) busiest(most int) []api.RaceAttempt {
	taken := map[int]bool{}
	for _, rank := range []func(int) bool{
		func(n int) bool { return t.doing[n] == attemptRuns || t.doing[n] == attemptIsJudged },
		func(n int) bool { return t.doing[n] == attemptWaits },
		func(int) bool { return true },
	} {
		for _, a := range t.attempts {
			if len(taken) < most && rank(a.Attempt) {
				taken[a.Attempt] = true
			}
		}
	}
	var out []api.RaceAttempt
	for _, a := range t.attempts {
		if taken[a.Attempt] {
			out = append(out, a)
		}
	}
	return out
}

// time returns how long an attempt took, or takes so far.
func (t *raceTable) time(a api.RaceAttempt) string {
	if begun := t.since[a.Attempt]; !begun.IsZero() {
		return fmt.Sprintf("%ds", int(t.now().Sub(begun).Seconds()))
	}
	if t.doing[a.Attempt] == attemptWaits {
		return "-"
	}
	return timeTaken(a)
}
