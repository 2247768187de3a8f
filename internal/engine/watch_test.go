package engine_test

import (
	"testing"

	"github.com/forkcell/forkcell/internal/front/local"
)

// TestLookingIsNotHolding: listing the cells never makes one busy.
func TestLookingIsNotHolding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	stop, stopped := make(chan struct{}), make(chan error)
	const watchers = 4
	for range watchers {
		watcher, release, err := local.Open(w.home, local.Read, tester())
		w.ok(err)
		defer release()
		go func() {
			for {
				select {
				case <-stop:
					stopped <- nil
					return
				default:
				}
				if _, err := watcher.List(w.ctx); err != nil {
					stopped <- err
					return
				}
			}
		}()
	}
	busy := 0
	for range 150 {
		if _, err := w.e.Checkpoint(w.ctx, "demo", ""); err != nil {
			busy++
			t.Log(err)
		}
	}
	close(stop)
	for range watchers {
		w.ok(<-stopped)
	}
	if busy > 0 {
		t.Fatalf("%d of 150 found the cell busy while it was only looked at", busy)
	}
}
