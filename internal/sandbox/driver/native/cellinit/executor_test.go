package cellinit

import (
	"runtime"
	"testing"
)

// TestMoreThreads is not parallel: it changes the runtime of the whole process.
func TestMoreThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for started, want := range map[int]int{1: running, running: running, 4: 4} {
		runtime.GOMAXPROCS(started)
		moreThreads()
		if n := runtime.GOMAXPROCS(0); n != want {
			t.Errorf("started with %d: %d", started, n)
		}
	}
}
