package store

import (
	"errors"
	"testing"
)

// TestReplacedDatabase: a process that opened the database before it was set
// aside gets no lock on the home any more.
func TestReplacedDatabase(t *testing.T) {
	t.Parallel()
	s := open(t)
	other, err := Open(s.path, Write)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	if _, err := s.ResetDatabase(); err != nil {
		t.Fatal(err)
	}
	if lock, err := other.LockHome(false); !errors.Is(err, ErrDatabase) {
		lock.Unlock()
		t.Errorf("%v, want %v", err, ErrDatabase)
	}
	lock, err := s.LockHome(true)
	if err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
}
