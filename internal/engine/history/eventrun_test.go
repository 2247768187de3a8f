package history

import (
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/storage/store"
)

// TestEventRunFinishedLate: the journal of a run goes on until its receipt is made, which
// may be long after its end.
func TestEventRunFinishedLate(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Millisecond)
	for _, c := range []struct {
		finished time.Time
		receipt  string
		since    time.Time
	}{
		{now.Add(-24 * time.Hour), store.NewID("rcpt"), now},
		{now.Add(time.Hour), store.NewID("rcpt"), now.Add(time.Hour)}, // the clock was set back
		{now.Add(-time.Hour), "", now.Add(-time.Hour)},
	} {
		if ended := eventRun(store.Run{State: "done", FinishedAt: c.finished, ReceiptID: c.receipt}).EndedTime; ended.Before(c.since) {
			t.Errorf("finished at %v, receipt %q: ended at %v", c.finished, c.receipt, ended)
		}
	}
}
