package store

import (
	"sync"
	"testing"
)

// TestViewsDoNotWait reads while a transaction of the same process is open: every
// view ends before the transaction does, and sees nothing of it.
func TestViewsDoNotWait(t *testing.T) {
	t.Parallel()
	s := open(t)
	put := func(tx *Tx, id string) error { return tx.PutIntent(id, "cell", "test", struct{}{}) }
	count := func() int {
		n := 0
		if err := s.View(func(tx *Tx) error {
			list, err := tx.Intents("cell")
			n = len(list)
			return err
		}); err != nil {
			t.Error(err)
		}
		return n
	}
	err := s.Update(func(tx *Tx) error {
		if err := put(tx, "one"); err != nil {
			return err
		}
		var views sync.WaitGroup
		for range 50 {
			views.Go(func() {
				if n := count(); n != 0 {
					t.Errorf("a view sees %d of what is not committed", n)
				}
			})
		}
		views.Wait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 1 {
		t.Errorf("%d intents after the transaction", n)
	}
	// A view cannot write, whichever connection it gets.
	err = s.Update(func(*Tx) error {
		if err := s.View(func(tx *Tx) error { return put(tx, "two") }); err == nil {
			t.Error("a view has written")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestUpdatesDoNotWait updates the database while a long view of the same process reads
// it: the update is committed before the view ends, and the view does not see it.
func TestUpdatesDoNotWait(t *testing.T) {
	t.Parallel()
	s := open(t)
	err := s.ViewApart(func(tx *Tx) error {
		if _, err := tx.Intents("cell"); err != nil {
			return err
		}
		if !s.mu.TryLock() {
			t.Fatal("the view has the connection that writes")
		}
		s.mu.Unlock()
		if err := s.Update(func(tx *Tx) error { return tx.PutIntent("one", "cell", "test", struct{}{}) }); err != nil {
			return err
		}
		list, err := tx.Intents("cell")
		if len(list) != 0 {
			t.Errorf("the view sees %v", list)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
