package supervise

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// taken is one turn of a test, and when it was taken.
type taken struct {
	by    string
	asked int64
	at    time.Duration
}

// TestTurnClock: turns are due when programs ask, commands are quiet or the time has
// come, and at most once a second.
func TestTurnClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var list []taken
		asks := make(chan int64)
		c := newTurnClock(api.TurnRequest{Asked: true, Quiet: 2 * time.Second, Every: time.Minute}, asks, func(by string, asked int64) error {
			list = append(list, taken{by, asked, time.Since(begin)})
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		go c.run(ctx)
		for range 3 { // the first one at once, the others together after a second
			asks <- 1
			synctest.Wait()
		}
		<-time.After(5 * time.Second)
		c.note()
		<-time.After(time.Second)
		c.note() // quiet begins again
		<-time.After(10 * time.Second)
		<-time.After(time.Minute)
		cancel()
		synctest.Wait()
		want := []taken{
			{api.TurnByAsk, 1, 0}, {api.TurnByAsk, 2, time.Second}, {api.TurnByQuiet, 0, 8 * time.Second}, {api.TurnByTime, 0, 68 * time.Second},
		}
		if len(list) != len(want) {
			t.Fatalf("%+v", list)
		}
		for i := range want {
			if list[i] != want[i] {
				t.Errorf("turn %d: %+v, want %+v", i, list[i], want[i])
			}
		}
	})
}

// TestTurnClockEnds: a failed turn is the last one.
func TestTurnClockEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := newTurnClock(api.TurnRequest{Every: time.Second}, nil, func(string, int64) error {
			n++
			return errors.New("the cell ends")
		})
		c.run(t.Context())
		if n != 1 {
			t.Errorf("%d turns", n)
		}
	})
}

// TestReadAsks: each line is a request, also if several are read together.
func TestReadAsks(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"": 0, "\n": 1, "\n\n\n": 3, "no line": 1} {
		to := make(chan int64, 1)
		readAsks(strings.NewReader(text), to, nil)
		close(to)
		if got := <-to; got != want {
			t.Errorf("%q: %d requests, want %d", text, got, want)
		}
	}
}
