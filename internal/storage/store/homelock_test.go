package store

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestHomeLockIsFair: a process that wants the home alone gets it although
// others always want to share it. Later ones wait behind it.
func TestHomeLockIsFair(t *testing.T) {
	t.Parallel()
	s, err := Open(filepath.Join(t.TempDir(), "home"), Create)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var stop atomic.Bool
	var wg sync.WaitGroup
	var held atomic.Int64
	for range 20 {
		wg.Go(func() {
			for !stop.Load() {
				lock, err := s.LockHome(false)
				if err != nil {
					t.Error(err)
					return
				}
				held.Add(1)
				<-time.After(5 * time.Millisecond) // the work of a writer
				held.Add(-1)
				lock.Unlock()
			}
		})
	}
	for range 5 {
		lock, err := s.LockHome(true)
		if err != nil {
			t.Fatal(err)
		}
		if n := held.Load(); n != 0 {
			t.Errorf("%d others hold the lock too", n)
		}
		lock.Unlock()
	}
	stop.Store(true)
	wg.Wait()
}
