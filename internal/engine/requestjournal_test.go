package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/history"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// journalWorld is a home with a journal of requests, in which time passes when
// everything waits for it.
type journalWorld struct {
	*world
	journal *history.RequestJournal
}

func withJournal(t *testing.T, fn func(w *journalWorld)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &journalWorld{world: newWorld(t)}
		w.openWith(time.Now, 0)
		w.init("demo", "")
		var err error
		w.journal, err = w.e.OpenRequests()
		w.ok(err)
		end := sync.OnceFunc(w.journal.Close)
		t.Cleanup(end)
		fn(w)
		end()
		w.wantUnsigned("")
	})
}

// request records a request of a caller, and waits until it is written.
func (w *journalWorld) request(caller string) {
	w.journal.Record(event.Call{ID: "req_1", Method: "GET", Route: "/v1/cells", Caller: caller, Status: 200})
	synctest.Wait()
}

// pass lets time pass.
func (w *journalWorld) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wantUnsigned checks the home, and what its check says of records that are not signed.
func (w *journalWorld) wantUnsigned(note string) {
	w.Helper()
	res, err := w.e.VerifyReceipts(w.ctx, api.ReceiptVerifyRequest{All: true})
	w.ok(err)
	if got := strings.Join(res.Notes, "; "); !res.OK || got != note {
		w.Errorf("%q, want %q: %+v", got, note, res)
	}
}

// statements returns the number of signed statements.
func (w *journalWorld) statements() int {
	w.Helper()
	list, err := os.ReadDir(filepath.Join(w.home, "log", "0000000"))
	w.ok(err)
	return len(list)
}

// files returns the names of the journal's files.
func (w *journalWorld) files() (names []string) {
	w.Helper()
	list, err := os.ReadDir(filepath.Join(w.home, "requests"))
	w.ok(err)
	for _, f := range list {
		names = append(names, f.Name())
	}
	return names
}

// TestRequestsAreSignedHourly: each hour in which there were requests has a statement.
func TestRequestsAreSignedHourly(t *testing.T) {
	withJournal(t, func(w *journalWorld) {
		before := w.statements()
		w.request("a")
		w.request("b")
		w.wantUnsigned("2 records of requests not signed yet")
		w.pass(time.Hour - time.Second)
		w.wantUnsigned("2 records of requests not signed yet")
		w.pass(time.Second)
		w.wantUnsigned("")
		w.pass(10 * time.Hour)
		if n := w.statements() - before; n != 1 {
			w.Errorf("%d statements", n)
		}
		w.request("c")
		w.wantUnsigned("1 record of requests not signed yet")
		w.pass(time.Hour)
		w.wantUnsigned("")
		w.request("d") // signed when the journal is closed
		if n := w.statements() - before; n != 2 {
			w.Errorf("%d statements", n)
		}
	})
}

// TestRequestsWithoutToken: nobody without a token fills the journal. The first requests of
// a peer are recorded, the others counted; callers that are known are recorded one by one.
func TestRequestsWithoutToken(t *testing.T) {
	withJournal(t, func(w *journalWorld) {
		w.request("first") // makes the file
		flood := func(n int, from func(i int) string) int {
			before := w.records()
			for i := range n {
				w.journal.Record(event.Call{ID: "req_1", Method: "GET", Route: "/v1/cells", From: from(i), Status: 401})
			}
			synctest.Wait()
			w.pass(10 * time.Minute)
			return w.records() - before
		}
		if n := flood(5000, func(int) string { return "192.0.2.1" }); n != 11 {
			w.Errorf("one peer has %d records", n)
		}
		if n := flood(5000, func(i int) string { return fmt.Sprintf("2001:db8::%x", i) }); n != 11 {
			w.Errorf("one network has %d records", n)
		}
		if n := flood(5000, func(i int) string { return fmt.Sprintf("10.0.%d.%d", i/256, i%256) }); n > 200 {
			w.Errorf("many peers have %d records", n)
		}
		before := w.records()
		for range 50 {
			w.request("known")
		}
		if n := w.records() - before; n != 50 {
			w.Errorf("a known caller has %d records of 50", n)
		}
		text, err := os.ReadFile(filepath.Join(w.home, "requests", w.files()[0]))
		w.ok(err)
		if !strings.Contains(string(text), `"count":4990`) {
			w.Errorf("the journal does not say how many requests there were")
		}
	})
}

// records returns the number of records in the newest file.
func (w *journalWorld) records() int {
	w.Helper()
	list, err := os.ReadDir(filepath.Join(w.home, "requests"))
	w.ok(err)
	if len(list) == 0 {
		return 0
	}
	text, err := os.ReadFile(filepath.Join(w.home, "requests", list[len(list)-1].Name()))
	w.ok(err)
	return strings.Count(string(text), "\n")
}

// TestRequestFilesRotate begins the next file when one is full, and removes the oldest
// ones when all together are too large. A signed statement says which are left.
func TestRequestFilesRotate(t *testing.T) {
	withJournal(t, func(w *journalWorld) {
		before := w.statements()
		name := func(n int) string { return fmt.Sprintf("%010d.jsonl", n) }
		for w.request("first"); len(w.files()) < 2; {
			for range 100 {
				w.request(strings.Repeat("x", 1<<15))
			}
		}
		if n := w.statements() - before; n != 1 {
			w.Errorf("%d statements about the first file", n)
		}
		// The rest of the space is that of the first file, which has holes.
		w.ok(os.Truncate(filepath.Join(w.home, "requests", name(1)), 512<<20))
		w.pass(time.Hour)
		if got := w.files(); !slices.Equal(got, []string{name(2)}) {
			w.Errorf("%v", got)
		}
		w.wantUnsigned("")
	})
}
